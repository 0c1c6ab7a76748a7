-- The publication of a set of stores that a publication is part of: the set's name, and the instant that all share.

alter table publication add column set_name text check (set_name <> '');
alter table publication add column set_cut_at text check ((set_cut_at is null) = (set_name is null));
