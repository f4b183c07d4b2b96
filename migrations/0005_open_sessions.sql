-- Sessions of loops are recorded, too. SQLite can't change a constraint, so the table is made anew.
create table new_sessions (
    id text primary key,
    kind text not null
        constraint session_kind check (kind in ('work', 'verify', 'build', 'interview', 'loop')),
    attempt text,
    task text,
    feature text,
    run text,
    model text,
    started_at text not null,
    ended_at text not null,
    cost_usd real not null,
    input_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    output_tokens integer,
    billing text constraint session_billing check (billing in ('api', 'subscription')),
    log_path text,
    session_id text -- by which the agent names it
) strict;

insert into new_sessions select * from sessions order by rowid;
drop table sessions;
alter table new_sessions rename to sessions;
create index session_attempts on sessions (attempt) where attempt is not null;
create index session_tasks on sessions (task) where task is not null;

-- Sessions that have begun. One that has ended is a row of `sessions` instead. If ralph is killed before, a
-- later command finds out from the log, or from the transcript of the agent, what the session has cost.
create table open_sessions (
    id text primary key,
    kind text not null
        constraint session_kind check (kind in ('work', 'verify', 'build', 'interview', 'loop')),
    attempt text,
    task text,
    feature text,
    run text,
    model text,
    started_at text not null,
    log_path text,
    session_id text,
    -- the process that started it
    host text not null,
    pid integer not null,
    pid_started integer not null
) strict;

-- What a run of an earlier version has begun.
insert into open_sessions
select
    's-' || substr(attempts.id, 3), 'work', attempts.id, tasks.id, tasks.feature, run, model,
    attempts.started_at, log_path, session_id, host, runs.pid, runs.pid_started
from attempts
    join tasks on tasks.seq = attempts.task
    join runs on runs.id = attempts.run
where attempts.ended_at is null
    and log_path is not null
    and host is not null
    and runs.pid is not null
    and runs.pid_started is not null
    and attempts.id not in (select attempt from sessions where attempt is not null);
