"""A client of SQLite databases: one request a line as JSON, one answer a line.

A store stays open between requests, as an application keeps it; a copy is opened, read whole and closed.
"""

import hashlib
import json
import sqlite3
import sys

stores = {}


def store(path):
    if path not in stores:
        stores[path] = sqlite3.connect(path, timeout=60, isolation_level=None)
    return stores[path]


def run(path, sql):
    """Runs statements in a store; answers the rows of the last one."""
    rows = []
    for statement in sql:
        rows = store(path).execute(statement).fetchall()
    return [list(row) for row in rows]


def close(path):
    stores.pop(path).close()


def content(connection):
    """What SQLite shows of a database: its schema, every row of every table, and its settings."""
    digest = hashlib.sha256()
    for pragma in ("page_size", "page_count", "auto_vacuum", "user_version", "application_id", "encoding"):
        digest.update(repr((pragma, connection.execute(f"PRAGMA {pragma}").fetchall())).encode())
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    digest.update(repr(schema).encode())
    for kind, name, _ in schema:
        if kind == "table":
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                digest.update(repr(row).encode())
    return digest.hexdigest()


def inside(path):
    """The content of a store, as its own client sees it."""
    return content(store(path))


def read(path, uri):
    """Opens a database read-only, checks it and answers its content."""
    connection = sqlite3.connect(path, uri=uri, timeout=0)
    try:
        integrity = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        return {"integrity": integrity, "content": content(connection)}
    finally:
        connection.close()


def query(uri, sql):
    """Opens a database by its URI and answers the rows of a statement."""
    connection = sqlite3.connect(uri, uri=True, timeout=0)
    try:
        return [list(row) for row in connection.execute(sql)]
    finally:
        connection.close()


REQUESTS = {"run": run, "close": close, "inside": inside, "read": read, "query": query}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"ok": REQUESTS[request.pop("do")](**request)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
