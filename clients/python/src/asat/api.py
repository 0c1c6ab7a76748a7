"""What the API of asat takes and answers. Made by generate.py of the OpenAPI document: change nothing here."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from .transport import Transport


@dataclass(frozen=True)
class Alarm:
    """Something that an administrator must know."""

    # What to do about it.
    hint: str

    # Its name, the same for as long as it lasts: acknowledge it by this.
    key: str

    # What is wrong.
    reason: str

    # Since when.
    since: datetime.datetime

    # When somebody acknowledged it: it is not repeated from then on.
    acknowledged_at: datetime.datetime | None = None


@dataclass(frozen=True)
class ArchiveStats:
    """What a store's archive takes."""

    # All of it, in bytes.
    bytes: int

    # How many segments it consists of: files that hold pages.
    files: int

    # The store.
    store: str

    # The versions in it, oldest first.
    versions: list[ArchivedVersion]


@dataclass(frozen=True)
class ArchivedVersion:
    """What a version takes in the archive."""

    # What it took when it was written. Later versions may need some of it.
    bytes: int

    # The version.
    id: str

    # What no other version needs: at least this much comes back if this version alone is retired.
    only_bytes: int


@dataclass(frozen=True)
class AuditEntry:
    """Something that was done."""

    # What was done: `publish`, `import`, `pin`, `unpin`, `retire`, `restore`, `tag`, `untag`, `revoke`, `lose`,
    # `recover` or `accept`.
    action: str

    # Who did it: `token NAME`, `uid NUMBER (NAME)`, or `asat` if it was done by rule or happened by itself.
    actor: str

    # When it was done.
    at: datetime.datetime

    # The chain's value: the SHA-256 of the value before it and of this entry.
    chain: str

    # What else there is to say, by name: a label, a reason, a holder.
    details: dict[str, str]

    # The entry's number: 1 for the first, without gaps.
    number: int

    # The store.
    store: str

    # The version.
    version: str

    # What the request was called: by the caller in the header `X-Request-Id`, or by asat.
    request: str | None = None


@dataclass(frozen=True)
class AuditHead:
    """The end of the audit trail."""

    # The chain's value there.
    chain: str

    # The number of the last entry; 0 if there is none.
    number: int

    # Both in one, to be noted down elsewhere, and held against the trail later.
    place: str


@dataclass(frozen=True)
class AuditList:
    """A page of the audit trail."""

    # The entries, newest first.
    entries: list[AuditEntry]

    # The end of the whole trail.
    head: AuditHead

    # The cursor of the next page, if there are older ones.
    next_cursor: str | None = None

    verdict: AuditVerdict | None = None


@dataclass(frozen=True)
class AuditVerdict:
    """Whether the audit trail is what was written."""

    # Whether it is.
    ok: bool

    # How many entries, from the first one on, are as they were written.
    sound: int

    # The number at which it is not what was written.
    broken_at: int | None = None

    # What is wrong there.
    what: str | None = None


@dataclass(frozen=True)
class Brake:
    """For how long the writers of a volume were held, since the daemon started."""

    # Whether they are held at this moment.
    held_now: bool

    # How often they were held.
    holds: int

    # The longest time in one, in milliseconds, rounded up.
    longest_ms: int

    # The volume that they write to.
    origin: str

    # For how long in all, in milliseconds, rounded up.
    total_ms: int


@dataclass(frozen=True)
class Capacity:
    """How everything that can run out of space stands, and what the guard does about it."""

    # What somebody must know, for as long as it lasts.
    alarms: list[Alarm]

    # For how long writers were held, for every volume whose writers may be.
    brakes: list[Brake]

    # What it did last, newest first.
    last_actions: list[PastAction]

    # How often it has looked, and what that took.
    looks: Looks

    # What the guard does next, in this order.
    plan: list[PlannedAction]

    # What comes first if there is not enough space for everything.
    precedence: Precedence

    # Everything that can run out of space.
    targets: list[CapacityTarget]

    # When it looks again, in milliseconds from then.
    tick_ms: int

    # How many leases are open, of how many that may be.
    leases: LeaseBounds | None = None

    # When the guard looked last; absent if there is nothing to look at, or it has not looked yet.
    looked_at: datetime.datetime | None = None

    trouble: Trouble | None = None

    # What was given up and waits for the end of its grace.
    waiting: Waiting | None = None


@dataclass(frozen=True)
class CapacityTarget:
    """Something that can run out of space."""

    # `snapshot`, `pool-data`, `pool-metadata`, `group` or `folder`.
    kind: str

    # How near it is to running out: `safe`, `low` (it is dealt with now), `urgent` or `lost` (it has run out). If it is
    # `urgent`, it would run out, at the rate of this moment, before it can be extended.
    level: str

    # The version that the snapshot holds, the name of the pool or the group, or the path of the folder.
    name: str

    # The fastest rate at which it is expected to fill.
    rate_bytes_per_second: int

    # The same as a sentence.
    reason: str

    # Of how many bytes. Of a group: its free space.
    size_bytes: int

    # Bytes in use. Of a group: what all that is in it may need at once.
    used_bytes: int

    # Bytes in use before it can be dealt with, at that rate: what it is judged by.
    worst_bytes: int

    # The time until it is full at that rate, in milliseconds; absent if it never is.
    full_in_ms: int | None = None


