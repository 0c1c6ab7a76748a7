-- Snapshots: a version may be held by one, before its fingerprint is known, and be read in it.
-- A table constraint cannot be altered, so the tables that have one are made anew. Nothing refers to a row of
-- `holding`; what refers to `version` finds it again under its name.

create table version_2 (
    store            text    not null references store (name),
    number           integer not null check (number > 0),
    state            text    not null check (state in ('cutting', 'ready', 'retiring', 'retired', 'failed', 'lost')),
    begun_at         text    not null,
    -- What the cut fixed: all of it, or nothing yet. The fingerprint comes with the archive.
    cut_at           text,
    fingerprint      text    check (fingerprint like 'blake3:%' and length(fingerprint) = 71),
    page_size        integer check (page_size between 512 and 65536),
    page_count       integer check (page_count >= 0),
    wal              integer check (wal in (0, 1)),
    -- The as-at copy: a file in the cache, or in the mounted snapshot.
    copy_in_snapshot integer check (copy_in_snapshot in (0, 1)),
    copy_bytes       integer check (copy_bytes >= 0),
    copy_used_at     text,
    pin_reason       text,
    pin_owner        text,
    pin_set_at       text,
    pin_expires_at   text,
    pin_hot          integer check (pin_hot in (0, 1)),
    ended_at         text,
    end_reason       text,
    primary key (store, number),
    check ((cut_at is not null or fingerprint is null)
       and (cut_at is null) = (page_size is null)
       and (cut_at is null) = (page_count is null)
       and (cut_at is null) = (wal is null)),
    check ((copy_bytes is null) = (copy_used_at is null) and (copy_bytes is null) = (copy_in_snapshot is null)),
    check ((pin_reason is null) = (pin_set_at is null) and (pin_reason is null) = (pin_hot is null)),
    check (pin_reason is not null or (pin_owner is null and pin_expires_at is null)),
    check ((ended_at is null) = (end_reason is null)),
    -- What can be read has content; what has ended says when and why.
    check (state <> 'ready' or cut_at is not null),
    check ((state in ('cutting', 'ready')) = (ended_at is null))
) strict, without rowid;

insert into version_2
select store, number, state, begun_at, cut_at, fingerprint, page_size, page_count, wal,
       iif(copy_bytes is null, null, 0), copy_bytes, copy_used_at,
       pin_reason, pin_owner, pin_set_at, pin_expires_at, pin_hot, ended_at, end_reason
from version;

-- What holds a version's pages, in the order of `position`.
create table holding_2 (
    store    text    not null,
    number   integer not null,
    position integer not null check (position >= 0),
    kind     text    not null check (kind in ('archive', 'snapshot')),
    -- What it takes: in the archive, or set aside for a classic snapshot.
    bytes    integer not null check (bytes >= 0),
    -- Older clients take it for invalid where there is none, and say that a sound catalogue is broken.
    snapshot text    check (snapshot is null or json_valid(snapshot)),
    primary key (store, number, position),
    check ((kind = 'snapshot') = (snapshot is not null)),
    foreign key (store, number) references version (store, number) on delete cascade
) strict, without rowid;

insert into holding_2 select store, number, position, kind, bytes, null from holding;

drop table holding;
drop table version;
alter table version_2 rename to version;
alter table holding_2 rename to holding;

alter table publication add column hold text not null default 'nobody'
    check (hold in ('nobody', 'look', 'checkpoint', 'snapshot', 'read'));
alter table publication add column snapshot_us integer not null default 0 check (snapshot_us >= 0);
