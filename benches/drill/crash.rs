//! Runs over random DAGs in which ralph, its agents, what stands between them, or all of it is killed as
//! nothing can prevent, at random moments, and started again until everything is done.

mod graph;
mod rules;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ralph::dag::{Outcome, Status};
use ralph::engine::TreeLock;
use ralph::time::Timestamp;
use rustix::process::Signal;

use crate::harness::{Background, DEADLINE, Project, wait_until, working_sandboxes};
use crate::processes::{self, Process};
use crate::random::Random;
use crate::report::Row;
use crate::{Dose, Drill};
use graph::Dag;
use rules::{MAX_RETRIES, Rule, Rules, Site};

pub(crate) const DRILL: Drill = Drill {
    name: "crash",
    about: "Runs over random DAGs of which ralph, its agents or both are killed with `kill -9` at \
            random moments; everything is checked in between.",
    run: drill,
};

/// No run is left alone for longer than this, in microseconds.
const LONGEST: u64 = 500_000;
/// How long something may be left of a session.
const SECOND: Duration = Duration::from_secs(1);
/// How long it is waited for.
const AFTERMATH: Duration = Duration::from_secs(5);

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let rounds = dose.of(1_000, 25);
    let mut tally = Tally::default();
    let began = Instant::now();
    let sandboxes = [vec!["none"], working_sandboxes()].concat();
    for sandbox in sandboxes.iter().cycle() {
        work_a_dag(sandbox, &mut dose.random, &mut tally, rounds)?;
        if tally.rounds() >= rounds {
            break;
        }
    }
    let mut rows = vec![Row::told("sessions held by", sandboxes.join(", "))];
    rows.extend(tally.rows(began.elapsed()));
    Ok(rows)
}

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Ralph,
    Agent,
    RalphAndAgent,
    Supervisor,
    Everything,
}

impl Victim {
    const ALL: [Victim; 5] = [
        Victim::Ralph,
        Victim::Agent,
        Victim::RalphAndAgent,
        Victim::Supervisor,
        Victim::Everything,
    ];

    fn name(self) -> &'static str {
        match self {
            Victim::Ralph => "ralph",
            Victim::Agent => "the agent",
            Victim::RalphAndAgent => "ralph and the agent",
            Victim::Supervisor => "what stands between them",
            Victim::Everything => "all of them and the tools",
        }
    }

    fn has_ralph(self) -> bool {
        matches!(self, Victim::Ralph | Victim::RalphAndAgent | Victim::Everything)
    }

    fn has_supervisor(self) -> bool {
        matches!(self, Victim::Supervisor | Victim::Everything)
    }
}

/// What was done, and what was found.
#[derive(Default)]
struct Tally {
    killed: [usize; Victim::ALL.len()],
    tasks: usize,
    attempts: usize,
    /// How long the command after a kill took, at most.
    slowest: Duration,
    /// How long something was left after a kill, at most.
    longest: Duration,
    rules: Rules,
}

impl Tally {
    fn rounds(&self) -> usize {
        self.killed.iter().sum()
    }

    fn rows(&self, time: Duration) -> Vec<Row> {
        let milliseconds = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        let mut rows = vec![Row::told("rounds", self.rounds())];
        rows.extend(
            Victim::ALL
                .iter()
                .zip(self.killed)
                .map(|(victim, count)| Row::told(format!("killed: {}", victim.name()), count)),
        );
        rows.push(Row::told("tasks, each done in the end", self.tasks));
        rows.push(Row::told("attempts on them", self.attempts));
        rows.extend(self.rules.rows());
        rows.push(Row::told("the command after a kill took at most", milliseconds(self.slowest)));
        rows.push(Row::timed(
            "processes were left for at most",
            milliseconds(self.longest),
            milliseconds(SECOND),
            self.longest < SECOND,
        ));
        let rounds = u32::try_from(self.rounds()).unwrap_or(u32::MAX).max(1);
        rows.push(Row::told("a round takes", milliseconds(time / rounds)));
        rows
    }
}

