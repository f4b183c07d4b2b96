//! The graph of tasks and what follows from it. Every task is two moments, its start and its end:
//! a dependency puts the blocker's end before the blocked one's start, and a parent's start and end
//! enclose those of its children. Nothing can deadlock while that order has no cycle.

use serde::{Deserialize, Serialize};

use super::task::{Kind, State, Status};

/// A task as the graph sees it; tasks are named by their index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// Work or group.
    pub kind: Kind,
    /// What was stored.
    pub status: Status,
    /// The group it is in.
    pub parent: Option<usize>,
    /// Whether an attempt on it is open.
    pub claimed: bool,
    /// Whether its not-before time is still to come.
    pub deferred: bool,
}

/// The start or the end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The task may begin.
    Start(usize),
    /// The task is done.
    End(usize),
}

impl Moment {
    /// A dense number: starts are even, ends are odd.
    pub fn code(self) -> usize {
        match self {
            Moment::Start(task) => 2 * task,
            Moment::End(task) => 2 * task + 1,
        }
    }

    /// The moment with this code.
    pub fn from_code(code: usize) -> Moment {
        if code.is_multiple_of(2) { Moment::Start(code / 2) } else { Moment::End(code / 2) }
    }
}

/// One step of a cycle, as a person would say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// `task` waits for `on`.
    Waits {
        /// The blocked one.
        task: usize,
        /// The blocker.
        on: usize,
    },
    /// `task` is inside `group`.
    Inside {
        /// The child.
        task: usize,
        /// Its parent.
        group: usize,
    },
}

/// A loop in the order of moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Its steps, in order.
    pub links: Vec<Link>,
}

impl Cycle {
    /// The loop that these consecutive moments describe.
    pub(super) fn along(moments: &[Moment]) -> Cycle {
        let link = |pair: &[Moment]| match (pair[0], pair[1]) {
            (Moment::End(on), Moment::Start(task)) => Some(Link::Waits { task, on }),
            (Moment::Start(group), Moment::Start(task))
            | (Moment::End(task), Moment::End(group)) => Some(Link::Inside { task, group }),
            (Moment::Start(_), Moment::End(_)) => None,
        };
        Cycle { links: moments.windows(2).filter_map(link).collect() }
    }
}

/// Tasks, which contains which, and which waits for which.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    children: Neighbours,
    blockers: Neighbours,
    blocked: Neighbours,
}

/// What follows from a graph, by task index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The state of each task.
    pub states: Vec<State>,
    /// Open blockers of its own, plus one while its parent is closed.
    pub waits: Vec<u32>,
    /// How many children it has.
    pub children: Vec<u32>,
    /// How many of them are done.
    pub children_done: Vec<u32>,
    /// Whether it can still get done without a person stepping in.
    pub can_finish: Vec<bool>,
}

impl Graph {
    /// A graph of these tasks with these `(blocker, blocked)` pairs.
    pub fn new(nodes: Vec<Node>, dependencies: &[(usize, usize)]) -> Graph {
        let count = nodes.len();
        let contained = nodes.iter().enumerate().filter_map(|(i, node)| Some((node.parent?, i)));
        Graph {
            children: Neighbours::new(count, contained),
            blockers: Neighbours::new(count, dependencies.iter().map(|&(a, b)| (b, a))),
            blocked: Neighbours::new(count, dependencies.iter().copied()),
            nodes,
        }
    }

    /// The tasks.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The children of a task, in the order of the tasks.
    pub fn children(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        self.children.of(task)
    }

    /// The tasks that this one waits for by itself.
    pub fn blockers(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        self.blockers.of(task)
    }

    /// The tasks that wait for this one by themselves.
    pub fn blocked(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        self.blocked.of(task)
    }

