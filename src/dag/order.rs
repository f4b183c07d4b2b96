//! The order of moments, kept as numbers with gaps, so that an edge which fits the order is checked
//! without a search, and one which does not moves as little as possible.

use super::graph::{Cycle, Graph, Moment};
use super::task::Kind;

/// The distance between neighbours that have all the room they want.
const SPACING: i64 = 1 << 36;
/// How much of a gap one work task takes: many can be put into the same gap one after the other.
const WORK_SHARE: u32 = 12;
/// How much of a gap one group takes: more, for what will be inside it.
const GROUP_SHARE: u32 = 5;

/// Where a task starts and ends in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The label of its start.
    pub start: i64,
    /// The label of its end.
    pub end: i64,
}

impl Span {
    /// A place behind everything, `last` being the highest label in use.
    pub fn after(last: Option<i64>) -> Option<Span> {
        let start = last.unwrap_or(0).checked_add(SPACING)?;
        Some(Span { start, end: start.checked_add(SPACING)? })
    }

    /// A place in a gap between two labels; none if the gap is too narrow.
    pub fn between(low: i64, high: i64, kind: Kind) -> Option<Span> {
        let gap = high - low;
        let margin = (gap >> WORK_SHARE).max(1);
        let size = match kind {
            Kind::Work => margin,
            Kind::Group => (gap >> GROUP_SHARE).max(1),
        };
        let span = Span { start: low + margin, end: low + margin + size };
        (span.end < high).then_some(span)
    }

    /// Whether all of this comes before `other` begins.
    pub fn is_before(self, other: Span) -> bool {
        self.end < other.start
    }

    /// Whether `inner` lies inside this.
    pub fn encloses(self, inner: Span) -> bool {
        self.start < inner.start && inner.end < self.end
    }
}

/// A label for each moment of a graph, by its code; greater means later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels(Vec<i64>);

impl Labels {
    /// Labels from the span of each task.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Labels {
        Labels(spans.into_iter().flat_map(|span| [span.start, span.end]).collect())
    }

    /// Fresh labels, evenly spaced, for moments in this order.
    pub fn spaced(order: &[Moment]) -> Labels {
        let step = SPACING.min((1 << 62) / (order.len() as i64 + 1));
        let mut labels = vec![0; order.len()];
        for (place, moment) in order.iter().enumerate() {
            labels[moment.code()] = (place as i64 + 1) * step;
        }
        Labels(labels)
    }

    /// The same order, evenly spaced again.
    pub fn respaced(&self) -> Labels {
        Labels::spaced(&self.moments())
    }

    /// The span of a task.
    pub fn span(&self, task: usize) -> Span {
        Span { start: self.0[2 * task], end: self.0[2 * task + 1] }
    }

    /// Whether nothing in `graph` comes before what it must follow.
    pub fn agree_with(&self, graph: &Graph) -> bool {
        (0..self.0.len()).map(Moment::from_code).all(|moment| {
            graph.successors(moment).all(|after| self.label(moment) < self.label(after))
        })
    }

    /// Makes room for the edge `from` before `to`, given that the labels agree with `graph` and
    /// with the `extra` edges; or tells the cycle that the edge would close.
    pub fn insert(
        &mut self,
        graph: &Graph,
        extra: &[(Moment, Moment)],
        from: Moment,
        to: Moment,
    ) -> Result<(), Cycle> {
        if self.label(from) < self.label(to) {
            return Ok(());
        }
        match Search::new(graph, extra, self, from, to).run()? {
            Movers::Later(moments) => self.move_into_gap(moments, from, Side::After),
            Movers::Earlier(moments) => self.move_into_gap(moments, to, Side::Before),
        }
        Ok(())
    }

    fn label(&self, moment: Moment) -> i64 {
        self.0[moment.code()]
    }

    /// Every moment in the order of the labels.
    fn moments(&self) -> Vec<Moment> {
        let mut moments: Vec<Moment> = (0..self.0.len()).map(Moment::from_code).collect();
        moments.sort_unstable_by_key(|&moment| self.label(moment));
        moments
    }

    /// Puts `movers`, in their order, right beside `anchor`.
    fn move_into_gap(&mut self, mut movers: Vec<Moment>, anchor: Moment, side: Side) {
        movers.sort_unstable_by_key(|&moment| self.label(moment));
        let here = self.label(anchor);
        let (low, high) = match side {
            Side::After => {
                let next = self.0.iter().copied().filter(|&label| label > here).min();
                (here, next.unwrap_or(here.saturating_add(SPACING)))
            }
            Side::Before => {
                let previous = self.0.iter().copied().filter(|&label| label < here).max();
                (previous.unwrap_or(here.saturating_sub(SPACING)), here)
            }
        };
        let step = (high - low) / (movers.len() as i64 + 1);
        if step == 0 {
            *self = Labels::spaced(&self.moments_with(&movers, anchor, side));
            return;
        }
        for (place, mover) in movers.iter().enumerate() {
            self.0[mover.code()] = low + (place as i64 + 1) * step;
        }
    }

    fn moments_with(&self, movers: &[Moment], anchor: Moment, side: Side) -> Vec<Moment> {
        let mut moves = vec![false; self.0.len()];
        for mover in movers {
            moves[mover.code()] = true;
        }
        let mut order = self.moments();
        order.retain(|moment| !moves[moment.code()]);
        let anchor = order.iter().position(|&m| m == anchor).expect("an anchor does not move");
        let gap = match side {
            Side::Before => anchor,
            Side::After => anchor + 1,
        };
        order.splice(gap..gap, movers.iter().copied());
        order
    }
}

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// The smaller of the two sets of moments that could move to make an edge fit.
enum Movers {
    /// `to` and what must follow it: they move behind `from`.
    Later(Vec<Moment>),
    /// `from` and what must precede it: they move before `to`.
    Earlier(Vec<Moment>),
}

