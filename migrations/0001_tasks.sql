-- The task graph, the attempts on it and the runs that made them.
--
-- Facts are what people, agents and runs told us. The columns below "derived" follow from the facts;
-- they are here because deriving them for each claim would mean reading the whole graph. They are kept
-- true inside the transaction that changes a fact, by store/counters.rs and store/order.rs.

create table features (
    id text primary key,
    name text not null constraint feature_name unique,
    status text not null default 'draft'
        constraint feature_status check (status in ('draft', 'planned', 'ready', 'running', 'done', 'failed')),
    spec_path text,
    plan_path text,
    created_at text not null,
    updated_at text not null
) strict;

create table tasks (
    seq integer primary key, -- the order of creation
    id text not null constraint task_id unique,
    key text, -- makes a repeated `task add` find what the first one made
    kind text not null constraint task_kind check (kind in ('work', 'group')),
    parent integer references tasks (seq),
    feature text references features (id),
    title text not null constraint task_has_title check (title <> ''),
    description text not null default '',
    priority integer not null default 0, -- lower first
    -- A group's status follows from its children; all that is stored of it is whether a person holds it.
    status text constraint task_status check (
        (kind = 'work' and status is not null and status in ('pending', 'blocked', 'done', 'failed'))
        or (kind = 'group' and (status is null or status = 'blocked'))
    ),
    reason text constraint only_stopped_tasks_have_a_reason check (reason is null or status in ('blocked', 'failed')),
    retries integer not null default 0 constraint retries_count_up check (retries >= 0), -- used since the last reset
    max_retries integer constraint max_retries_count_up check (max_retries >= 0),
    not_before text,
    created_by text, -- the attempt whose agent made it; null for a person
    created_at text not null,
    updated_at text not null,

    -- derived
    claimed integer not null default 0, -- an attempt on it is open
    waits integer not null default 0, -- open blockers, plus one while the parent waits or is held
    children integer not null default 0,
    children_done integer not null default 0,
    starts integer not null, -- its place in one order in which nothing waits for what comes later
    ends integer not null,

    constraint only_pending_tasks_are_claimed check (claimed = 0 or kind = 'group' or status = 'pending'),
    constraint counters_are_sane check (waits >= 0 and children_done >= 0 and children_done <= children),
    constraint starts_before_it_ends check (starts < ends)
) strict;

create unique index task_key on tasks (key) where key is not null;
create index task_children on tasks (parent) where parent is not null;
create index task_feature on tasks (feature) where feature is not null;
create index task_starts on tasks (starts);
create index task_ends on tasks (ends);
-- The next task is the first row of this index, however large the graph is.
create index ready_tasks on tasks (priority, seq)
    where status = 'pending' and waits = 0 and claimed = 0 and not_before is null;
create index deferred_tasks on tasks (not_before) where not_before is not null;

create table dependencies (
    blocker integer not null references tasks (seq) on delete cascade,
    blocked integer not null references tasks (seq) on delete cascade,
    primary key (blocker, blocked),
    constraint no_task_waits_for_itself check (blocker <> blocked)
) strict, without rowid;

create index dependency_blockers on dependencies (blocked);

create table runs (
    id text primary key,
    kind text not null constraint run_kind check (kind in ('run', 'loop')),
    started_at text not null,
    ended_at text,
    outcome text,
    max_iterations integer,
    max_seconds integer,
    max_cost real,
    iterations integer not null default 0,
    cost_usd real not null default 0,
    -- the process behind it
    host text,
    pid integer,
    pid_started integer,
    heartbeat_at text
) strict;

create table attempts (
    id text primary key,
    task integer not null references tasks (seq) on delete cascade,
    number integer not null,
    run text references runs (id),
    model text,
    started_at text not null,
    ended_at text,
    outcome text constraint attempt_outcome check (
        outcome in ('done', 'failed', 'blocked', 'silent', 'interrupted', 'crashed', 'limited', 'overruled')
    ),
    reason text,
    exit_code integer,
    cost_usd real,
    input_tokens integer,
    output_tokens integer,
    turns integer,
    log_path text,
    session_id text,
    head_before text,
    head_after text,
    constraint ended_means_an_outcome check ((ended_at is null) = (outcome is null))
) strict;

create index task_attempts on attempts (task, number);
-- An attempt without an outcome is a claim; a task has at most one.
create unique index one_claim_per_task on attempts (task) where ended_at is null;

create trigger claim_opens after insert on attempts
when new.ended_at is null
begin
    update tasks set claimed = 1 where seq = new.task;
end;

create trigger claim_closes after update of ended_at on attempts
when old.ended_at is null and new.ended_at is not null
begin
    update tasks set claimed = 0 where seq = new.task;
end;

-- Entries of one task never share a time, so that a task and a time name one entry.
create table task_logs (
    task integer not null references tasks (seq) on delete cascade,
    at text not null,
    event text not null constraint log_event check (
        event in ('note', 'done', 'failed', 'blocked', 'reset', 'crashed')
    ),
    author text, -- an attempt; null for a person
    message text not null default '',
    primary key (task, at)
) strict, without rowid;
