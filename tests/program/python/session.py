"""A program that publishes the store of its argument, opens it as it was, and prints what it saw as JSON."""

import datetime
import json
import sqlite3
import sys
import time

import asat

STORE = sys.argv[1]


def sell(amount):
    with sqlite3.connect(STORE) as store:
        store.execute("create table if not exists sale (id integer primary key, amount)")
        store.execute("insert into sale (amount) values (?)", [amount])
    store.close()


def read(database):
    return [amount for (amount,) in database.execute("select amount from sale order by id")]


client = asat.Client()
sell(100)
first = client.publish(
    "report", label="october", business_date=datetime.date(2026, 10, 31), attributes={"batch": 41}
)
sell(200)
second = client.publish("report", label="november", idempotency_key="close-november")
again = client.publish("report", label="november", idempotency_key="close-november")
saw = {
    "classes": [type(one).__name__ for one in (first, first.version, first.publication, first.version.cut_at)],
    "again": again.publication.at == second.publication.at,
    "business_date": first.publication.business_date.isoformat(),
    "attributes": first.publication.attributes,
    "listed": [version.id for version in client.versions("report", limit=1)],
    "found": client.version("report", as_of=first.version.cut_at).id,
    "of_day": client.version("report", business_date="2026-11-15").id,
    "shown": client.version("report@latest").id,
    "changed": [(table.table, table.inserted) for table in client.diff("report@1", "report@2").tables],
}
rows = client.query("select amount from report@2.sale except select amount from report@1.sale")
saw["query"] = [rows.columns, rows.rows, rows.more]
with asat.open("report", as_of=first.version.cut_at) as database:
    saw["as_of"] = read(database)
    saw["leases_within"] = [lease.version for lease in client.calls.list_leases().leases]
    try:
        database.execute("delete from sale")
    except sqlite3.OperationalError as error:
        saw["written"] = str(error)
try:
    with asat.open("report", label="november") as database:
        saw["labelled"] = read(database)
        raise KeyError("the program's own mistake")
except KeyError as error:
    saw["raised"] = error.args[0]
with asat.open("report@1", holder="audit", ttl_seconds=2) as database:
    ends_at = client.calls.list_leases().leases[0].expires_at
    while client.calls.list_leases().leases[0].expires_at == ends_at:
        time.sleep(0.02)
    saw["named"] = read(database)
saw["leases_after"] = len(client.calls.list_leases().leases)
saw["retired"] = client.retire("report@1", reason="a test").end_reason
print(json.dumps(saw))
