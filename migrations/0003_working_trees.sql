-- The top of the working tree that a run works in; null for runs from before this was known. What a crash
-- left uncommitted is in the tree of its run, and only a run in the same tree can keep it.
alter table runs add column root text;
