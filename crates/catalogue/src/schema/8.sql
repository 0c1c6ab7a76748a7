-- What a verification has found damaged of what is kept of a store, as JSON; null where nothing is.

alter table store add column damage text check (json_valid(damage));