    /// The task and the groups around it, innermost first.
    pub fn lineage(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(task), |&task| self.nodes[task].parent)
    }

    /// What must not come before `moment`.
    pub(super) fn successors(&self, moment: Moment) -> impl Iterator<Item = Moment> + '_ {
        let (own, inner, outer) = match moment {
            Moment::Start(t) => (Some(Moment::End(t)), Some(self.children.of(t)), None),
            Moment::End(t) => {
                (self.nodes[t].parent.map(Moment::End), None, Some(self.blocked.of(t)))
            }
        };
        own.into_iter().chain(inner.into_iter().chain(outer).flatten().map(Moment::Start))
    }

    /// What must come before `moment`.
    pub(super) fn predecessors(&self, moment: Moment) -> impl Iterator<Item = Moment> + '_ {
        let (own, inner, outer) = match moment {
            Moment::Start(t) => {
                (self.nodes[t].parent.map(Moment::Start), None, Some(self.blockers.of(t)))
            }
            Moment::End(t) => (Some(Moment::Start(t)), Some(self.children.of(t)), None),
        };
        own.into_iter().chain(inner.into_iter().chain(outer).flatten().map(Moment::End))
    }

    /// Every moment, each after all that must come before it; or the cycle that forbids it.
    pub fn order(&self) -> Result<Vec<Moment>, Cycle> {
        let total = 2 * self.nodes.len();
        let mut before: Vec<u32> = (0..total)
            .map(|code| self.predecessors(Moment::from_code(code)).count() as u32)
            .collect();
        let mut order: Vec<Moment> =
            (0..total).filter(|&code| before[code] == 0).map(Moment::from_code).collect();
        let mut next = 0;
        while next < order.len() {
            for after in self.successors(order[next]) {
                before[after.code()] -= 1;
                if before[after.code()] == 0 {
                    order.push(after);
                }
            }
            next += 1;
        }
        if order.len() == total { Ok(order) } else { Err(self.find_cycle(&before)) }
    }

    /// Walks back from any moment that is still waiting until it meets itself.
    fn find_cycle(&self, before: &[u32]) -> Cycle {
        let waiting = |moment: &Moment| before[moment.code()] > 0;
        let any = before.iter().position(|&count| count > 0).expect("the order is incomplete");
        let mut trail = vec![Moment::from_code(any)];
        let mut seen_at = vec![None; before.len()];
        seen_at[any] = Some(0);
        loop {
            let here = trail[trail.len() - 1];
            let back = self.predecessors(here).find(waiting).expect("it waits for something");
            trail.push(back);
            if let Some(first) = seen_at[back.code()].replace(trail.len() - 1) {
                let mut moments = trail.split_off(first);
                moments.reverse();
                return Cycle::along(&moments);
            }
        }
    }

    /// What follows for every task; or the cycle that leaves it undefined.
    pub fn derive(&self) -> Result<Derived, Cycle> {
        let mut derivation = Derivation::new(self);
        for moment in self.order()? {
            match moment {
                Moment::Start(task) => derivation.start(task),
                Moment::End(task) => derivation.end(task),
            }
        }
        Ok(derivation.derived)
    }

    /// What holds a task back: open blockers of it and of the groups around it, and those of
    /// these groups that a person holds.
    pub fn waiting_on(&self, task: usize, derived: &Derived) -> Vec<usize> {
        let mut waiting_on = Vec::new();
        for holder in self.lineage(task) {
            if derived.waits[holder] == 0 && self.nodes[holder].status != Status::Blocked {
                break; // Nothing further out can be closed, or this would be.
            }
            if holder != task && self.nodes[holder].status == Status::Blocked {
                waiting_on.push(holder);
            }
            let open = self.blockers(holder).filter(|&b| derived.states[b] != State::Done);
            waiting_on.extend(open);
        }
        waiting_on.sort_unstable();
        waiting_on.dedup();
        waiting_on
    }
}

/// One pass over the moments in order.
struct Derivation<'a> {
    graph: &'a Graph,
    derived: Derived,
    /// Whether everything before the start can still get done without a person.
    can_start: Vec<bool>,
    inside: Vec<Inside>,
}

/// What is known of the children of a group so far, or of a task itself.
#[derive(Clone, Copy, Default)]
struct Inside {
    started: bool,
    failed: bool,
    can_run: bool,
}

