-- The catalogue's first schema. Instants are RFC 3339 text in UTC with nine digits of fraction: they read
-- well, sort as they follow one another, and come back exactly. Durations and sizes are integers.

create table meta (
    key   text primary key,
    value text not null
) strict, without rowid;

-- One name for this installation, for as long as the catalogue lives.
insert into meta (key, value) values ('installation', lower(hex(randomblob(16))));

create table store (
    name     text primary key check (length(name) between 1 and 64),
    path     any  not null check (typeof(path) in ('text', 'blob')), -- a blob where it is not UTF-8
    added_at text not null
) strict, without rowid;

create table version (
    store          text    not null references store (name),
    number         integer not null check (number > 0),
    state          text    not null check (state in ('cutting', 'ready', 'retiring', 'retired', 'failed', 'lost')),
    begun_at       text    not null,
    -- What the cut fixed: all of it, or nothing yet.
    cut_at         text,
    fingerprint    text    check (fingerprint like 'blake3:%' and length(fingerprint) = 71),
    page_size      integer check (page_size between 512 and 65536),
    page_count     integer check (page_count >= 0),
    wal            integer check (wal in (0, 1)),
    -- The as-at copy in the cache.
    copy_bytes     integer check (copy_bytes >= 0),
    copy_used_at   text,
    pin_reason     text,
    pin_owner      text,
    pin_set_at     text,
    pin_expires_at text,
    pin_hot        integer check (pin_hot in (0, 1)),
    ended_at       text,
    end_reason     text,
    primary key (store, number),
    check ((cut_at is null) = (fingerprint is null)
       and (cut_at is null) = (page_size is null)
       and (cut_at is null) = (page_count is null)
       and (cut_at is null) = (wal is null)),
    check ((copy_bytes is null) = (copy_used_at is null)),
    check ((pin_reason is null) = (pin_set_at is null) and (pin_reason is null) = (pin_hot is null)),
    check (pin_reason is not null or (pin_owner is null and pin_expires_at is null)),
    check ((ended_at is null) = (end_reason is null)),
    -- What can be read has content; what has ended says when and why.
    check (state <> 'ready' or cut_at is not null),
    check ((state in ('cutting', 'ready')) = (ended_at is null))
) strict, without rowid;

-- What holds a version's pages, in the order of `position`.
create table holding (
    store    text    not null,
    number   integer not null,
    position integer not null check (position >= 0),
    kind     text    not null check (kind in ('archive')),
    bytes    integer not null check (bytes >= 0),
    primary key (store, number, position),
    foreign key (store, number) references version (store, number) on delete cascade
) strict, without rowid;

create table publication (
    number            integer primary key check (number > 0),
    store             text    not null,
    version           integer not null,
    at                text    not null,
    label             text,
    certified_by      text,
    business_date     text,
    note              text,
    key               text    unique,
    reused            integer not null check (reused in (0, 1)),
    writer_blocked_us integer not null check (writer_blocked_us >= 0),
    elapsed_us        integer not null check (elapsed_us >= 0),
    foreign key (store, version) references version (store, number)
) strict;

create index publication_of_version on publication (store, version);

create table lease (
    id         text primary key,
    store      text    not null,
    version    integer not null,
    holder     text    not null,
    granted_at text    not null,
    expires_at text    not null,
    foreign key (store, version) references version (store, number)
) strict, without rowid;

create index lease_on_version on lease (store, version);

-- Decisions to act. Those with open = 1 may or may not have happened. The newest one stays when it is over,
-- so that its number is never given twice.
create table intent (
    id     integer primary key check (id >= 0),
    at     text    not null,
    effect text    not null check (json_valid(effect)),
    kind   text    generated always as (json_extract(effect, '$.effect')) virtual,
    open   integer not null check (open in (0, 1))
) strict;