@dataclass(frozen=True)
class CheckResult:
    """What came of a check of the very content that was published."""

    # What was found.
    found: str

    # The check's name.
    name: str

    # Whether the content met it. A content that does not is not published.
    passed: bool

    # How long it took, in milliseconds.
    took_ms: float


@dataclass(frozen=True)
class Clock:
    """What asat believes of the machine's clock."""

    # The time that asat uses.
    believed_at: datetime.datetime

    # What the machine's clock says.
    clock_at: datetime.datetime

    # Whether the clock is doubted, so that nothing ends by it.
    doubted: bool

    # What ends if the clock is believed.
    would_end: WouldEnd


@dataclass(frozen=True)
class Diff:
    """What differs between two versions, table by table."""

    # The tables that differ. None are listed for a store's first version.
    tables: list[TableDiff]

    # The version that counts as the newer one.
    to: str

    # The version that counts as the older one. A store's first version has none before it.
    from_: str | None = None

    # Why the two could not be compared.
    problem: str | None = None


@dataclass(frozen=True)
class Expected:
    """By when a store is expected to be published, and whether it is late."""

    # What the configuration says of it.
    every: str

    # When it has to be published after that; absent if it was never published.
    due_at: datetime.datetime | None = None

    # Since when it is late; absent if it is not. A store that was never published is late since it was added.
    late_since: datetime.datetime | None = None

    # When it was last published; absent if it never was.
    published_at: datetime.datetime | None = None


@dataclass(frozen=True)
class Finding:
    """One piece of damage."""

    # The file.
    file: str

    # What to do.
    hint: str

    # The versions that cannot be read in full because of it; of a file that was put right, could not be.
    versions: list[str]

    # What is wrong with it.
    what: str

    # Whether it was put right.
    repaired: bool | None = None


@dataclass(frozen=True)
class Health:
    """Whether the daemon is well."""

    # `ok`, or `degraded` if the guard is kept from its work, something is lost or damaged, or a store could not be
    # published or is late.
    status: str

    # The version of asat.
    version: str

    trouble: Trouble | None = None


@dataclass(frozen=True)
class Holding:
    """Something that holds a version's pages."""

    # Bytes that this version added to the archive, or that were set aside for its snapshot.
    bytes: int

    # `archive` or `snapshot`.
    kind: str

    # What took the snapshot: `lvm-thin`, `lvm-classic` or `reflink`.
    backend: str | None = None

    # The snapshot's name, as `group/volume`; of a clone the path of its folder.
    name: str | None = None


@dataclass(frozen=True)
class LastingTrouble:
    """What keeps a store from being published, or watch mode or the bucket from its work, as long as it lasts."""

    # The stable name of the kind of problem.
    code: str

    # What happened.
    detail: str

    # What to do next.
    hint: str

    # Since when.
    since: datetime.datetime


@dataclass(frozen=True)
class Lease:
    """An open lease."""

    # When it ends unless it is renewed.
    expires_at: datetime.datetime

    # Since when.
    granted_at: datetime.datetime

    # Who holds it, in the holder's own words.
    holder: str

    # Its name.
    lease: str

    # The version that it holds.
    version: str

    # Who took it, as the audit trail has it; absent of a lease that is older than the trail.
    actor: str | None = None

    # The path at which the version is read; absent while its copy is being made.
    path: str | None = None


@dataclass(frozen=True)
class LeaseBounds:
    """How many leases are open, of how many that may be. Those of the tree of versions do not count: asat takes one
    for each version that is open there.
    """

    # How many each caller has, the one with the most first.
    callers: list[LeaseCaller]

    # How many may be (`copies.max_leases`).
    most: int

    # How many one caller may have (`copies.max_leases_per_caller`).
    most_per_caller: int

    # How many are open, or are granted as soon as a copy is made.
    open: int


@dataclass(frozen=True)
class LeaseCaller:
    """How many leases a caller has open."""

    # Who took them, as the audit trail has it.
    actor: str

    # How many.
    open: int


@dataclass(frozen=True)
class LeaseList:
    """The open leases."""

    # The leases, by version; those of one version by when they end.
    leases: list[Lease]

    # How many are open of how many, whatever the list is filtered by.
    bounds: LeaseBounds | None = None


@dataclass(frozen=True)
class Looks:
    """How often the guard has looked since the daemon started, and what that took."""

    # Looks at everything.
    full: int

    # Looks at the kernel's counters of writes alone, which had not moved: nothing else can have changed then.
    glances: int

    # The time that all of them took, in milliseconds.
    spent_ms: float


@dataclass(frozen=True)
class LostVersion:
    """A version that is recorded as lost."""

    # Why it is lost.
    reason: str

    # The version.
    version: str


@dataclass(frozen=True)
class Mount:
    """A leased as-at copy."""

    # When it ends unless it is renewed.
    expires_at: datetime.datetime

    # Who holds the lease.
    holder: str

    # The lease's name: renew and release it by this.
    lease: str

    # The path of a plain read-only database file.
    path: str

    # The same as a SQLite URI.
    uri: str

    # The version.
    version: str


@dataclass(frozen=True)
class OfSet:
    """The publication of a set that a publication is part of."""

    # The instant at which every store of the set was what was published of it.
    cut_at: datetime.datetime

    # The set.
    name: str


