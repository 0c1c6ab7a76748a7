-- Attributes of the publisher's own, as a JSON object of texts, numbers and truth values.

alter table publication add column attributes text not null default '{}' check (json_type(attributes) = 'object');

-- Names that move: each leads to one version of its store, and keeps it from being given up.

create table tag (
    store   text    not null,
    name    text    not null check (length(name) between 1 and 64),
    version integer not null,
    set_at  text    not null,
    primary key (store, name),
    foreign key (store, version) references version (store, number)
) strict, without rowid;

create index tag_of_version on tag (store, version);
