//! The store against the rules: after any sequence of operations, what is stored is what follows.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

use super::*;
use crate::dag::{
    Bill, Billing, FeatureStatus, Graph, Kind, Outcome, RunId, SessionKind, Snapshot, State,
    Status, TaskId, Tokens, Verb,
};
use crate::process::{Holder, Life};
use crate::time::Timestamp;

/// A store in a directory of its own, with a run.
struct Bench {
    store: Store,
    run: RunId,
    claims: Vec<Claim>,
    now: Timestamp,
    _directory: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let directory = TempDir::new().unwrap();
        let mut store = Store::open(&directory.path().join("progress.db")).unwrap();
        let now = Timestamp::now();
        let run = NewRun::new();
        let run = store.start_run(&run, now).unwrap();
        Bench { store, run, claims: Vec::new(), now, _directory: directory }
    }

    fn add(&mut self, task: NewTask) -> TaskId {
        self.try_add(task).unwrap()
    }

    fn try_add(&mut self, task: NewTask) -> Result<TaskId> {
        Ok(self.store.add_tasks(&[task], None, self.now)?[0])
    }

    fn apply(&mut self, verb: Verb, task: TaskId) {
        self.store.apply(verb, &task.to_string(), None, None, self.now).unwrap();
    }

    fn claim(&mut self) -> Option<Claim> {
        self.store.claim_next(self.run, &Target::Everything, self.now).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        self.store.snapshot(self.now).unwrap()
    }

    fn state(&self, task: TaskId) -> State {
        let snapshot = self.snapshot();
        snapshot.state(snapshot.tasks.iter().position(|t| t.id == task).unwrap())
    }

    #[track_caller]
    fn assert_consistent(&self) {
        assert_eq!(self.store.check().unwrap(), []);
    }

    /// Asserts that a task by itself looks as it does among all others.
    #[track_caller]
    fn assert_alone_as_among_all(&self, now: Timestamp) {
        let all = self.store.snapshot(now).unwrap();
        for task in 0..all.tasks.len() {
            let id = all.tasks[task].id.to_string();
            let (around, index) = self.store.snapshot_around(&id, now).unwrap();
            assert_eq!(looks(&around, index), looks(&all, task));
        }
        let next = self.store.snapshot_of_next(None, now).unwrap();
        let next = next.map(|(alone, index)| {
            assert!(alone.waiting_on(index).is_empty());
            let blockers = alone.graph.blockers(index);
            assert!(blockers.map(|task| alone.state(task)).all(|state| state == State::Done));
            (alone.tasks[index].id, alone.state(index), alone.graph.blockers(index).count())
        });
        let expected = all
            .ready()
            .first()
            .map(|&index| (all.tasks[index].id, State::Ready, all.graph.blockers(index).count()));
        assert_eq!(next, expected);
    }
}

/// All that is shown of a task.
fn looks(snapshot: &Snapshot, task: usize) -> String {
    let graph = &snapshot.graph;
    let name = |task: usize| (snapshot.tasks[task].id, snapshot.state(task));
    let mut inside: Vec<_> = snapshot.inside(task).into_iter().map(name).collect();
    if snapshot.kind(task) == Kind::Work {
        inside.clear();
    }
    let waiting_on: Vec<_> = snapshot.waiting_on(task).into_iter().map(name).collect();
    let blockers: Vec<_> = graph.blockers(task).map(name).collect();
    let blocked: Vec<_> = graph.blocked(task).map(name).collect();
    let groups: Vec<_> = graph.lineage(task).map(|group| snapshot.tasks[group].id).collect();
    format!(
        "{:?} {:?} {} {inside:?}, waits for {blockers:?} {waiting_on:?}, needed by {blocked:?}, in {groups:?}",
        snapshot.tasks[task],
        name(task),
        snapshot.derived.can_finish[task],
    )
}

fn titled(title: &str) -> NewTask {
    NewTask { title: title.into(), ..NewTask::default() }
}

fn inside(parent: TaskId, title: &str) -> NewTask {
    NewTask { parent: Some(parent.to_string()), ..titled(title) }
}

fn ending(outcome: Outcome) -> Ending {
    Ending::new(outcome, 1)
}

/// What to pick from: groups are rare, and it is around them that things go wrong.
#[derive(Debug, Clone, Copy)]
enum Prefer {
    Groups,
    Anything,
}

