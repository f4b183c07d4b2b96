//! What each caller may do.

use super::*;
use crate::dag::{Ask, TaskId, Verb};
use crate::store::{Change, Claim, NewRun, NewTask, Target};

struct Place {
    store: Store,
    now: Timestamp,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("progress.db")).unwrap();
        Place { store, now: Timestamp::now(), _directory: directory }
    }

    fn ask<O: Operation>(&mut self, caller: &mut Caller, operation: O) -> Result<O::Answer> {
        operation.perform(&mut self.store, caller, self.now)
    }

    /// Adds a task as a person does.
    fn add(&mut self, title: &str, parent: Option<TaskId>) -> TaskId {
        self.ask(&mut Caller::Person, AddTasks::new(vec![new(title, parent)])).unwrap()[0]
    }

    /// A worker on the next ready task, and its claim.
    fn worker(&mut self) -> (Caller, Claim) {
        let run = self.store.start_run(&NewRun::new(), self.now).unwrap();
        let claim = self.store.claim_next(run, &Target::Everything, self.now).unwrap().unwrap();
        (agent(Role::Worker { attempt: claim.attempt, task: claim.task }), claim)
    }
}

fn agent(role: Role) -> Caller {
    Caller::Agent(Agent::new(role))
}

fn new(title: &str, parent: Option<TaskId>) -> NewTask {
    NewTask {
        title: title.to_owned(),
        parent: parent.map(|it| it.to_string()),
        ..NewTask::default()
    }
}

fn add(tasks: impl IntoIterator<Item = NewTask>) -> AddTasks {
    AddTasks::new(tasks.into_iter().collect())
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, because: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(because), "{error}");
}

fn decide(verb: Verb, task: TaskId) -> Decide {
    Decide { verb, id: task.to_string(), reason: None }
}

fn rename(task: TaskId) -> UpdateTask {
    let change = Change { title: Some("Another".to_owned()), ..Change::default() };
    UpdateTask { id: task.to_string(), change }
}

fn wait(blocker: TaskId, blocked: TaskId) -> AddDependency {
    AddDependency { blocker: blocker.to_string(), blocked: blocked.to_string() }
}

#[test]
fn the_word_of_a_person_holds_and_that_of_a_worker_is_a_request_about_its_own_task() {
    let mut place = Place::new();
    let (own, other) = (place.add("Own", None), place.add("Other", None));
    let (mut worker, claim) = place.worker();
    assert_eq!(claim.task, own);
    assert_eq!(place.ask(&mut worker, decide(Verb::Done, own)).unwrap(), Decided::Asked(own));
    assert_eq!(place.store.asked(&claim).unwrap(), Some((Ask::Done, None)));
    for verb in [Verb::Done, Verb::Fail, Verb::Block] {
        refused(place.ask(&mut worker, decide(verb, other)), "this session is about");
    }
    refused(place.ask(&mut worker, decide(Verb::Reset, own)), "an agent can't reset");
    let decided = place.ask(&mut Caller::Person, decide(Verb::Done, other)).unwrap();
    assert_eq!(decided, Decided::Changed(vec![other]));
}

#[test]
fn a_session_without_a_task_decides_about_none() {
    let mut place = Place::new();
    let task = place.add("A task", None);
    for role in [Role::Verifier, Role::Builder { root: task }, Role::Guest] {
        refused(place.ask(&mut agent(role), decide(Verb::Done, task)), "no task of its own");
    }
}

#[test]
fn a_worker_adds_tasks_to_its_own_beside_it_or_alone_and_nowhere_else() {
    let mut place = Place::new();
    let (group, elsewhere) = (place.add("Group", None), place.add("Elsewhere", None));
    place.add("Inside", Some(elsewhere));
    let own = place.add("Own", Some(group));
    place.ask(&mut Caller::Person, wait(own, elsewhere)).unwrap();
    let (mut worker, claim) = place.worker();
    assert_eq!(claim.task, own);
    let beside = place.ask(&mut worker, add([new("Beside", Some(group))])).unwrap()[0];
    let made = place.store.task(beside).unwrap().unwrap();
    assert_eq!(made.created_by, Some(claim.attempt), "its author is the attempt");
    place.ask(&mut worker, add([new("Below what it made", Some(beside))])).unwrap();
    place.ask(&mut worker, add([new("Alone", None)])).unwrap();
    place.ask(&mut worker, add([new("A part of its own", Some(own))])).unwrap();
    refused(place.ask(&mut worker, add([new("No", Some(elsewhere))])), "can't add tasks to");
    let retries = NewTask { max_retries: Some(99), ..new("No", None) };
    refused(place.ask(&mut worker, add([retries])), "max_retries");
}