impl Derivation<'_> {
    fn new(graph: &Graph) -> Derivation<'_> {
        let count = graph.nodes.len();
        let derived = Derived {
            states: vec![State::Waiting; count],
            waits: vec![0; count],
            children: vec![0; count],
            children_done: vec![0; count],
            can_finish: vec![false; count],
        };
        let inside = vec![Inside::default(); count];
        Derivation { graph, derived, can_start: vec![false; count], inside }
    }

    fn start(&mut self, task: usize) {
        let node = &self.graph.nodes[task];
        let parent_closed = node.parent.is_some_and(|parent| {
            self.derived.waits[parent] > 0 || self.graph.nodes[parent].status == Status::Blocked
        });
        let open = self.graph.blockers(task).filter(|&b| self.derived.states[b] != State::Done);
        self.derived.waits[task] = open.count() as u32 + u32::from(parent_closed);
        self.can_start[task] = node.status != Status::Blocked
            && node.parent.is_none_or(|parent| self.can_start[parent])
            && self.graph.blockers(task).all(|blocker| self.derived.can_finish[blocker]);
    }

    fn end(&mut self, task: usize) {
        let state = match self.graph.nodes[task].kind {
            Kind::Work => self.work_state(task),
            Kind::Group => self.group_state(task),
        };
        self.derived.states[task] = state;
        self.derived.can_finish[task] = match self.graph.nodes[task].kind {
            Kind::Work => state == State::Done || self.inside[task].can_run,
            Kind::Group => {
                self.derived.children[task] > 0
                    && self.graph.children(task).all(|child| self.derived.can_finish[child])
            }
        };
        if let Some(parent) = self.graph.nodes[task].parent {
            let (own, outer) = (self.inside[task], &mut self.inside[parent]);
            outer.started |= own.started;
            outer.failed |= own.failed;
            outer.can_run |= own.can_run;
            self.derived.children[parent] += 1;
            self.derived.children_done[parent] += u32::from(state == State::Done);
        }
    }

    fn work_state(&mut self, task: usize) -> State {
        let node = &self.graph.nodes[task];
        let state = match node.status {
            Status::Done => State::Done,
            Status::Failed => State::Failed,
            Status::Blocked => State::Blocked,
            Status::Pending if node.claimed => State::InProgress,
            Status::Pending if self.derived.waits[task] == 0 && !node.deferred => State::Ready,
            Status::Pending => State::Waiting,
        };
        self.inside[task] = Inside {
            started: matches!(state, State::InProgress | State::Done | State::Failed),
            failed: state == State::Failed,
            can_run: match state {
                State::Ready | State::InProgress => true,
                State::Waiting => self.can_start[task],
                State::Blocked | State::Done | State::Failed => false,
            },
        };
        state
    }

    fn group_state(&mut self, task: usize) -> State {
        let node = &self.graph.nodes[task];
        let inside = &mut self.inside[task];
        if node.claimed {
            *inside = Inside { started: true, can_run: true, ..*inside };
        }
        let (children, done) = (self.derived.children[task], self.derived.children_done[task]);
        if children > 0 && children == done {
            State::Done
        } else if node.status == Status::Blocked {
            State::Blocked
        } else if inside.failed && !inside.can_run {
            State::Failed
        } else if inside.started {
            State::InProgress
        } else {
            State::Waiting
        }
    }
}

/// For each task the list of its neighbours in one direction, packed into two vectors.
#[derive(Debug)]
struct Neighbours {
    offsets: Vec<u32>,
    targets: Vec<u32>,
}