#[derive(Debug, Clone)]
enum Operation {
    Add { parent: Option<Index>, after: Vec<Index>, group: bool, priority: i32 },
    AddDependency(Index, Index, Prefer),
    RemoveDependency(Index, Index),
    Move(Index, Option<Index>),
    Delete(Index),
    Apply(Verb, Index, Prefer),
    Claim,
    Finish(Index, Outcome, bool),
    Reimport,
}

fn operation() -> impl Strategy<Value = Operation> {
    let index = any::<Index>;
    let verb = prop::sample::select(vec![Verb::Done, Verb::Fail, Verb::Block, Verb::Reset]);
    let outcome = prop::sample::select(Outcome::ALL);
    let prefer = || prop::sample::select(vec![Prefer::Groups, Prefer::Anything]);
    prop_oneof![
        8 => (any::<Option<Index>>(), prop::collection::vec(index(), 0..3), any::<bool>(), -2..3)
            .prop_map(|(parent, after, group, priority)| Operation::Add { parent, after, group, priority }),
        8 => (index(), index(), prefer()).prop_map(|(a, b, p)| Operation::AddDependency(a, b, p)),
        2 => (index(), index()).prop_map(|(a, b)| Operation::RemoveDependency(a, b)),
        3 => (index(), any::<Option<Index>>()).prop_map(|(a, b)| Operation::Move(a, b)),
        1 => index().prop_map(Operation::Delete),
        8 => (verb, index(), prefer()).prop_map(|(verb, task, p)| Operation::Apply(verb, task, p)),
        4 => Just(Operation::Claim),
        4 => (index(), outcome, any::<bool>()).prop_map(|(c, o, later)| Operation::Finish(c, o, later)),
        1 => Just(Operation::Reimport),
    ]
}

impl Bench {
    /// Does it if it may be done; what may not be must change nothing, which the caller checks.
    fn perform(&mut self, operation: &Operation) {
        let snapshot = self.snapshot();
        let ids: Vec<String> = snapshot.tasks.iter().map(|task| task.id.to_string()).collect();
        let pick = |index: &Index| (!ids.is_empty()).then(|| index.index(ids.len()));
        let with_children: Vec<usize> =
            (0..ids.len()).filter(|&task| snapshot.graph.children(task).next().is_some()).collect();
        let pick_preferred = |index: &Index, prefer: &Prefer| match prefer {
            Prefer::Groups if !with_children.is_empty() => Some(*index.get(&with_children)),
            Prefer::Groups | Prefer::Anything => pick(index),
        };
        match operation {
            Operation::Add { parent, after, group, priority } => {
                let parent = parent.as_ref().and_then(pick).map(|i| ids[i].clone());
                let after = after.iter().filter_map(pick).map(|i| ids[i].clone()).collect();
                let task =
                    NewTask { parent, after, group: *group, priority: *priority, ..titled("x") };
                let _ = self.try_add(task);
            }
            Operation::AddDependency(a, b, prefer) => {
                if let (Some(a), Some(b)) = (pick(a), pick_preferred(b, prefer)) {
                    let added = self.store.add_dependency(&ids[a], &ids[b], self.now);
                    assert_eq!(added.is_err(), closes_loop(&snapshot, a, b), "{added:?}");
                }
            }
            Operation::RemoveDependency(a, b) => {
                if let (Some(a), Some(b)) = (pick(a), pick(b)) {
                    let removed = self.store.remove_dependency(&ids[a], &ids[b], self.now);
                    assert_eq!(removed.is_ok(), snapshot.graph.blockers(b).any(|it| it == a));
                }
            }
            Operation::Move(task, parent) => {
                if let Some(task) = pick(task) {
                    let parent = parent.as_ref().and_then(pick).map(|i| ids[i].clone());
                    let change = Change { parent: Some(parent), ..Change::default() };
                    let _ = self.store.update_task(&ids[task], &change, self.now);
                }
            }
            Operation::Delete(task) => {
                if let Some(task) = pick(task) {
                    let planned = self.store.plan_deletion(&ids[task]);
                    assert_eq!(planned.is_ok(), self.store.delete_task(&ids[task]).is_ok());
                }
            }
            Operation::Apply(verb, task, prefer) => {
                if let Some(task) = pick_preferred(task, prefer) {
                    let _ = self.store.apply(*verb, &ids[task], None, None, self.now);
                }
            }
            Operation::Claim => {
                let expected = snapshot.ready().first().map(|&task| snapshot.tasks[task].id);
                let claim = self.claim();
                assert_eq!(claim.as_ref().map(|claim| claim.task), expected);
                self.claims.extend(claim);
            }
            Operation::Finish(claim, outcome, later) => {
                if !self.claims.is_empty() {
                    let claim = self.claims.remove(claim.index(self.claims.len()));
                    let not_before = later.then(|| self.now.plus(Duration::from_secs(60)));
                    let ending = Ending { not_before, ..ending(*outcome) };
                    // Lost if somebody decided in between, which is what may happen.
                    match self.store.finish(claim, &ending, self.now) {
                        Ok(_) => {}
                        Err(error) => assert!(error.is::<ClaimLost>(), "{error:?}"),
                    }
                }
            }
            Operation::Reimport => {
                let mut before = Vec::new();
                self.store.export(&mut before).unwrap();
                let imported = self.store.import(before.as_slice());
                let mut after = Vec::new();
                self.store.export(&mut after).unwrap();
                assert_eq!(imported.map(|it| it.new_tasks).unwrap(), 0);
                assert_eq!(before, after);
            }
        }
    }
}

