-- The audit trail: who did what to which version, and why. Rows are only ever added, and each is chained to the one before
-- it. They outlive the versions that they speak of, so they refer to none.

create table audit (
    number  integer primary key check (number > 0),
    at      text    not null,
    actor   text    not null check (actor <> ''),
    request text    check (request <> ''), -- what the caller calls his request
    action  text    not null check (action <> ''),
    store   text    not null,
    version integer not null check (version > 0),
    details text    not null check (json_valid(details)),
    -- The SHA-256 of the value before and of the columns before this one, as docs/access.md says.
    chain   text    not null check (length(chain) = 64)
) strict;

create index audit_of_version on audit (store, version, number);

create trigger audit_is_not_changed before update on audit
begin select raise(abort, 'the audit trail is only added to'); end;
create trigger audit_is_not_removed before delete on audit
begin select raise(abort, 'the audit trail is only added to'); end;

-- Where the trail ends. Before its first entry that is number 0, and the name of the installation, twice.
create table audit_head (
    only   integer primary key check (only = 1),
    number integer not null check (number >= 0),
    chain  text    not null check (length(chain) = 64)
) strict;

insert into audit_head select 1, 0, value || value from meta where key = 'installation';

-- Who took a lease.
alter table lease add column actor text check (actor <> '');

-- Who wants what is intended.
alter table intent add column actor text not null default 'asat' check (actor <> '');
alter table intent add column request text check (request <> '');