/// Works a new DAG to its end with runs in which something is killed.
fn work_a_dag(
    sandbox: &'static str,
    random: &mut Random,
    tally: &mut Tally,
    rounds: usize,
) -> Result<()> {
    let project = Project::new();
    let commands = ["[]", "[\"git status --short\"]"][random.below(2) as usize];
    project.write(".ralph.toml", format!("[verify]\nagent = false\ncommands = {commands}\n"));
    project.git_init();
    let dag = Dag::random(&mut project.store(), random)?;
    let mut site = Site::new(project, dag, sandbox)?;
    let mut is_killed = false;
    while !site.is_done()? {
        let is_new = site.attempts()? == 0;
        let reset = reset_what_failed(&mut site)?;
        ensure!(is_new || is_killed || reset > 0, "a run ended, and nothing was the reason");
        let hides = random.below(2) == 0;
        let mut run = start(&site, random, hides);
        let pid = run.id();
        is_killed = kill_again_and_again(&site, &mut run, hides, random, tally, rounds)?;
        check_lock(&site, &mut tally.rules);
        let (status, lines, stderr) = run.finish();
        // All is done, some of it failed, or the rest waits for what failed.
        if !is_killed && !matches!(status.code(), Some(0 | 1 | 4)) {
            tally.rules.found(Rule::Next, format!("a run ended with {status}: {stderr}"));
        }
        if stderr.contains("another run") || stderr.contains("panicked") {
            tally.rules.found(Rule::Next, stderr);
        }
        if !lines.is_empty() {
            // It has begun, and before that it has tidied up.
            site.killed.clear();
        }
        if is_killed {
            site.kills += 1;
            site.killed.push(pid);
        }
        // Sometimes the next one comes before anybody looks.
        if !is_killed || random.below(3) > 0 {
            check_what_is_left(&site, tally);
            tally.rules.check(&site)?;
        }
    }
    // The last one may have been killed after its work: one that is not tidies up after it.
    site.project.run(site.project.ralph_command(["run"]), None).ok();
    site.killed.clear();
    check_what_is_left(&site, tally);
    tally.rules.check(&site)?;
    tally.tasks += site.dag.work().count();
    tally.attempts += site.attempts()?;
    Ok(())
}

/// A run whose agents begin with throwing away whatever is there: what they do not find any more must be
/// kept elsewhere. A git that was killed leaves its locks.
fn start(site: &Site, random: &mut Random, hides: bool) -> Background {
    let orphans = ["", "-setsid", "-double-fork", "-setsid-double-fork-ignore-term"];
    let orphan = orphans[random.below(orphans.len() as u64) as usize];
    let pause = if random.below(4) == 0 { 300 } else { 30 };
    let script = format!(
        "orphan{hides}{orphan} {number} \
         | run echo begin $RALPH_TASK_ID $RALPH_ATTEMPT_ID >> {ledger}; \
         find .git -name '*.lock' -delete; git reset -q --hard; git clean -q -f -d \
         | run echo half > half-$RALPH_ATTEMPT_ID; echo half-$RALPH_ATTEMPT_ID >> {written} \
         | sleep {pause} \
         | run git add -A; git commit -q -m $RALPH_TASK_ID; \
         echo end $RALPH_TASK_ID $RALPH_ATTEMPT_ID >> {ledger} | done",
        hides = if hides { "-hides" } else { "" },
        number = site.number,
        ledger = site.ledger.display(),
        written = site.written.display(),
        pause = random.below(pause),
    );
    let retries = MAX_RETRIES.to_string();
    let notes = site.notes.to_string_lossy();
    let arguments = [
        "run",
        "--no-auto-reset",
        "--max-retries",
        &retries,
        "--sandbox",
        site.sandbox,
        "--allow",
        &notes,
    ];
    site.project.start(site.project.ralph_playing(&[&script], arguments))
}

/// Kills until ralph itself was killed, or the run has ended; says whether it was killed.
fn kill_again_and_again(
    site: &Site,
    run: &mut Background,
    hides: bool,
    random: &mut Random,
    tally: &mut Tally,
    rounds: usize,
) -> Result<bool> {
    loop {
        let is_over = tally.rounds() >= rounds;
        let patience = match is_over {
            true => DEADLINE,
            false => Duration::from_micros(random.below(LONGEST)),
        };
        if run.ends_within(patience) {
            return Ok(false);
        }
        ensure!(!is_over, "the run does not end");
        let which = random.below(Victim::ALL.len() as u64) as usize;
        let victim = Victim::ALL[which];
        // What has no environment is found by nobody but who stands between.
        if hides && victim.has_supervisor() {
            continue;
        }
        let Some(attempt) = kill(run, victim, random) else { continue };
        tally.killed[which] += 1;
        if victim.has_ralph() {
            return Ok(true);
        }
        check_one_who_was_killed(site, &attempt, victim, tally)?;
    }
}

