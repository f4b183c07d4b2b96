-- Inside a session `ralph task done|fail|block` on the session's own task only asks: the run decides.
-- What was asked stands with the attempt for as long as it is open.
alter table attempts add column asked text
    constraint attempt_asks check (asked in ('done', 'failed', 'blocked'));
alter table attempts add column asked_reason text;

-- Whether what was said to be done was checked, and where the log of that session is.
alter table attempts add column verification_status text
    constraint attempt_verification check (verification_status in ('passed', 'failed', 'skipped'));
alter table attempts add column verify_log_path text;