#[test]
fn a_known_key_makes_nobody_the_owner_of_what_it_finds() {
    let mut place = Place::new();
    let keyed = |title, parent| NewTask { key: Some("theirs".to_owned()), ..new(title, parent) };
    place.add("Own", None);
    let theirs = place.ask(&mut Caller::Person, add([keyed("Theirs", None)])).unwrap()[0];
    let (mut worker, _claim) = place.worker();
    assert_eq!(place.ask(&mut worker, add([keyed("Mine", None)])).unwrap(), [theirs]);
    refused(place.ask(&mut worker, rename(theirs)), "has not added");
    let below = NewTask { parent: Some("theirs".to_owned()), ..new("Below", None) };
    let batch = add([keyed("Mine", None), below]);
    refused(place.ask(&mut worker, batch), "can't add tasks to");
}

#[test]
fn tasks_of_one_batch_may_be_inside_each_other() {
    let mut place = Place::new();
    let root = place.add("Root", None);
    let mut builder = agent(Role::Builder { root });
    let group = NewTask { key: Some("phase".to_owned()), ..new("Phase", Some(root)) };
    let inside = NewTask { parent: Some("phase".to_owned()), ..new("Inside", None) };
    let added = place.ask(&mut builder, add([group, inside])).unwrap();
    assert_eq!(place.store.task(added[1]).unwrap().unwrap().parent, Some(added[0]));
    refused(place.ask(&mut builder, add([new("Alone", None)])), "adds tasks to");
}

#[test]
fn an_agent_changes_and_deletes_what_it_has_added_itself() {
    let mut place = Place::new();
    let (own, other) = (place.add("Own", None), place.add("Other", None));
    let (mut worker, _claim) = place.worker();
    let added = place.ask(&mut worker, add([new("Added", None)])).unwrap()[0];
    place.ask(&mut worker, rename(added)).unwrap();
    for task in [own, other] {
        refused(place.ask(&mut worker, rename(task)), "has not added");
        let plan = PlanDeletion { id: task.to_string() };
        refused(place.ask(&mut worker, plan), "has not added");
        refused(place.ask(&mut worker, DeleteTask { id: task }), "has not added");
    }
    let retries = Change { max_retries: Some(None), ..Change::default() };
    let update = UpdateTask { id: added.to_string(), change: retries };
    refused(place.ask(&mut worker, update), "max_retries");
    place.ask(&mut worker, DeleteTask { id: added }).unwrap();
}

#[test]
fn an_agent_holds_back_its_own_task_and_what_it_has_added() {
    let mut place = Place::new();
    let (own, other) = (place.add("Own", None), place.add("Other", None));
    let (mut worker, _claim) = place.worker();
    let added = place.ask(&mut worker, add([new("Added", None)])).unwrap()[0];
    place.ask(&mut worker, wait(other, added)).unwrap();
    place.ask(&mut worker, wait(added, own)).unwrap();
    refused(place.ask(&mut worker, wait(added, other)), "has not added");
    let free = RemoveDependency { blocker: added.to_string(), blocked: other.to_string() };
    refused(place.ask(&mut worker, free), "has not added");
}

#[test]
fn a_verifier_only_looks() {
    let mut place = Place::new();
    let task = place.add("A task", None);
    let mut verifier = agent(Role::Verifier);
    refused(place.ask(&mut verifier, add([new("No", None)])), "can't change anything");
    let note = Note { id: task.to_string(), message: "Hello.".to_owned() };
    refused(place.ask(&mut verifier, note), "can't change anything");
    let shown = place.ask(&mut verifier, ShowTask { id: task.to_string() }).unwrap();
    assert_eq!(shown.task.title, "A task");
}

#[test]
fn a_session_adds_so_many_tasks_and_no_more() {
    let mut place = Place::new();
    let mut guest = agent(Role::Guest);
    place.ask(&mut guest, add((0..50).map(|_| new("One of many", None)))).unwrap();
    refused(place.ask(&mut guest, add([new("One more", None)])), "50 tasks at most");
}

#[test]
fn an_answer_says_the_same_after_a_journey_as_json() {
    let mut place = Place::new();
    let group = place.add("Group", None);
    let (first, second) = (place.add("First", Some(group)), place.add("Second", Some(group)));
    place.ask(&mut Caller::Person, wait(first, second)).unwrap();
    let filter = || ListTasks { ready: false, states: Vec::new(), feature: None };
    let here = place.ask(&mut Caller::Person, filter()).unwrap();
    let request: Request = filter().into();
    let request: Request = serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
    let answer = request.perform(&mut place.store, &mut Caller::Person, place.now).unwrap();
    let there: Selection = serde_json::from_str(answer.get()).unwrap();
    assert_eq!(there.chosen, here.chosen);
    for task in here.chosen {
        assert_eq!(there.snapshot.tasks[task].id, here.snapshot.tasks[task].id);
        assert_eq!(there.snapshot.state(task), here.snapshot.state(task));
        assert_eq!(there.snapshot.waiting_on(task), here.snapshot.waiting_on(task));
    }
    let nothing = Change { parent: Some(None), max_retries: Some(None), ..Change::default() };
    let sent: Change = serde_json::from_str(&serde_json::to_string(&nothing).unwrap()).unwrap();
    assert_eq!((sent.parent, sent.max_retries), (Some(None), Some(None)), "null is a value");
    assert_eq!(sent.not_before, None);
}