@dataclass(frozen=True)
class PastAction:
    """Something that the guard did."""

    # The rung of the ladder: `extend`, `demote`, `hurry`, `brake`, `retire`, `refuse` or `alarm`.
    action: str

    # When it ended.
    at: datetime.datetime

    # What came of it: `done`, `failed`, or `stalled` if it did not end in time.
    outcome: str

    # Why.
    reason: str

    # For whose sake: a kind and a name.
    target: str

    # How long it took, in milliseconds. Of a brake: for how long writers were held.
    took_ms: int

    # Of an extension: how much of the time from the look that found it necessary was not that of LVM's own command, in
    # milliseconds. The daemon knows it of what it did since its start.
    added_ms: float | None = None

    # Why it failed, if it did.
    failure: str | None = None

    # The version that it was about, if it was about one.
    version: str | None = None


@dataclass(frozen=True)
class Pin:
    """A mark that retention must not touch."""

    # Whether its snapshot is kept too.
    hot: bool

    # Why the version must stay.
    reason: str

    # When the pin stops counting.
    expires_at: datetime.datetime | None = None

    # Who wants it.
    owner: str | None = None


@dataclass(frozen=True)
class PlannedAction:
    """Something that the guard does next."""

    # The rung of the ladder: `extend`, `demote`, `hurry`, `brake`, `retire`, `refuse` or `alarm`.
    action: str

    # What it is done to: a target, a version, an origin, the stores whose publications are refused, or the alarm's key.
    object: str

    # Why.
    reason: str

    # For whose sake: a kind and a name.
    target: str

    # For how long writes are held at most, if they are, in milliseconds.
    most_ms: int | None = None

    # The new size, if something is extended.
    to_bytes: int | None = None


@dataclass(frozen=True)
class Precedence:
    """What comes first if there is not enough space for everything."""

    # The rungs that the configuration lets the guard take, in this order.
    ladder: list[str]

    # Which of retention and space holds, in words.
    says: str


@dataclass(frozen=True)
class Publication:
    """One certification event."""

    # When it was asked for.
    at: datetime.datetime

    # Attributes of the publisher's own.
    attributes: dict[str, Any] | None = None

    # The business day that it stands for.
    business_date: datetime.date | None = None

    # Who vouches for it.
    certified_by: str | None = None

    # What its content was found to meet, in the order of the configuration of that time; none if nothing was checked.
    checks: list[CheckResult] | None = None

    # What it is called.
    label: str | None = None

    # Anything else that was said.
    note: str | None = None

    set: OfSet | None = None


@dataclass(frozen=True)
class PublicationList:
    """A page of a version's publications, newest first."""

    # The publications.
    publications: list[Publication]

    # Pass it as `cursor` to go on; absent at the end.
    next_cursor: str | None = None


@dataclass(frozen=True)
class Published:
    """What a publication gave."""

    # From the request to the acknowledgement, in milliseconds.
    elapsed_ms: float

    # For what: `nobody` had to wait, or commits had to. They wait for a `look` at the file, for the rest of the WAL to
    # be moved (`checkpoint`), for the `snapshot`, or for all pages to be `read`.
    hold: str

    # The publication.
    publication: Publication

    # Whether the version was there already, because nothing had changed since.
    reused: bool

    # How long it took to take the snapshot, in milliseconds; 0 if none was taken.
    snapshot_ms: float

    # The version that was published, with the newest ten of its publications.
    version: Version

    # How long a commit could have had to wait for asat, in milliseconds.
    writer_blocked_ms: float


@dataclass(frozen=True)
class PublishedSet:
    """What the publication of a set gave. The set and the instant name it."""

    # The instant at which each store was what its version holds. A version that was there already was cut before.
    cut_at: datetime.datetime

    # From the request to the acknowledgement, in milliseconds.
    elapsed_ms: float

    # What it gave for each store, by their names.
    published: list[Published]

    # Whether every version was there already, because nothing had changed since.
    reused: bool

    # The set.
    set: str

    # How long a commit to one of the stores could have had to wait for asat, in milliseconds: the longest of them.
    writer_blocked_ms: float


@dataclass(frozen=True)
class RepairedFile:
    """A file of an archive that was put right."""

    # The file.
    file: str

    # What gave the content.
    from_: str


@dataclass(frozen=True)
class Restored:
    """What a restore did."""

    # The publication that keeps the state before.
    before: Published

    # The version that the store is as now.
    restored: Version

    # How long a commit could have had to wait for the restore, in milliseconds; 0 if the store was as it is wanted
    # already.
    writer_blocked_ms: float


@dataclass(frozen=True)
class RetentionLabel:
    """A rule for the versions of which a publication has a certain label."""

    # What is kept of those versions.
    keep: str

    # Which labels: `*` stands for any characters or none, `?` for any one.
    pattern: str


@dataclass(frozen=True)
class RetentionPlan:
    """What a store's rules give up now."""

    # What the archive takes, in bytes.
    archive_bytes: int

    # What giving up those that go gives back at least, in bytes.
    frees_bytes: int

    # Whether what earlier versions took is still being given back: the archive takes more than it will then.
    giving_back: bool

    # By how much the archive stays above the size budget, as nothing else may go, in bytes.
    over_bytes: int

    # The rules.
    rules: RetentionRules

    # The store.
    store: str

    # The versions that can be read, oldest first.
    versions: list[RetentionVerdict]

    # What was given up before and waits for the end of its grace: the archive takes that besides.
    waiting: Waiting | None = None


