"""A writer at full speed: commits without pause until its standard input ends.

Every transaction books an amount out of one table and into the other, and counts the generation up. So in
every committed state the two tables cancel, and as many bookings were made as the generation says.
"""

import select
import sqlite3
import sys

path, journal_mode = sys.argv[1:]
store = sqlite3.connect(path, timeout=60, isolation_level=None)
store.execute(f"PRAGMA journal_mode = {journal_mode}")
store.execute("PRAGMA synchronous = off")

generation = store.execute("SELECT number FROM generation").fetchone()[0]
while not select.select([sys.stdin], [], [], 0)[0]:
    generation += 1
    store.execute("BEGIN IMMEDIATE")
    # Each booking changes pages all over the file.
    account = generation * 7919 % 5000 + 1
    store.execute("UPDATE debit SET amount = amount - ?, booked = booked + 1 WHERE account = ?", (generation, account))
    store.execute("UPDATE generation SET number = ?", (generation,))
    store.execute("UPDATE credit SET amount = amount + ?, booked = booked + 1 WHERE account = ?", (generation, 5001 - account))
    store.execute("COMMIT")
    print(generation, flush=True)
