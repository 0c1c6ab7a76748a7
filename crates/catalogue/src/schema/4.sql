-- What the content of a publication was found to meet, in the order of `position`.

create table check_result (
    publication integer not null references publication (number) on delete cascade,
    position    integer not null check (position >= 0),
    name        text    not null,
    passed      integer not null check (passed in (0, 1)),
    found       text    not null,
    took_us     integer not null check (took_us >= 0),
    primary key (publication, position)
) strict, without rowid;