/// The oracle: does the whole graph with this edge have a loop?
fn closes_loop(snapshot: &Snapshot, blocker: usize, blocked: usize) -> bool {
    let edges = (0..snapshot.tasks.len())
        .flat_map(|task| snapshot.graph.blockers(task).map(move |blocker| (blocker, task)))
        .chain([(blocker, blocked)]);
    let edges: Vec<(usize, usize)> = edges.collect();
    Graph::new(snapshot.graph.nodes().to_vec(), &edges).order().is_err()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_stored_is_what_follows(
        parents in prop::collection::vec(any::<Option<Index>>(), 8..24),
        operations in prop::collection::vec(operation(), 1..80),
    ) {
        let mut bench = Bench::new();
        for parent in parents {
            bench.perform(&Operation::Add { parent, after: vec![], group: false, priority: 0 });
        }
        for operation in &operations {
            bench.perform(operation);
            bench.assert_consistent();
        }
        // What is put off is due by then.
        for later in [Duration::ZERO, Duration::from_secs(1_000_000)] {
            bench.assert_alone_as_among_all(bench.now.plus(later));
        }
    }

    #[test]
    fn finishing_whatever_is_picked_finishes_everything(
        operations in prop::collection::vec(operation(), 1..40)
    ) {
        let mut bench = Bench::new();
        for operation in operations {
            if matches!(operation, Operation::Add { .. } | Operation::AddDependency(..) | Operation::Move(..)) {
                bench.perform(&operation);
            }
        }
        while let Some(claim) = bench.claim() {
            bench.store.finish(claim, &ending(Outcome::Done), bench.now).unwrap();
        }
        let snapshot = bench.snapshot();
        for task in 0..snapshot.tasks.len() {
            // An empty group is never done, and nothing that waits for it is.
            prop_assert_eq!(snapshot.state(task) == State::Done, snapshot.derived.can_finish[task]);
        }
    }
}

#[test]
fn a_task_with_thousands_around_it_looks_the_same_by_itself() {
    let mut bench = Bench::new();
    let first = bench.add(titled("first"));
    let group = bench.add(NewTask { group: true, ..titled("group") });
    let fan: Vec<NewTask> = (0..2_500)
        .map(|_| NewTask { after: vec![first.to_string()], ..inside(group, "x") })
        .collect();
    let ids = bench.store.add_tasks(&fan, None, bench.now).unwrap();
    let after = ids.iter().map(TaskId::to_string).collect();
    let last = bench.add(NewTask { after, ..titled("last") });
    let all = bench.snapshot();
    for task in [first, group, ids[7], last] {
        let (around, index) = bench.store.snapshot_around(&task.to_string(), bench.now).unwrap();
        let place = all.tasks.iter().position(|it| it.id == task).unwrap();
        assert_eq!(looks(&around, index), looks(&all, place));
    }
    let (next, _) = bench.store.snapshot_of_next(None, bench.now).unwrap().unwrap();
    assert_eq!(next.tasks.len(), 1, "what waits for it does not matter");
}