@dataclass(frozen=True)
class RetentionRules:
    """The rules of a store's retention."""

    # So many of the newest versions stay whatever the other rules say.
    at_least: int | None = None

    # The most that the archive may take, in bytes.
    at_most_bytes: int | None = None

    # What is kept by its age; everything if left out.
    keep: str | None = None

    # What is kept besides, by its label.
    labels: list[RetentionLabel] | None = None


@dataclass(frozen=True)
class RetentionVerdict:
    """What is to be done about a version."""

    # What giving it up gives back at least, in bytes, once those have gone that go before it.
    frees_bytes: int

    # The version.
    id: str

    # Whether it stays.
    keep: bool

    # The rule that says so.
    why: str


@dataclass(frozen=True)
class RowChange:
    """A version in which a row changed."""

    # `insert`, `update` or `delete`. In the oldest version that is kept, a row that is there counts as inserted.
    op: str

    # The first version that has the row so.
    version: str

    after: Fields | None = None

    before: Fields | None = None

    # The day that it stands for.
    business_date: datetime.date | None = None

    # Who vouched for it.
    certified_by: str | None = None

    # The columns that changed.
    changed: list[str] | None = None

    # When the version was cut.
    cut_at: datetime.datetime | None = None

    # The label of its newest publication.
    label: str | None = None

    # The version before it, with which it was compared.
    since: str | None = None


@dataclass(frozen=True)
class RowHistory:
    """A part of the history of a row, the newest change first."""

    # The versions in which it became what it then was.
    changes: list[RowChange]

    # The row's key.
    key: Fields

    # The store.
    store: str

    # The table.
    table: str

    # The cursor of the next page, if there is more.
    next_cursor: str | None = None


@dataclass(frozen=True)
class SchemaChange:
    """What happened to a table's definition."""

    # `created`, `dropped`, `renamed` or `altered`.
    change: str

    # The statement that makes it in the newer version.
    after: str | None = None

    # The statement that made it in the older version.
    before: str | None = None

    # The columns that the newer version alone has.
    columns_added: list[str] | None = None

    # The columns that the older version alone has.
    columns_dropped: list[str] | None = None


@dataclass(frozen=True)
class Store:
    """A store and what is kept of it."""

    # Bytes that its archive takes on disk.
    archive_bytes: int

    # How its versions are cut: `pages`, `lvm-thin`, `lvm-classic` or `reflink`; `none` if they cannot be now, and
    # `bucket` if another asat publishes them to a bucket, which this one follows.
    backend: str

    # Whether it is in the configuration now. Versions of one that no longer is can still be read.
    configured: bool

    # Its name.
    name: str

    # The path of its database file.
    path: str

    # How many versions can be opened.
    versions: int

    expected: Expected | None = None

    failed: LastingTrouble | None = None

    followed: StoreFollowed | None = None

    # The newest of them.
    newest: str | None = None

    # When that one was cut.
    newest_cut_at: datetime.datetime | None = None

    remote: StoreRemote | None = None

    watch: Watch | None = None


@dataclass(frozen=True)
class StoreFollowed:
    """How a store is followed that another asat publishes to a bucket."""

    # The repository's place.
    url: str

    # The machine that publishes the store, once it is known.
    host: str | None = None

    # The number of the newest manifest that was come to.
    manifest: int | None = None

    # When the bucket was last seen to have nothing newer; nothing as long as it has not answered since the start.
    seen_at: datetime.datetime | None = None

    trouble: LastingTrouble | None = None

    # When that was written, by the publisher's clock.
    written_at: datetime.datetime | None = None


@dataclass(frozen=True)
class StoreList:
    """All stores."""

    # The stores, by name.
    stores: list[Store]


@dataclass(frozen=True)
class StoreRemote:
    """How a store stands to the bucket."""

    # How many are not.
    pending: int

    # `stored` if every version is there that can be opened, `pending` if not yet, `fenced` if somebody else publishes
    # the store there.
    state: str

    # How many versions that can be opened are there.
    stored: int

    # The repository's place.
    url: str

    # How many bytes the archive takes there.
    bytes: int | None = None

    # The number of the newest manifest of this daemon, once it is known.
    manifest: int | None = None

    # When the oldest of these was cut.
    pending_since: datetime.datetime | None = None

    trouble: LastingTrouble | None = None


@dataclass(frozen=True)
class TableDiff:
    """What differs in a table."""

    # How rows were compared: `changed_pages`, `all_pages` (after VACUUM, for example), `replaced` (the key is another
    # one, so that all rows count as deleted and inserted) or `not`.
    compared: str

    # How many rows the older version alone has.
    deleted: int

    # How many rows the newer version alone has.
    inserted: int

    # `table`, or `shadow` (of a virtual table), `internal` (one of SQLite's own) or `virtual`.
    kind: str

    # Its name: that in the newer version, if it is there.
    table: str

    # How many rows both have with other values.
    updated: int

    # Why its rows could not be compared, or counted to the end.
    problem: str | None = None

    # Its name in the older version, if it was another.
    renamed_from: str | None = None

    schema: SchemaChange | None = None


