-- Versions at rest, 128 numbers together, as the daemon keeps them in memory: the rows of `version`, `holding`, `publication` and
-- `check_result` once more, so that a start need not read each of them. A chunk is deleted when one of its rows changes. The rows are the
-- truth: a chunk that says something else is damage.
create table chunk (
    store  text    not null references store (name),
    number integer not null check (number >= 0), -- of the versions from 128 times this number on
    packed blob    not null,
    hash   blob    not null check (length(hash) = 32), -- the BLAKE3 of `packed`
    primary key (store, number)
) strict, without rowid;
