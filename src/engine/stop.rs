//! When a run has had enough. The numbers are handed in, so this is all there is to test.

use std::time::Duration;

/// What a run may use up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bounds {
    /// Iterations.
    pub iterations: Option<u32>,
    /// Time.
    pub time: Option<Duration>,
    /// USD.
    pub cost: Option<f64>,
}

/// What a run has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Iterations.
    pub iterations: u32,
    /// Time.
    pub time: Duration,
    /// USD.
    pub cost: f64,
}

/// Which bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The number of iterations.
    Iterations,
    /// The time.
    Time,
    /// The cost.
    Cost,
}

impl Reached {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Reached::Iterations => "iterations",
            Reached::Time => "time",
            Reached::Cost => "cost",
        }
    }
}

impl Bounds {
    /// The bound that leaves no room for another iteration.
    pub fn reached(&self, used: &Used) -> Option<Reached> {
        if self.iterations.is_some_and(|most| used.iterations >= most) {
            Some(Reached::Iterations)
        } else if self.time.is_some_and(|most| used.time >= most) {
            Some(Reached::Time)
        } else if self.cost.is_some_and(|most| used.cost >= most) {
            Some(Reached::Cost)
        } else {
            None
        }
    }

    /// How long the next session may take.
    pub fn time_left(&self, used: &Used) -> Option<Duration> {
        self.time.map(|most| most.saturating_sub(used.time))
    }

    /// What the next session may cost.
    pub fn cost_left(&self, used: &Used) -> Option<f64> {
        self.cost.map(|most| (most - used.cost).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_bound_is_reached_when_nothing_is_left() {
        let bounds = Bounds { iterations: Some(3), time: Some(seconds(60)), cost: Some(1.0) };
        for (iterations, time, cost, expected) in [
            (0, 0, 0.0, None),
            (2, 59, 0.99, None),
            (3, 0, 0.0, Some(Reached::Iterations)),
            (4, 99, 9.0, Some(Reached::Iterations)),
            (1, 60, 0.0, Some(Reached::Time)),
            (1, 0, 1.0, Some(Reached::Cost)),
        ] {
            let used = Used { iterations, time: seconds(time), cost };
            assert_eq!(bounds.reached(&used), expected, "{used:?}");
        }
        let endless = Used { iterations: u32::MAX, time: seconds(1 << 40), cost: 1e9 };
        assert_eq!(Bounds::default().reached(&endless), None);
    }

    #[test]
    fn a_session_may_use_what_is_left() {
        let bounds = Bounds { iterations: None, time: Some(seconds(60)), cost: Some(1.0) };
        let used = Used { iterations: 1, time: seconds(50), cost: 0.75 };
        assert_eq!(bounds.time_left(&used), Some(seconds(10)));
        assert_eq!(bounds.cost_left(&used), Some(0.25));
        let over = Used { iterations: 1, time: seconds(70), cost: 2.0 };
        assert_eq!(bounds.time_left(&over), Some(Duration::ZERO));
        assert_eq!(bounds.cost_left(&over), Some(0.0));
        assert_eq!(Bounds::default().time_left(&over), None);
    }
}
