-- The guard's log: what was done so that no snapshot and no pool ran full, why, and what came of it. It outlives
-- the versions that it speaks of, so it refers to none. Only the newest rows are kept.

create table guard_log (
    number  integer primary key check (number > 0),
    at      text    not null,
    target  text    not null, -- for whose sake, as 'snapshot report@12'
    -- The version that it was about, where it was about one.
    store   text,
    version integer check (version > 0),
    rung    text    not null
        check (rung in ('extend', 'demote', 'hurry', 'brake', 'retire', 'refuse', 'alarm')),
    reason  text    not null,
    outcome text    not null check (outcome in ('done', 'failed', 'stalled')),
    failure text,
    took_ms integer not null check (took_ms >= 0),
    check ((store is null) = (version is null)),
    check ((outcome = 'failed') = (failure is not null))
) strict;

create index guard_log_of_version on guard_log (store, version, number) where store is not null;
create index guard_log_of_target on guard_log (target, number);
