"""What programs mostly ask of asat."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .api import Calls, Diff, Mount, PublishAnswer, Version
from .problem import Problem
from .transport import Transport

# A moment: an instant, a day, or words that the command asat knows, as "yesterday", "month-end" or "-7d".
Moment = str | datetime.datetime | datetime.date


@dataclass(frozen=True)
class Rows:
    """What a query was answered."""

    # The names of the columns.
    columns: list[str]

    # The rows, each with its values in the order of the columns.
    rows: list[list[Any]]

    # Whether there are more than the limit.
    more: bool


def _user() -> str:
    """The name of the user, or the number of one that has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class Client:
    """A daemon, on its Unix socket or over TCP. What is left out comes from ASAT_SERVER, ASAT_TOKEN_FILE and ASAT_TOKEN."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        token_file: str | None = None,
        timeout: float | None = None,
    ) -> None:
        # Every call of the API by its name there.
        self.calls = Calls(Transport(server, token, token_file, timeout))

    def publish(self, store: str | None = None, **said: Any) -> PublishAnswer:
        """Publishes a store that was certified; `said` is what Calls.publish takes: label, certified_by and so on."""
        return self.calls.publish(store=store, **said)

    def versions(self, store: str | None = None, **filters: Any) -> Iterator[Version]:
        """Lists versions, newest first; `filters` are those of Calls.list_versions. It asks for page after page."""
        cursor = None
        while True:
            page = self.calls.list_versions(store=store, cursor=cursor, **filters)
            yield from page.versions
            cursor = page.next_cursor
            if cursor is None:
                return

    def version(
        self,
        version: str | None = None,
        *,
        as_of: Moment | None = None,
        business_date: Moment | None = None,
        label: str | None = None,
    ) -> Version:
        """Finds a version: by its name, as "report@12", or by its store and a moment, a business day or a label."""
        if _is_exact(version, as_of, business_date, label):
            return self.calls.show(version)
        return self.calls.find(
            store=version, as_of=_said(as_of), business_date=_said(business_date), label=label
        )

    def diff(self, before: str, after: str, *, table: str | None = None) -> Diff:
        """Says what differs between two versions, table by table."""
        return self.calls.diff(before, after, table=table)

    def query(self, sql: str, *, limit: int | None = None, timeout_seconds: int | None = None) -> Rows:
        """Answers a query over versions, as "select * from report@12.sale"."""
        lines = iter(self.calls.query(sql=sql, limit=limit, timeout_seconds=timeout_seconds))
        columns, rows, more = next(lines)["columns"], [], False
        for line in lines:
            if isinstance(line, list):
                rows.append(line)
            else:
                more = line["more"]
        return Rows(columns, rows, more)

    def retire(self, version: str, *, reason: str | None = None, now: bool = False) -> Version:
        """Gives a version up. It can be brought back until its `purge_after`, but not if it is to go `now`."""
        return self.calls.retire(version, reason=reason, now=now)

    @contextlib.contextmanager
    def lease(
        self,
        version: str | None = None,
        *,
        as_of: Moment | None = None,
        business_date: Moment | None = None,
        label: str | None = None,
        holder: str | None = None,
        ttl_seconds: int | None = None,
    ) -> Iterator[Mount]:
        """Leases the as-at copy of a version, renews the lease until the end, and then gives it back."""
        terms = {"holder": holder or f"{_user()}@{socket.gethostname()}", "ttl_seconds": ttl_seconds}
        if _is_exact(version, as_of, business_date, label):
            mount = self.calls.open(version, **terms)
        else:
            mount = self.calls.open_found(
                store=version, as_of=_said(as_of), business_date=_said(business_date), label=label, **terms
            )
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(mount, ttl_seconds, ended), daemon=True)
        renewing.start()
        try:
            yield mount
        finally:
            ended.set()
            renewing.join()
            self._give_back(mount)

    @contextlib.contextmanager
    def open(self, version: str | None = None, **found: Any) -> Iterator[sqlite3.Connection]:
        """Opens a version for reading; takes what `lease` takes. The connection is closed at the end, and the lease given back."""
        with self.lease(version, **found) as mount:
            if not os.path.exists(mount.path):
                hint = "run this on the machine of the daemon, or read the file that Calls.download gives"
                raise Problem("unreachable", f"{mount.path} cannot be seen from here", hint)
            with contextlib.closing(sqlite3.connect(mount.uri, uri=True)) as database:
                yield database

    def _renew(self, mount: Mount, ttl_seconds: int | None, ended: threading.Event) -> None:
        """Renews a lease each time that half of it has passed. If that fails, it is tried again in time."""
        now = datetime.datetime.now(datetime.timezone.utc)
        half = max((mount.expires_at - now).total_seconds() / 2, 0.1)
        while not ended.wait(half):
            try:
                self.calls.renew(mount.version, mount.lease, ttl_seconds=ttl_seconds)
            except Problem as problem:
                # It was revoked or has ended: there is nothing left to renew.
                if problem.code == "unknown_lease":
                    return

    def _give_back(self, mount: Mount) -> None:
        try:
            self.calls.close(mount.version, mount.lease)
        except Problem as problem:
            # It may have ended by itself.
            if problem.code != "unknown_lease":
                raise


def open(version: str | None = None, **found: Any) -> contextlib.AbstractContextManager[sqlite3.Connection]:
    """Opens a version for reading at the daemon of ASAT_SERVER: asat.open("report", as_of="2026-11-19")."""
    return Client().open(version, **found)


def _is_exact(version: str | None, *found: Any) -> bool:
    """Whether it is named which version is meant; a name beside a moment is a mistake that the daemon explains."""
    return version is not None and "@" in version and all(one is None for one in found)


def _said(moment: Moment | None) -> str | None:
    """A moment as it is written in a request."""
    if moment is None or isinstance(moment, str):
        return moment
    if isinstance(moment, datetime.datetime) and moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone: write for example datetime.now(datetime.UTC)")
    return moment.isoformat()