#[test]
fn resetting_a_failed_grandchild_reopens_every_ancestor() {
    let mut bench = Bench::new();
    let outer = bench.add(titled("outer"));
    let inner = bench.add(inside(outer, "inner"));
    let task = bench.add(inside(inner, "task"));
    let after = bench.add(NewTask { after: vec![outer.to_string()], ..titled("after") });
    bench.apply(Verb::Fail, task);
    assert_eq!([outer, inner].map(|id| bench.state(id)), [State::Failed; 2]);
    bench.apply(Verb::Reset, task);
    assert_eq!([outer, inner].map(|id| bench.state(id)), [State::Waiting; 2]);
    bench.apply(Verb::Done, task);
    assert_eq!([outer, inner].map(|id| bench.state(id)), [State::Done; 2]);
    assert_eq!(bench.state(after), State::Ready);
    bench.assert_consistent();
}

#[test]
fn a_new_child_reopens_a_done_group_and_what_waited_for_it_waits_again() {
    let mut bench = Bench::new();
    let group = bench.add(titled("group"));
    let first = bench.add(inside(group, "first"));
    let after = bench.add(NewTask { after: vec![group.to_string()], ..titled("after") });
    bench.apply(Verb::Done, first);
    assert_eq!(bench.state(after), State::Ready);
    bench.add(inside(group, "second"));
    assert_eq!(bench.state(group), State::InProgress);
    assert_eq!(bench.state(after), State::Waiting);
    bench.assert_consistent();
}

#[test]
fn a_done_task_that_is_given_a_child_becomes_an_open_group() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let after = bench.add(NewTask { after: vec![task.to_string()], ..titled("after") });
    bench.apply(Verb::Done, task);
    bench.add(inside(task, "child"));
    assert_eq!(bench.store.task(task).unwrap().unwrap().kind, Kind::Group);
    assert_eq!(bench.state(after), State::Waiting);
    bench.assert_consistent();
}

#[test]
fn the_next_task_is_the_one_with_the_lowest_priority_then_the_oldest() {
    let mut bench = Bench::new();
    let urgent_group = bench.add(NewTask { priority: -5, group: true, ..titled("urgent") });
    let child = bench.add(inside(urgent_group, "child of the urgent one"));
    let late = bench.add(NewTask { priority: 1, ..titled("late") });
    let urgent = bench.add(NewTask { priority: -1, ..titled("first") });
    let order: Vec<TaskId> = std::iter::from_fn(|| bench.claim()).map(|claim| claim.task).collect();
    assert_eq!(order, [urgent, child, late]);
}

#[test]
fn a_task_is_not_claimed_before_its_time() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let claim = bench.claim().unwrap();
    let later = bench.now.plus(Duration::from_secs(60));
    let ending = Ending { not_before: Some(later), ..ending(Outcome::Failed) };
    bench.store.finish(claim, &ending, bench.now).unwrap();
    assert_eq!(bench.state(task), State::Waiting);
    assert!(bench.claim().is_none());
    bench.now = later;
    assert_eq!(bench.state(task), State::Ready);
    assert_eq!(bench.claim().unwrap().number, 2);
}

#[test]
fn a_claim_that_was_taken_back_changes_nothing_any_more() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let late = bench.claim().unwrap();
    let taken = bench.store.take_back(|_| Life::Gone, bench.now).unwrap();
    assert_eq!(taken, [TakenBack { task, attempt: late.attempt, gone: true }]);
    let claim = bench.claim().unwrap();
    let error = bench.store.finish(late, &ending(Outcome::Done), bench.now).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ClaimLost { task, loss: Loss::TakenBack }));
    assert_eq!(bench.state(task), State::InProgress);
    bench.store.finish(claim, &ending(Outcome::Done), bench.now).unwrap();
    let outcomes: Vec<_> =
        bench.store.attempts(task).unwrap().into_iter().map(|it| it.outcome.unwrap()).collect();
    assert_eq!(outcomes, [Outcome::Crashed, Outcome::Done]);
    assert_eq!(bench.store.task(task).unwrap().unwrap().retries, 0, "a crash costs no retry");
}

