//! What is odd about tasks that were just made.

use crate::dag::{Kind, Snapshot, State};

/// How many tasks a remark names.
const NAMED: usize = 5;

/// What is odd about these tasks, each of which comes with whether it has a description.
pub fn remarks(snapshot: &Snapshot, tasks: impl IntoIterator<Item = (usize, bool)>) -> Vec<String> {
    let (mut all, mut bare, mut lonely, mut empty) = (vec![], vec![], vec![], vec![]);
    for (task, is_described) in tasks {
        all.push(task);
        match (snapshot.kind(task), snapshot.graph.children(task).count()) {
            (Kind::Work, _) if !is_described => bare.push(task),
            (Kind::Work, _) => {}
            (Kind::Group, 0) => empty.push(task),
            (Kind::Group, 1) => lonely.push(task),
            (Kind::Group, _) => {}
        }
    }
    let mut remarks = Vec::new();
    for (what, tasks) in [
        ("no description", &bare),
        ("a group with one task only", &lonely),
        ("a group with nothing in it, which will never be done", &empty),
    ] {
        if !tasks.is_empty() {
            remarks.push(format!("{what}: {}", named(snapshot, tasks)));
        }
    }
    let is = |wanted: State| all.iter().any(|&task| snapshot.state(task) == wanted);
    let open = all
        .iter()
        .any(|&task| snapshot.kind(task) == Kind::Work && snapshot.state(task) != State::Done);
    if open && !is(State::Ready) && !is(State::InProgress) {
        remarks.push("no task is ready: everything waits for something".to_owned());
    }
    remarks
}

fn named(snapshot: &Snapshot, tasks: &[usize]) -> String {
    let mut ids: Vec<String> =
        tasks.iter().take(NAMED).map(|&task| snapshot.tasks[task].id.to_string()).collect();
    if tasks.len() > NAMED {
        ids.push(format!("and {} more", tasks.len() - NAMED));
    }
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::testing::snapshot;

    fn remarked(text: &str, bare: &[usize]) -> Vec<String> {
        let snapshot = snapshot(text);
        let tasks = (0..snapshot.tasks.len()).map(|task| (task, !bare.contains(&task)));
        remarks(&snapshot, tasks)
    }

    #[test]
    fn what_is_fine_needs_no_remark() {
        assert_eq!(remarked("g group: G\na in g: A\nb in g after a: B", &[0]), [""; 0]);
        assert_eq!(remarked("g group: G\na in g done: A\nb in g done: B", &[]), [""; 0]);
    }

    #[test]
    fn what_is_odd_is_said_once_and_named() {
        let text = "g group: G\na in g: A\nh group: H\nb after h: B\nc after h: C";
        assert_eq!(
            remarked(text, &[1, 3, 4]),
            [
                "no description: t-000001, t-000003, t-000004",
                "a group with one task only: t-000000",
                "a group with nothing in it, which will never be done: t-000002",
            ]
        );
        assert_eq!(
            remarked("h group: H\nb after h: B", &[]),
            [
                "a group with nothing in it, which will never be done: t-000000",
                "no task is ready: everything waits for something",
            ]
        );
    }

    #[test]
    fn many_are_counted() {
        let text: Vec<String> = (0..8).map(|number| format!("t{number}: T")).collect();
        assert_eq!(
            remarked(&text.join("\n"), &[0, 1, 2, 3, 4, 5, 6, 7]),
            ["no description: t-000000, t-000001, t-000002, t-000003, t-000004, and 3 more"]
        );
    }
}
