//! Which process the agent is, when something holds it in namespaces of its own.

use std::fs;

use rustix::process::Pid;

/// The agent that `child` is, or holds: what makes a namespace of processes is its first process, and
/// the agent is the child of that.
pub(in crate::agent) fn agent_of(child: Pid) -> Pid {
    let first = children(child).find(|&it| is_first_of_a_namespace(it));
    first.and_then(|first| children(first).next()).unwrap_or(child)
}

fn children(parent: Pid) -> impl Iterator<Item = Pid> {
    let parent = parent.as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let list: Vec<Pid> = list
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect();
    list.into_iter()
}

fn is_first_of_a_namespace(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(is_first)
}

/// The numbers of a process, from the outermost namespace to its own.
fn is_first(numbers: &str) -> bool {
    let mut numbers = numbers.split_ascii_whitespace().rev();
    numbers.next() == Some("1") && numbers.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_of_a_namespace_is_known_by_its_numbers() {
        assert!(is_first("\t4711\t1"));
        assert!(is_first("\t4711\t12\t1"));
        assert!(!is_first("\t4711\t2"));
        assert!(!is_first("\t1"), "the first of all");
        assert!(!is_first(""));
    }

    #[test]
    fn a_child_that_holds_nobody_is_the_agent_itself() {
        let child = rustix::process::getpid();
        assert_eq!(agent_of(child), child);
    }
}