#[test]
fn a_silent_run_loses_its_claims_and_one_that_speaks_keeps_them() {
    let mut bench = Bench::new();
    bench.add(titled("task"));
    let _claim = bench.claim().unwrap();
    let unknown = |_: &Holder| Life::Unknown;
    let later = bench.now.plus(LEASE + Duration::from_secs(1));
    bench.store.heartbeat(bench.run, later).unwrap();
    assert_eq!(bench.store.take_back(unknown, later).unwrap(), []);
    let much_later = later.plus(LEASE + Duration::from_secs(1));
    let alive = |_: &Holder| Life::Alive;
    assert_eq!(bench.store.take_back(alive, much_later).unwrap(), [], "the clock was set");
    let taken = bench.store.take_back(unknown, much_later).unwrap();
    assert_eq!(taken.iter().map(|claim| claim.gone).collect::<Vec<_>>(), [false]);
}

#[test]
fn what_is_known_of_a_session_stays_with_its_attempt() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let claim = bench.claim().unwrap();
    let model = SessionRecord { model: Some("opus".into()), ..SessionRecord::default() };
    bench.store.record_session(&claim, &model).unwrap();
    let rest = SessionRecord {
        log_path: Some("/tmp/log".into()),
        bill: Some(Bill { cost_usd: 0.5, ..Bill::default() }),
        turns: Some(7),
        ..SessionRecord::default()
    };
    bench.store.record_session(&claim, &rest).unwrap();
    let attempt = &bench.store.attempts(task).unwrap()[0];
    assert_eq!(attempt.model.as_deref(), Some("opus"));
    assert_eq!(attempt.log_path.as_deref(), Some("/tmp/log"));
    assert_eq!((attempt.cost_usd, attempt.turns), (Some(0.5), Some(7)));
    bench.apply(Verb::Done, task);
    let error = bench.store.record_session(&claim, &rest).unwrap_err();
    assert!(error.is::<ClaimLost>(), "somebody else has decided");
}

#[test]
fn what_sessions_have_cost_stays_when_their_task_is_gone() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let tokens = Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 };
    for (kind, cost_usd, billing) in [
        (SessionKind::Work, 0.5, Some(Billing::Api)),
        (SessionKind::Work, 0.1, None),
        (SessionKind::Verify, 0.2, Some(Billing::Subscription)),
        (SessionKind::Interview, 0.0, None),
    ] {
        let bill = Bill { cost_usd, tokens, billing };
        let session = NewSession { task: Some(task), bill, ..NewSession::new(kind, bench.now) };
        let id = bench.store.begin_session(&session).unwrap();
        bench.store.end_session(id, &session, bench.now).unwrap();
    }
    let sessions = bench.store.sessions_of(task).unwrap();
    let kinds: Vec<SessionKind> = sessions.iter().map(|session| session.kind).collect();
    use SessionKind::{Interview, Verify, Work};
    assert_eq!(kinds, [Work, Work, Verify, Interview]);
    assert_eq!((sessions[0].cache_read_tokens, sessions[0].output_tokens), (Some(2), Some(4)));
    bench.store.delete_task(&task.to_string()).unwrap();
    let costs = bench.store.activity().unwrap().costs;
    assert_eq!(costs.kinds, [(Work, 0.6), (Verify, 0.2)]);
    assert_eq!((costs.charged, costs.covered, costs.total()), (0.6, 0.2, 0.8));
    let mut export = Vec::new();
    bench.store.export(&mut export).unwrap();
    let mut other = Bench::new();
    other.store.import(&export[..]).unwrap();
    other.store.import(&export[..]).unwrap();
    assert_eq!(other.store.activity().unwrap().costs, costs);
}

#[test]
fn an_export_without_sessions_has_the_cost_of_its_attempts() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let claim = bench.claim().unwrap();
    let bill = Some(Bill { cost_usd: 0.5, ..Bill::default() });
    let session = SessionRecord { bill, ..SessionRecord::default() };
    let ending = Ending { session, ..ending(Outcome::Done) };
    bench.store.finish(claim, &ending, bench.now).unwrap();
    let mut export = Vec::new();
    bench.store.export(&mut export).unwrap();
    let mut other = Bench::new();
    for _ in 0..2 {
        other.store.import(&export[..]).unwrap();
        let costs = other.store.activity().unwrap().costs;
        assert_eq!(costs.kinds, [(SessionKind::Work, 0.5)]);
    }
    assert_eq!(other.store.sessions_of(task).unwrap()[0].kind, SessionKind::Work);
}

