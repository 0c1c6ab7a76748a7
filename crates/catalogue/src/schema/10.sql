-- Until when a version that was given up can be brought back. Its pages are let go after that, and this is null again.
alter table version add column purge_after text check (purge_after is null or state = 'retired');