/// Looks from both ends of a new edge at once, only at moments between the two labels, and stops
/// when one side has seen all of its own: so it costs twice the smaller side.
struct Search<'a> {
    graph: &'a Graph,
    extra: &'a [(Moment, Moment)],
    labels: &'a Labels,
    from: Moment,
    to: Moment,
    later: Frontier,
    earlier: Frontier,
}

/// What one side of the search has seen, and by which way it came there.
struct Frontier {
    seen: Vec<Moment>,
    came_from: Vec<Option<Moment>>,
    next: usize,
}

impl Frontier {
    fn starting_at(moment: Moment, total: usize) -> Frontier {
        let mut came_from = vec![None; total];
        came_from[moment.code()] = Some(moment);
        Frontier { seen: vec![moment], came_from, next: 0 }
    }

    fn pop(&mut self) -> Option<Moment> {
        let moment = self.seen.get(self.next).copied()?;
        self.next += 1;
        Some(moment)
    }

    fn reach(&mut self, moment: Moment, by: Moment) {
        let slot = &mut self.came_from[moment.code()];
        if slot.is_none() {
            *slot = Some(by);
            self.seen.push(moment);
        }
    }

    fn has_seen(&self, moment: Moment) -> bool {
        self.came_from[moment.code()].is_some()
    }

    /// The way from `moment` back to where this side began.
    fn way_back(&self, moment: Moment) -> Vec<Moment> {
        let mut way = vec![moment];
        let mut here = moment;
        while let Some(back) = self.came_from[here.code()].filter(|&back| back != here) {
            way.push(back);
            here = back;
        }
        way
    }
}