#[test]
fn a_person_who_decides_a_running_task_overrules_its_attempt() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let claim = bench.claim().unwrap();
    bench.apply(Verb::Done, task);
    assert_eq!(bench.state(task), State::Done);
    assert_eq!(bench.store.attempts(task).unwrap()[0].outcome, Some(Outcome::Overruled));
    let late = Ending {
        session: SessionRecord {
            bill: Some(Bill { cost_usd: 0.5, ..Bill::default() }),
            exit_code: Some(0),
            ..SessionRecord::default()
        },
        reason: Some("no".into()),
        ..ending(Outcome::Failed)
    };
    let error = bench.store.finish(claim, &late, bench.now).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ClaimLost { task, loss: Loss::Overruled }));
    assert_eq!(bench.state(task), State::Done);
    let attempt = &bench.store.attempts(task).unwrap()[0];
    assert_eq!((attempt.cost_usd, attempt.exit_code), (Some(0.5), Some(0)), "it has cost that");
    assert_eq!((attempt.outcome, attempt.reason.as_deref()), (Some(Outcome::Overruled), None));
}

#[test]
fn a_claim_on_a_task_that_was_deleted_is_lost_whatever_is_asked_of_it() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let claim = bench.claim().unwrap();
    assert_eq!(bench.store.lost(&claim).unwrap(), None);
    bench.store.delete_task(&task.to_string()).unwrap();
    let deleted = ClaimLost { task, loss: Loss::Deleted };
    assert_eq!(bench.store.lost(&claim).unwrap().as_ref(), Some(&deleted));
    assert_eq!(bench.store.asked(&claim).unwrap_err().downcast_ref(), Some(&deleted));
    let session = SessionRecord::default();
    let error = bench.store.record_session(&claim, &session).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&deleted));
    let error = bench.store.finish(claim, &ending(Outcome::Done), bench.now).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&deleted));
}

#[test]
fn the_last_attempt_in_a_working_tree_is_not_that_of_another() {
    let mut bench = Bench::new();
    for title in ["one", "two", "three"] {
        bench.add(titled(title));
    }
    let mut claim_in = |root: Option<&Path>| {
        let run = NewRun { root: root.map(Path::to_owned), ..NewRun::new() };
        let run = bench.store.start_run(&run, bench.now).unwrap();
        bench.store.claim_next(run, &Target::Everything, bench.now).unwrap().unwrap().attempt
    };
    let (here, there) = (Path::new("/tree/here"), Path::new("/tree/there"));
    let attempts = [claim_in(Some(here)), claim_in(Some(there)), claim_in(None)];
    let last =
        |root, or_unknown| bench.store.last_attempt_in(root, or_unknown).unwrap().map(|it| it.id);
    assert_eq!(last(here, false), Some(attempts[0]));
    assert_eq!(last(there, false), Some(attempts[1]));
    assert_eq!(last(there, true), Some(attempts[2]));
    assert_eq!(last(Path::new("/tree"), false), None);
}

#[test]
fn where_a_feature_stands_follows_from_its_tasks() {
    let mut bench = Bench::new();
    let feature = bench.store.open_feature("login", bench.now).unwrap().0.id;
    let stands = |bench: &Bench| bench.store.feature("login").unwrap().status;
    let task = |title| NewTask { feature: Some("login".into()), ..titled(title) };
    let (one, two) = (bench.add(task("one")), bench.add(task("two")));
    assert_eq!(stands(&bench), FeatureStatus::Draft, "whatever tasks it has");
    let built = FeatureChange { status: Some(FeatureStatus::Ready), ..FeatureChange::default() };
    bench.store.update_feature(feature, &built, bench.now).unwrap();
    assert_eq!(stands(&bench), FeatureStatus::Ready);
    let claim = bench.claim().unwrap();
    assert_eq!(stands(&bench), FeatureStatus::Running);
    bench.store.take_back(|_| Life::Gone, bench.now).unwrap();
    assert_eq!(stands(&bench), FeatureStatus::Ready, "{claim:?} was taken back");
    bench.apply(Verb::Fail, one);
    assert_eq!(stands(&bench), FeatureStatus::Failed);
    bench.apply(Verb::Done, one);
    bench.apply(Verb::Done, two);
    assert_eq!(stands(&bench), FeatureStatus::Done);
    bench.apply(Verb::Reset, two);
    assert_eq!(stands(&bench), FeatureStatus::Ready, "nobody has to remember to say so");
}

