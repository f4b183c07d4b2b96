-- How a run ended, in the words that were shown; null for runs that go on or ended before this was recorded.
alter table runs add column message text;