impl<'a> Search<'a> {
    fn new(
        graph: &'a Graph,
        extra: &'a [(Moment, Moment)],
        labels: &'a Labels,
        from: Moment,
        to: Moment,
    ) -> Search<'a> {
        let total = labels.0.len();
        let (later, earlier) =
            (Frontier::starting_at(to, total), Frontier::starting_at(from, total));
        Search { graph, extra, labels, from, to, later, earlier }
    }

    fn run(mut self) -> Result<Movers, Cycle> {
        loop {
            let Some(moment) = self.later.pop() else {
                return Ok(Movers::Later(self.later.seen));
            };
            let extra = self.extra.iter().filter(|edge| edge.0 == moment).map(|edge| edge.1);
            let limit = self.labels.label(self.from);
            for after in self.graph.successors(moment).chain(extra) {
                if self.labels.label(after) <= limit {
                    self.later.reach(after, moment);
                    if self.earlier.has_seen(after) {
                        return Err(self.cycle_through(after));
                    }
                }
            }
            let Some(moment) = self.earlier.pop() else {
                return Ok(Movers::Earlier(self.earlier.seen));
            };
            let extra = self.extra.iter().filter(|edge| edge.1 == moment).map(|edge| edge.0);
            let limit = self.labels.label(self.to);
            for before in self.graph.predecessors(moment).chain(extra) {
                if self.labels.label(before) >= limit {
                    self.earlier.reach(before, moment);
                    if self.later.has_seen(before) {
                        return Err(self.cycle_through(before));
                    }
                }
            }
        }
    }

    /// The way from `to` to `from` by a moment that both sides have seen.
    fn cycle_through(&self, middle: Moment) -> Cycle {
        let mut way = self.later.way_back(middle);
        way.reverse();
        way.extend(self.earlier.way_back(middle).into_iter().skip(1));
        Cycle::along(&way)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::graph::Node;
    use super::super::task::Status;
    use super::*;

    fn groups(parents: &[Option<usize>]) -> Vec<Node> {
        let node = |&parent| Node {
            kind: Kind::Group,
            status: Status::Pending,
            parent,
            claimed: false,
            deferred: false,
        };
        parents.iter().map(node).collect()
    }

    /// Adds edge after edge, and compares each answer with a search of the whole graph.
    fn check(parents: &[Option<usize>], edges: &[(usize, usize)], tight: bool) {
        let nodes = groups(parents);
        let order = Graph::new(nodes.clone(), &[]).order().unwrap();
        let mut labels = Labels::spaced(&order);
        if tight {
            // Labels without any gap: every move has to make room first.
            for (place, moment) in order.iter().enumerate() {
                labels.0[moment.code()] = place as i64;
            }
        }
        let mut stored = Vec::new();
        for &edge in edges {
            let graph = Graph::new(nodes.clone(), &stored);
            stored.push(edge);
            let with_edge = Graph::new(nodes.clone(), &stored);
            let before = labels.clone();
            match labels.insert(&graph, &[], Moment::End(edge.0), Moment::Start(edge.1)) {
                Ok(()) => assert!(labels.agree_with(&with_edge), "{before:?} to {labels:?}"),
                Err(cycle) => {
                    assert!(with_edge.order().is_err(), "no cycle, but it says {cycle:?}");
                    assert_eq!(labels, before, "a refused edge changes nothing");
                    stored.pop();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn an_edge_is_refused_exactly_when_it_closes_a_cycle(
            parents in prop::collection::vec(any::<Option<prop::sample::Index>>(), 1..14),
            edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..40),
            tight in any::<bool>(),
        ) {
            let count = parents.len();
            let parents: Vec<Option<usize>> = parents
                .iter()
                .enumerate()
                .map(|(i, parent)| parent.filter(|_| i > 0).map(|index| index.index(i)))
                .collect();
            let edges: Vec<(usize, usize)> =
                edges.iter().map(|(a, b)| (a.index(count), b.index(count))).collect();
            check(&parents, &edges, tight);
        }

        #[test]
        fn a_task_can_move_into_a_group_exactly_when_that_closes_no_cycle(
            edges in prop::collection::vec((0..8usize, 0..8usize), 0..16),
            child in 1..8usize,
            group in 0..8usize,
        ) {
            prop_assume!(child != group);
            let mut parents = vec![None; 8];
            let mut labels = Labels::spaced(&Graph::new(groups(&parents), &[]).order().unwrap());
            let mut stored = Vec::new();
            for edge in edges {
                let graph = Graph::new(groups(&parents), &stored);
                if labels.insert(&graph, &[], Moment::End(edge.0), Moment::Start(edge.1)).is_ok() {
                    stored.push(edge);
                }
            }
            let graph = Graph::new(groups(&parents), &stored);
            parents[child] = Some(group);
            let moved = Graph::new(groups(&parents), &stored);
            let starts = (Moment::Start(group), Moment::Start(child));
            let fits = labels
                .insert(&graph, &[], starts.0, starts.1)
                .and_then(|()| labels.insert(&graph, &[starts], Moment::End(child), Moment::End(group)));
            prop_assert_eq!(fits.is_ok(), moved.order().is_ok());
            if fits.is_ok() {
                prop_assert!(labels.agree_with(&moved));
            }
        }
    }

    #[test]
    fn a_gap_takes_many_tasks_before_it_is_used_up() {
        let (mut low, high) = (0, SPACING);
        let mut count = 0;
        while let Some(span) = Span::between(low, high, Kind::Work) {
            assert!(low < span.start && span.start < span.end && span.end < high);
            low = span.end;
            count += 1;
        }
        assert!(count > 20_000, "{count}");
    }

    #[test]
    fn groups_nest_a_few_levels_before_a_gap_is_used_up() {
        let mut outer = Span { start: 0, end: SPACING };
        for _ in 0..6 {
            let inner = Span::between(outer.start, outer.end, Kind::Group).unwrap();
            assert!(outer.encloses(inner));
            outer = inner;
        }
        assert_eq!(Span::between(0, 2, Kind::Work), None);
        assert_eq!(Span::after(Some(i64::MAX - 5)), None);
    }

    #[test]
    fn a_refused_loop_over_a_long_chain_is_told_whole() {
        let count = 1_000;
        let nodes = groups(&vec![None; count]);
        let chain: Vec<_> = (1..count).map(|i| (i - 1, i)).collect();
        let graph = Graph::new(nodes, &chain);
        let mut labels = Labels::spaced(&graph.order().unwrap());
        let cycle =
            labels.insert(&graph, &[], Moment::End(count - 1), Moment::Start(0)).unwrap_err();
        assert_eq!(cycle.links.len(), count - 1);
    }
}
