"""Executes each line of its input, which begins with the number of the step to halt at (0: at none)."""
import ctypes
import sqlite3
import sys

halt = ctypes.CDLL(None)
store = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for line in iter(sys.stdin.readline, ""):
    at, sql = line.split(" ", 1)
    halt.halt_arm(ctypes.c_long(int(at)))
    store.execute(sql).fetchall()
    halt.halt_disarm()
    print("done", flush=True)