@dataclass(frozen=True)
class Tag:
    """A name that leads to a version."""

    # The name within the store: `report@month-end-2026-10` stands for the version.
    name: str

    # When it was moved there.
    set_at: datetime.datetime

    # The store.
    store: str

    # The version that it leads to.
    version: str


@dataclass(frozen=True)
class TagList:
    """The tags of a store."""

    # The tags, by name.
    tags: list[Tag]


@dataclass(frozen=True)
class Trouble:
    """What keeps the guard from its work."""

    # The stable name of the kind of problem.
    code: str

    # What happened, and to which object.
    detail: str

    # What to do next.
    hint: str


@dataclass(frozen=True)
class Verification:
    """What a verification found."""

    # How many bytes were read.
    bytes: int

    # What was not as it was written.
    findings: list[Finding]

    # Whether everything is as it was written, and nothing is lost.
    ok: bool

    # How many versions were looked at.
    versions: int

    # The versions that are recorded as lost.
    lost: list[LostVersion] | None = None

    # What of the store's archive was put right. The next verification says whether it stays so.
    repaired: list[RepairedFile] | None = None


@dataclass(frozen=True)
class Version:
    """An immutable state of a store."""

    # What holds its pages.
    holdings: list[Holding]

    # Its name.
    id: str

    # How many leases are open on it.
    leases: int

    # Its number within the store.
    number: int

    # How many publications it has.
    publication_count: int

    # Its newest publications, oldest first: at most ten in lists and events, and a thousand if one version is shown. If
    # the one that it is known by is older, it comes before them. `GET /v1/versions/{id}/publications` has all of them.
    publications: list[Publication]

    # Its place in its life: `cutting`, `ready`, `retiring`, `retired`, `failed` or `lost`.
    state: str

    # The store that it belongs to.
    store: str

    # The instant at which its content was fixed; absent until then.
    cut_at: datetime.datetime | None = None

    # Why it ended, if it did.
    end_reason: str | None = None

    # When it ended, if it did.
    ended_at: datetime.datetime | None = None

    # The fingerprint of its content, with the algorithm that it was made by, as `blake3:` and 64 hexadecimal digits:
    # equal contents have equal fingerprints, and others have others. It is known once the version is archived.
    fingerprint: str | None = None

    # The place in `publications`, counted from 0, of the one that it is known by. In a list that is the newest that was
    # asked for. Else it is the newest that somebody certified, or that has a label, or the newest.
    known_by: int | None = None

    # The size of its pages, in bytes.
    page_size: int | None = None

    # The path of its database, if it is leased.
    path: str | None = None

    pin: Pin | None = None

    # When the pages of a retired version are deleted: until then it can be brought back. Absent once they are.
    purge_after: datetime.datetime | None = None

    # Whether it is in the bucket: `stored`, `pending`, or `fenced` if somebody else publishes the store there. Absent
    # if no bucket is configured.
    remote: str | None = None

    # The size of the database file.
    size_bytes: int | None = None

    # The tags that lead to it.
    tags: list[str] | None = None


@dataclass(frozen=True)
class VersionList:
    """A page of a list of versions, newest first."""

    # The versions.
    versions: list[Version]

    # Pass it as `cursor`, with the same filters, to go on; absent at the end.
    next_cursor: str | None = None


@dataclass(frozen=True)
class Waiting:
    """Versions that were given up, and whose pages stay until their grace is over."""

    # What they have added to archives, in bytes.
    bytes: int

    # How many: `GET /v1/versions?state=retired` has them, with `purge_after`.
    versions: int

    # When the pages of the first of them are deleted; absent if none waits.
    next_purge_at: datetime.datetime | None = None


@dataclass(frozen=True)
class Watch:
    """How watch mode stands with a store."""

    # When it was asked for last.
    asked_at: datetime.datetime | None = None

    # Why the store's files are looked at again and again; absent if the kernel reports changes to them.
    polls: str | None = None

    # The value that watch mode has published last.
    published: str | None = None

    # Since when it is that value, as far as the daemon has seen.
    since: datetime.datetime | None = None

    trouble: LastingTrouble | None = None

    # The value of the marker when it was asked for last; absent if nothing was certified, or it could not be asked for
    # yet.
    value: str | None = None


@dataclass(frozen=True)
class Why:
    """A version, and what the guard did for it or with it."""

    # What the guard did, newest first. The oldest actions are forgotten after a hundred thousand.
    actions: list[PastAction]

    # The version; if it has ended, with when and why.
    version: Version


@dataclass(frozen=True)
class WouldEnd:
    """What ends at a time."""

    # Versions that were given up before and whose grace is over; their pages go for good.
    graces: int

    # Leases.
    leases: int

    # Pins.
    pins: int

    # Versions that the rules of their stores give up for their age; until their grace is over they can be brought back.
    versions: int


Fields = dict[str, Any]


PublishAnswer = PublishedSet | Published


QueryLine = dict[str, Any] | list[Any]


Wait = Literal['remote']


