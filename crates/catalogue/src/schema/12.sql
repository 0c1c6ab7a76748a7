-- Archives have format 5 from here on. An asat that knows no more than the schema before sees none of their files, and would record every
-- version as lost.
select 1;