/// Kills, and returns the attempt that it met; none if there was nothing to kill.
fn kill(run: &mut Background, victim: Victim, random: &mut Random) -> Option<String> {
    if victim == Victim::Ralph {
        run.kill();
        return Some(String::new());
    }
    let mut tree = Vec::new();
    let found = wait_until(Instant::now() + DEADLINE, || {
        tree = processes::below(run.id());
        (tree.iter().any(Process::is_agent) || run.ends_within(Duration::ZERO)).then_some(())
    });
    found.expect("a run that works has an agent");
    let attempt = tree.iter().find(|it| it.is_agent())?.variable("RALPH_ATTEMPT_ID")?;
    tree.retain(|process| match victim {
        Victim::Agent | Victim::RalphAndAgent => process.is_agent(),
        Victim::Supervisor => process.is_supervisor(),
        Victim::Ralph | Victim::Everything => true,
    });
    let ralph_first = random.below(2) == 0;
    if victim.has_ralph() && ralph_first {
        run.kill();
    }
    let met = tree.iter().filter(|process| process.signal(Signal::KILL)).count();
    if victim.has_ralph() && !ralph_first {
        run.kill();
    }
    (met > 0 || victim.has_ralph()).then_some(attempt)
}

/// The run goes on, and has recorded what happened to its agent.
fn check_one_who_was_killed(
    site: &Site,
    attempt: &str,
    victim: Victim,
    tally: &mut Tally,
) -> Result<()> {
    let store = site.project.store();
    let deadline = Instant::now() + AFTERMATH;
    let ended = wait_until(deadline, || {
        store.attempt(attempt).ok().filter(|attempt| attempt.outcome.is_some())
    });
    let told = ended.as_ref().is_some_and(|it| match it.outcome {
        // It had had its say.
        Some(Outcome::Done) => true,
        // `Crashed` if it was killed before it could say a word.
        Some(Outcome::Failed | Outcome::Crashed) => it.exit_code == Some(137),
        _ => false,
    });
    if !told {
        tally.rules.found(Rule::Told, format!("{} was killed: {ended:?}", victim.name()));
    }
    let began = Instant::now();
    let variable = format!("RALPH_ATTEMPT_ID={attempt}");
    let gone =
        wait_until(began + AFTERMATH, || processes::with(&variable).is_empty().then_some(()));
    tally.longest = tally.longest.max(began.elapsed());
    if gone.is_none() {
        tally.rules.found(Rule::Process, processes::with(&variable).join(", "));
    }
    let findings = store.check()?;
    if !findings.is_empty() {
        tally.rules.found(Rule::Sound, format!("{findings:?}"));
    }
    Ok(())
}

/// A run that is gone holds nothing.
fn check_lock(site: &Site, rules: &mut Rules) {
    let root = site.project.root();
    if let Err(held) = TreeLock::take(root, root.join(".ralph/run.json")) {
        rules.found(Rule::Lock, held.to_string());
    }
}

/// The next command works at once, and after it nothing is left.
fn check_what_is_left(site: &Site, tally: &mut Tally) {
    let began = Instant::now();
    let output = site.project.ralph(["status", "--json"]);
    tally.slowest = tally.slowest.max(began.elapsed());
    if !output.status.success() || !output.stderr.is_empty() {
        tally.rules.found(Rule::Next, format!("{output:?}"));
    }
    let base = site.project.base().display().to_string();
    let number = site.number.to_string();
    let left = || {
        let mut left = [processes::with(&base), processes::with(&number)].concat();
        left.dedup();
        left
    };
    let began = Instant::now();
    let gone = wait_until(began + AFTERMATH, || left().is_empty().then_some(()));
    tally.longest = tally.longest.max(began.elapsed());
    if gone.is_none() {
        tally.rules.found(Rule::Process, left().join(", "));
        end(&left());
    }
}

/// Ends what should not be there any more, so that it is found once.
fn end(left: &[String]) {
    for line in left {
        let pid = line.split(' ').next().and_then(|pid| pid.parse().ok());
        pid.and_then(Process::of).map(|process| process.signal(Signal::KILL));
    }
}

/// Puts back what has used up its retries, as a person would; returns how much.
fn reset_what_failed(site: &mut Site) -> Result<usize> {
    let store = site.project.store();
    let mut reset = 0;
    for task in site.dag.work().collect::<Vec<_>>() {
        let id = site.dag.id(task);
        if store.task(id)?.and_then(|it| it.status) == Some(Status::Failed) {
            site.project.ralph(["task", "reset", &id.to_string()]).ok();
            site.resets.insert(task, store.attempts(id)?.len());
            reset += 1;
        }
    }
    Ok(reset)
}

impl Site {
    fn is_done(&self) -> Result<bool> {
        let snapshot = self.project.store().snapshot(Timestamp::now())?;
        Ok(snapshot.derived.states.iter().all(|&state| state == ralph::dag::State::Done))
    }
}