class Calls:
    """Every call of the API, but for the stream of events, which has no end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def healthz(self) -> Health:
        """Says that the daemon lives, and whether its guard is kept from its work, something is lost or damaged, or a
        store was not published by when it is expected. It serves all the same then.
        """
        return self._transport.value(
            "GET",
            ["healthz"],
            answers=Health,
        )

    def metrics(self) -> BinaryIO:
        """Tells how the daemon does, in Prometheus' text format; `docs/operate.md` says what each metric means."""
        return self._transport.stream(
            "GET",
            ["metrics"],
        )

    def readyz(self) -> Health:
        """Says whether the daemon takes requests, and how it is besides, as `/healthz` does."""
        return self._transport.value(
            "GET",
            ["readyz"],
            answers=Health,
        )

    def as_of_business_date(self, date: str, *, store: str | None = None) -> Version:
        """Shows the version that stood for a business day: the last one published for it, or else for the last day
        before it.
        """
        return self._transport.value(
            "GET",
            ["v1", "as-of-business-date", date],
            answers=Version,
            query={"store": store},
        )

    def as_of(self, timestamp: str, *, store: str | None = None) -> Version:
        """Shows the newest version that was cut at or before an instant."""
        return self._transport.value(
            "GET",
            ["v1", "as-of", timestamp],
            answers=Version,
            query={"store": store},
        )

    def list_audit(
        self,
        *,
        store: str | None = None,
        version: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        from_: datetime.datetime | None = None,
        to: datetime.datetime | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        verify: bool | None = None,
        noted: str | None = None,
    ) -> AuditList:
        """Lists who did what, newest first."""
        return self._transport.value(
            "GET",
            ["v1", "audit"],
            answers=AuditList,
            query={"store": store, "version": version, "actor": actor, "action": action, "from": from_, "to": to, "limit": limit, "cursor": cursor, "verify": verify, "noted": noted},
        )

    def capacity(self) -> Capacity:
        """Says how everything that can run out of space stands, and what the guard does about it."""
        return self._transport.value(
            "GET",
            ["v1", "capacity"],
            answers=Capacity,
        )

    def acknowledge(self, *, key: str) -> Alarm:
        """Says that somebody knows of an alarm: it is shown until it is over, and not repeated. Once more is the same."""
        return self._transport.value(
            "POST",
            ["v1", "capacity", "alarms", "acknowledge"],
            answers=Alarm,
            body={"key": key},
        )

    def clock(self) -> Clock:
        """Says which time asat uses, whether it doubts the machine's clock, and what would end by that."""
        return self._transport.value(
            "GET",
            ["v1", "clock"],
            answers=Clock,
        )

    def accept_clock(self, *, reason: str | None = None) -> Clock:
        """Accepts what the machine's clock says: from then on asat uses it, and what ends by it ends at once. If the
        clock is not doubted, nothing is done.
        """
        return self._transport.value(
            "POST",
            ["v1", "clock", "accept"],
            answers=Clock,
            body={"reason": reason},
        )

    def list_leases(self, *, store: str | None = None, holder: str | None = None) -> LeaseList:
        """Lists who holds which version, and until when."""
        return self._transport.value(
            "GET",
            ["v1", "leases"],
            answers=LeaseList,
            query={"store": store, "holder": holder},
        )

    def revoke_lease(self, lease: str, *, reason: str | None = None) -> Lease:
        """Takes a lease from its holder, at once. It is written down, with the reason if there is one. The version's
        copy is deleted with the last lease on it; a program that has the file open reads on. In the tree of
        versions reading fails from now on, and for a minute the version is not opened there again: time to retire
        it.
        """
        return self._transport.value(
            "DELETE",
            ["v1", "leases", lease],
            answers=Lease,
            query={"reason": reason},
        )

    def open_found(
        self,
        *,
        holder: str,
        ttl_seconds: int | None = None,
        store: str | None = None,
        as_of: str | None = None,
        business_date: str | None = None,
        label: str | None = None,
    ) -> Mount:
        """Finds the version that is meant, and opens it: one request leads from a day to a database file."""
        return self._transport.value(
            "POST",
            ["v1", "mounts"],
            answers=Mount,
            query={"store": store, "as_of": as_of, "business_date": business_date, "label": label},
            body={"holder": holder, "ttl_seconds": ttl_seconds},
        )

    def openapi(self) -> Any:
        """Describes every route, every field and every problem."""
        return self._transport.value(
            "GET",
            ["v1", "openapi.json"],
            answers=Any,
        )

    def query(self, *, sql: str, limit: int | None = None, timeout_seconds: int | None = None) -> Iterator[QueryLine]:
        """Answers a query over versions. In front of a table, `report@12`, `report@latest` or `"report@month-end"`
        stands for a version; `report` alone is the newest one. Between two versions, `report@11..12.diff_valuation`
        has the rows that differ, with `op`, `from_COLUMN` and `to_COLUMN`. `report.diff_valuation` has those
        between all neighbours, and `report.history_valuation` each state of each row, with `valid_from` and
        `valid_to`. The answer has a line for the names of the columns, one for each row, an array, and one for the
        end. Values are as in JSON; a blob is `{"hex":"00ff"}`. Nothing can be written.
        """
        return self._transport.lines(
            "POST",
            ["v1", "query"],
            answers=QueryLine,
            body={"limit": limit, "sql": sql, "timeout_seconds": timeout_seconds},
        )

    def publish(
        self,
        *,
        attributes: dict[str, Any] | None = None,
        business_date: datetime.date | None = None,
        certified_by: str | None = None,
        label: str | None = None,
        note: str | None = None,
        set: str | None = None,
        store: str | None = None,
        wait: Wait | None = None,
        idempotency_key: str | None = None,
    ) -> PublishAnswer:
        """Publishes a store, or a set of stores: fixes its content as a version, and those of a set as of one instant.
        If `set` is given instead of `store`, all stores of that set are published as they are at one instant, or
        none is; the answer is a `PublishedSet` then. The answer comes when the version is durable. If nothing has
        changed since the newest version, that one is published again; if the same was said of it before, that
        publication is answered again. A request that is repeated with the same `Idempotency-Key` gets the first
        one's answer.
        """
        return self._transport.value(
            "POST",
            ["v1", "snapshots"],
            answers=PublishAnswer,
            headers={"Idempotency-Key": idempotency_key},
            body={"attributes": attributes, "business_date": business_date, "certified_by": certified_by, "label": label, "note": note, "set": set, "store": store, "wait": wait},
        )

    def list_stores(self) -> StoreList:
        """Lists the stores, with what is kept of each."""
        return self._transport.value(
            "GET",
            ["v1", "stores"],
            answers=StoreList,
        )

    def archive_stats(self, name: str) -> ArchiveStats:
        """Says what a store's archive takes, version by version, and what of it each version alone needs."""
        return self._transport.value(
            "GET",
            ["v1", "stores", name, "archive"],
            answers=ArchiveStats,
        )

    def push(self, name: str) -> StoreRemote:
        """Has all of a store's archive be in the bucket now. That includes what was merged or given up and could wait
        for an hour, and what has failed and would be tried again later. A new version needs no push: it follows by
        itself.
        """
        return self._transport.value(
            "POST",
            ["v1", "stores", name, "remote", "push"],
            answers=StoreRemote,
        )

    def take_over(self, name: str) -> StoreRemote:
        """Has this daemon publish a store to the bucket from now on, instead of the machine that does so far; that one
        is fenced then. The archive must have everything that is in the bucket: if it does not, it is restored from
        there first.
        """
        return self._transport.value(
            "POST",
            ["v1", "stores", name, "remote", "take-over"],
            answers=StoreRemote,
        )

    def restore(self, name: str, *, version: str, certified_by: str | None = None, note: str | None = None) -> Restored:
        """Brings a store back to one of its versions. The state that is left is published first, as `before restore to
        report@12`; if that fails, or somebody commits after it, nothing is restored. Writers wait while the store
        is written, at most for `max_hold`, and readers see the old state or the new one. If the store already is as
        it is wanted, it is left alone.
        """
        return self._transport.value(
            "POST",
            ["v1", "stores", name, "restore"],
            answers=Restored,
            body={"certified_by": certified_by, "note": note, "version": version},
        )

    def retention(self, name: str, *, rules: str | None = None) -> RetentionPlan:
        """Says what a store's retention retires now, or would by other rules, why, and what that gives back. Nothing
        is changed.
        """
        return self._transport.value(
            "GET",
            ["v1", "stores", name, "retention"],
            answers=RetentionPlan,
            query={"rules": rules},
        )

    def history(
        self,
        name: str,
        table: str,
        key: str,
        *,
        column: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RowHistory:
        """Shows the versions in which a row changed, newest first, with who vouched for them. The key is the value of
        the table's primary key, or the rowid. Several columns are written as a JSON array, `["EUR",7]`, or with
        commas between them.
        """
        return self._transport.value(
            "GET",
            ["v1", "stores", name, "tables", table, "rows", key, "history"],
            answers=RowHistory,
            query={"column": column, "limit": limit, "cursor": cursor},
        )

    def list_tags(self, name: str) -> TagList:
        """Lists the tags of a store."""
        return self._transport.value(
            "GET",
            ["v1", "stores", name, "tags"],
            answers=TagList,
        )

    def untag(self, name: str, tag: str) -> Tag:
        """Deletes a tag; the version stays."""
        return self._transport.value(
            "DELETE",
            ["v1", "stores", name, "tags", tag],
            answers=Tag,
        )

    def tag(self, name: str, tag: str, *, version: str) -> Tag:
        """Has a tag lead to a version, whatever it led to before. A version that has one is not given up."""
        return self._transport.value(
            "PUT",
            ["v1", "stores", name, "tags", tag],
            answers=Tag,
            body={"version": version},
        )

    def verify(self, name: str, *, version: int | None = None) -> Verification:
        """Reads what is kept of a store and compares it with its checksums, and the catalogue's records with what was
        committed. If something is damaged, all of the store's archive is repaired from whatever still has the
        content: the store, or a snapshot of it. The answer comes when that is done. It may take long, and holds
        nobody up.
        """
        return self._transport.value(
            "POST",
            ["v1", "stores", name, "verify"],
            answers=Verification,
            query={"version": version},
        )

    def find(
        self,
        *,
        store: str | None = None,
        as_of: str | None = None,
        business_date: str | None = None,
        label: str | None = None,
    ) -> Version:
        """Finds the version that is meant. If several have the label, none is taken."""
        return self._transport.value(
            "GET",
            ["v1", "version"],
            answers=Version,
            query={"store": store, "as_of": as_of, "business_date": business_date, "label": label},
        )

    def list_versions(
        self,
        *,
        store: str | None = None,
        label: str | None = None,
        certified_by: str | None = None,
        business_date: datetime.date | None = None,
        note: str | None = None,
        attribute: str | None = None,
        set: str | None = None,
        set_cut_at: datetime.datetime | None = None,
        from_: datetime.datetime | None = None,
        to: datetime.datetime | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> VersionList:
        """Lists versions, newest first."""
        return self._transport.value(
            "GET",
            ["v1", "versions"],
            answers=VersionList,
            query={"store": store, "label": label, "certified_by": certified_by, "business_date": business_date, "note": note, "attribute": attribute, "set": set, "set_cut_at": set_cut_at, "from": from_, "to": to, "state": state, "limit": limit, "cursor": cursor},
        )

    def retire(self, id: str, *, reason: str | None = None, now: bool | None = None) -> Version:
        """Gives a version up. It can be brought back until `purge_after`; if that is absent, its pages are gone or on
        their way out. What was retired before stays retired.
        """
        return self._transport.value(
            "DELETE",
            ["v1", "versions", id],
            answers=Version,
            query={"reason": reason, "now": now},
        )

    def show(self, id: str) -> Version:
        """Shows one version."""
        return self._transport.value(
            "GET",
            ["v1", "versions", id],
            answers=Version,
        )

    def download(
        self,
        id: str,
        *,
        range: str | None = None,
        if_range: str | None = None,
        if_none_match: str | None = None,
    ) -> BinaryIO:
        """Downloads a version as a SQLite database in rollback mode. Ranges are served, so that a download can go on
        where it stopped; the `ETag` is the version's fingerprint, once that is known.
        """
        return self._transport.stream(
            "GET",
            ["v1", "versions", id, "database"],
            headers={"Range": range, "If-Range": if_range, "If-None-Match": if_none_match},
        )

    def diff(
        self,
        id: str,
        other: str,
        *,
        table: str | None = None,
        by: str | None = None,
        all: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Diff:
        """Says what differs between two versions. Only pages that differ are read. Versions of different stores can be
        compared, too, for which all of both is read.
        """
        return self._transport.value(
            "GET",
            ["v1", "versions", id, "diff", other],
            answers=Diff,
            query={"table": table, "by": by, "all": all, "limit": limit, "cursor": cursor},
        )

    def open(self, id: str, *, holder: str, ttl_seconds: int | None = None) -> Mount:
        """Opens a version: leases a plain read-only database file with its content."""
        return self._transport.value(
            "POST",
            ["v1", "versions", id, "mounts"],
            answers=Mount,
            body={"holder": holder, "ttl_seconds": ttl_seconds},
        )

    def close(self, id: str, lease: str) -> None:
        """Releases a lease."""
        return self._transport.nothing(
            "DELETE",
            ["v1", "versions", id, "mounts", lease],
        )

    def renew(self, id: str, lease: str, *, ttl_seconds: int | None = None) -> Mount:
        """Renews a lease: from now on it lasts as long as asked for."""
        return self._transport.value(
            "PUT",
            ["v1", "versions", id, "mounts", lease],
            answers=Mount,
            body={"ttl_seconds": ttl_seconds},
        )

    def unpin(self, id: str) -> Version:
        """Unpins a version."""
        return self._transport.value(
            "DELETE",
            ["v1", "versions", id, "pin"],
            answers=Version,
        )

    def pin(
        self,
        id: str,
        *,
        reason: str,
        expires_at: datetime.datetime | None = None,
        hot: bool | None = None,
        owner: str | None = None,
    ) -> Version:
        """Pins a version: neither retention nor a request retires it until it is unpinned."""
        return self._transport.value(
            "PUT",
            ["v1", "versions", id, "pin"],
            answers=Version,
            body={"expires_at": expires_at, "hot": hot, "owner": owner, "reason": reason},
        )

    def list_publications(self, id: str, *, limit: int | None = None, cursor: str | None = None) -> PublicationList:
        """Lists the publications of one version, newest first."""
        return self._transport.value(
            "GET",
            ["v1", "versions", id, "publications"],
            answers=PublicationList,
            query={"limit": limit, "cursor": cursor},
        )

    def plan_retirement(self, id: str, *, reason: str | None = None, now: bool | None = None) -> Version:
        """Says what giving a version up would make of it, or what forbids it. Nothing is changed."""
        return self._transport.value(
            "GET",
            ["v1", "versions", id, "retirement"],
            answers=Version,
            query={"reason": reason, "now": now},
        )

    def unretire(self, id: str, *, reason: str | None = None) -> Version:
        """Brings a retired version back, as long as its grace lasts (`purge_after`). Its tags and its pin do not come
        back.
        """
        return self._transport.value(
            "POST",
            ["v1", "versions", id, "unretire"],
            answers=Version,
            query={"reason": reason},
        )

    def why(self, id: str, *, limit: int | None = None) -> Why:
        """Says what the guard did for a version or with it, newest first, and how the version ended, if it did."""
        return self._transport.value(
            "GET",
            ["v1", "versions", id, "why"],
            answers=Why,
            query={"limit": limit},
        )