#[test]
fn a_target_that_was_deleted_has_nothing_to_work_on() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    bench.add(titled("another"));
    let target = bench.store.target(&task.to_string()).unwrap();
    bench.store.delete_task(&task.to_string()).unwrap();
    assert_eq!(bench.store.counts(&target).unwrap(), Counts::default());
    assert!(bench.store.claim_next(bench.run, &target, bench.now).unwrap().is_none());
    assert_eq!(bench.store.reset_failed(&target, bench.now).unwrap(), []);
}

#[test]
fn n_retries_are_used_up_and_a_reset_gives_them_back() {
    let mut bench = Bench::new();
    let task = bench.add(NewTask { max_retries: Some(2), ..titled("task") });
    for _ in 0..3 {
        let claim = bench.claim().unwrap();
        bench.store.finish(claim, &ending(Outcome::Failed), bench.now).unwrap();
    }
    assert_eq!(bench.state(task), State::Failed);
    bench.apply(Verb::Reset, task);
    let stored = bench.store.task(task).unwrap().unwrap();
    assert_eq!((stored.status, stored.retries), (Some(Status::Pending), 0));
}

#[test]
fn resetting_a_group_resets_what_stopped_inside_and_keeps_what_is_done() {
    let mut bench = Bench::new();
    let group = bench.add(titled("group"));
    let [done, failed, blocked] =
        ["done", "failed", "blocked"].map(|t| bench.add(inside(group, t)));
    bench.apply(Verb::Done, done);
    bench.apply(Verb::Fail, failed);
    bench.apply(Verb::Block, blocked);
    bench.apply(Verb::Block, group);
    assert_eq!(bench.state(group), State::Blocked);
    bench.apply(Verb::Reset, group);
    assert_eq!(
        bench.store.apply(Verb::Reset, &group.to_string(), None, None, bench.now).unwrap(),
        []
    );
    assert_eq!(
        [group, done, failed, blocked].map(|id| bench.state(id)),
        [State::InProgress, State::Done, State::Ready, State::Ready]
    );
    bench.assert_consistent();
}

#[test]
fn the_log_keeps_its_order_when_the_clock_goes_back() {
    let mut bench = Bench::new();
    let task = bench.add(titled("task"));
    let earlier = bench.now;
    bench.now = earlier.plus(Duration::from_secs(3600));
    bench.store.note(&task.to_string(), "first", None, bench.now).unwrap();
    bench.store.note(&task.to_string(), "second", None, earlier).unwrap();
    bench.store.note(&task.to_string(), "third", None, earlier).unwrap();
    let log = bench.store.task_log(task).unwrap();
    let messages: Vec<&str> = log.iter().map(|entry| entry.message.as_str()).collect();
    assert_eq!(messages, ["first", "second", "third"]);
}

#[test]
fn every_change_is_the_last_activity() {
    let mut bench = Bench::new();
    let [a, b] = ["a", "b"].map(|title| bench.add(titled(title)).to_string());
    let mut check = |change: &dyn Fn(&mut Store, Timestamp) -> bool| {
        bench.now = bench.now.plus(Duration::from_secs(60));
        assert!(change(&mut bench.store, bench.now));
        assert_eq!(bench.store.activity().unwrap().last, Some(bench.now));
    };
    check(&|store, now| store.add_dependency(&a, &b, now).is_ok());
    check(&|store, now| store.remove_dependency(&a, &b, now).is_ok());
    check(&|store, now| store.note(&a, "a note", None, now).is_ok());
    check(&|store, now| store.apply(Verb::Done, &a, None, None, now).is_ok());
}

#[test]
fn room_in_the_order_never_runs_out() {
    let mut bench = Bench::new();
    let mut parent = bench.add(titled("outermost"));
    for depth in 0..60 {
        bench.add(inside(parent, &format!("beside {depth}")));
        parent = bench.add(NewTask { group: true, ..inside(parent, &format!("depth {depth}")) });
    }
    bench.assert_consistent();
}
