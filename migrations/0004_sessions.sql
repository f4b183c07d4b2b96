-- Tokens are counted apart where they have different prices. In attempts from before this, `input_tokens`
-- has those that were read from the cache and written into it, too.
alter table attempts add column cache_read_tokens integer;
alter table attempts add column cache_write_tokens integer;
-- How it is paid for: by use, or by a subscription, so that `cost_usd` is what the API would have charged.
alter table attempts add column billing text
    constraint attempt_billing check (billing in ('api', 'subscription'));

-- Every session that has ended, and what it cost: the work on a task, its verification, the build of a
-- feature, an interview. What was paid stays paid, so a session outlives its task and its feature: these
-- columns name what may be deleted by now. What an attempt has cost is the sum of its sessions.
create table sessions (
    id text primary key,
    kind text not null constraint session_kind check (kind in ('work', 'verify', 'build', 'interview')),
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

create index session_attempts on sessions (attempt) where attempt is not null;
create index session_tasks on sessions (task) where task is not null;

-- Of earlier attempts it is not known how much of their cost was verification.
insert into sessions (
    id, kind, attempt, task, feature, run, model, started_at, ended_at, cost_usd, input_tokens,
    output_tokens, log_path, session_id
)
select
    's-' || substr(attempts.id, 3), 'work', attempts.id, tasks.id, tasks.feature, run, model, started_at,
    ended_at, cost_usd, input_tokens, output_tokens, log_path, session_id
from attempts join tasks on tasks.seq = attempts.task
where ended_at is not null and cost_usd is not null
order by attempts.rowid;