impl Neighbours {
    fn new(count: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Neighbours {
        let mut offsets = vec![0; count + 1];
        for (from, _) in pairs.clone() {
            offsets[from + 1] += 1;
        }
        for i in 0..count {
            offsets[i + 1] += offsets[i];
        }
        let mut targets = vec![0; offsets[count] as usize];
        let mut free = offsets.clone();
        for (from, to) in pairs {
            targets[free[from] as usize] = to as u32;
            free[from] += 1;
        }
        Neighbours { offsets, targets }
    }

    fn of(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let range = self.offsets[task] as usize..self.offsets[task + 1] as usize;
        self.targets[range].iter().map(|&target| target as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a graph from lines such as `api group`, `login in api done`, `ship after api`.
    fn graph(text: &str) -> (Graph, Vec<String>) {
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| !words.is_empty())
            .collect();
        let names: Vec<String> = lines.iter().map(|words| words[0].to_owned()).collect();
        let index = |name: &str| names.iter().position(|n| n == name).unwrap();
        let mut nodes = Vec::new();
        let mut dependencies = Vec::new();
        for (task, words) in lines.iter().enumerate() {
            let mut node = Node {
                kind: Kind::Work,
                status: Status::Pending,
                parent: None,
                claimed: false,
                deferred: false,
            };
            let mut words = words[1..].iter();
            while let Some(&word) = words.next() {
                match word {
                    "group" => node.kind = Kind::Group,
                    "in" => node.parent = Some(index(words.next().unwrap())),
                    "after" => dependencies.push((index(words.next().unwrap()), task)),
                    "claimed" => node.claimed = true,
                    "deferred" => node.deferred = true,
                    status => node.status = Status::from_name(status).unwrap(),
                }
            }
            nodes.push(node);
        }
        (Graph::new(nodes, &dependencies), names)
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (graph, names) = graph(text);
        let derived = graph.derive().unwrap();
        let states: Vec<String> =
            names.iter().zip(&derived.states).map(|(n, s)| format!("{n}={s}")).collect();
        assert_eq!(states.join(" "), expected);
    }

    #[test]
    fn a_task_is_ready_when_its_blockers_are_done() {
        check("a\nb after a", "a=ready b=waiting");
        check("a done\nb after a", "a=done b=ready");
        check("a failed\nb after a", "a=failed b=waiting");
        check("a deferred", "a=waiting");
        check("a claimed\nb after a", "a=in_progress b=waiting");
    }

    #[test]
    fn a_dependency_of_a_group_holds_back_everything_inside_it() {
        check("a\ng group after a\nh group in g\nx in h", "a=ready g=waiting h=waiting x=waiting");
        check(
            "a done\ng group after a\nh group in g\nx in h",
            "a=done g=waiting h=waiting x=ready",
        );
    }

    #[test]
    fn a_group_that_a_person_holds_stops_its_inside_but_not_its_neighbours() {
        check("g group blocked\nx in g\ny", "g=blocked x=waiting y=ready");
    }

    #[test]
    fn a_group_follows_its_children() {
        check("g group\na in g\nb in g", "g=waiting a=ready b=ready");
        check("g group\na in g done\nb in g", "g=in_progress a=done b=ready");
        check("g group\na in g done\nb in g done", "g=done a=done b=done");
        check("g group\na in g claimed\nb in g", "g=in_progress a=in_progress b=ready");
        check("g group", "g=waiting");
    }

    #[test]
    fn a_group_fails_only_when_no_other_child_can_still_run() {
        check("g group\na in g failed\nb in g", "g=in_progress a=failed b=ready");
        check("g group\na in g failed\nb in g after a", "g=failed a=failed b=waiting");
        check("g group\na in g failed\nb in g done", "g=failed a=failed b=done");
        check("g group\na in g failed\nb in g deferred", "g=in_progress a=failed b=waiting");
        check("g group\na in g failed\nb in g claimed", "g=in_progress a=failed b=in_progress");
        check("g group\nh group in g\na in h failed", "g=failed h=failed a=failed");
        check("g group\na in g failed\nb in g blocked", "g=failed a=failed b=blocked");
    }

    #[test]
    fn what_waits_for_an_empty_group_waits() {
        check("g group\na after g", "g=waiting a=waiting");
        check("g group\nx in g done\na after g", "g=done x=done a=ready");
    }

    #[test]
    fn waiting_on_names_own_and_inherited_blockers_and_held_groups() {
        let (graph, names) =
            graph("a\nb done\nc\ng group after a blocked\nx in g after b after c\ny");
        let derived = graph.derive().unwrap();
        let on = |task: usize| {
            let on = graph.waiting_on(task, &derived);
            on.into_iter().map(|i| names[i].as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(on(4), "a c g");
        assert_eq!(on(3), "a");
        assert_eq!(on(5), "");
    }

    #[test]
    fn what_can_never_finish_by_itself_is_known() {
        let (graph, _) =
            graph("a failed\nb after a\ng group\nx in g\ny in g after b\nz after g\nfree");
        let derived = graph.derive().unwrap();
        assert_eq!(derived.can_finish, [false, false, false, true, false, false, true]);
    }

    #[track_caller]
    fn check_cycle(text: &str, expected: &[(&str, &str, &str)]) {
        let (graph, names) = graph(text);
        let links: Vec<_> = graph
            .derive()
            .unwrap_err()
            .links
            .iter()
            .map(|link| match *link {
                Link::Waits { task, on } => (names[task].as_str(), "waits", names[on].as_str()),
                Link::Inside { task, group } => (names[task].as_str(), "in", names[group].as_str()),
            })
            .collect();
        assert_eq!(links, expected);
    }

    #[test]
    fn a_loop_is_found_and_told() {
        check_cycle("a after b\nb after a", &[("b", "waits", "a"), ("a", "waits", "b")]);
        check_cycle("a after a", &[("a", "waits", "a")]);
        // A child that waits for its own parent, and a parent that waits for its own child.
        check_cycle("g group\nx in g after g", &[("x", "waits", "g"), ("x", "in", "g")]);
        check_cycle("g group after x\nx in g", &[("x", "in", "g"), ("g", "waits", "x")]);
    }

    #[test]
    fn two_groups_cannot_wait_for_each_others_insides() {
        let (graph, _) = graph("g group\nh group\na in g after y\nb in g\nx in h after b\ny in h");
        assert!(graph.derive().is_ok(), "single tasks of two groups may interleave");
        let (graph, _) = self::graph("g group after y\nh group after b\nb in g\ny in h");
        assert!(graph.derive().is_err());
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_is_no_problem() {
        let node = |i: usize| Node {
            kind: Kind::Work,
            status: if i == 0 { Status::Done } else { Status::Pending },
            parent: None,
            claimed: false,
            deferred: false,
        };
        let count = 100_000;
        let chain: Vec<_> = (1..count).map(|i| (i - 1, i)).collect();
        let derived = Graph::new((0..count).map(node).collect(), &chain).derive().unwrap();
        assert_eq!(derived.states[1], State::Ready);
        assert_eq!(derived.states[count - 1], State::Waiting);
    }
}
