//! Which model works on a task. The signals are the outcomes of attempts, not words in a text.

use std::collections::HashMap;

use crate::time::Timestamp;

/// How a model is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// Always this one.
    Fixed(String),
    /// The middle one; the best for a task whose last attempt failed, the cheapest after three clean
    /// successes in a row until the next failure.
    CostOptimized,
    /// The cheapest, and one step up for each failed attempt in the run.
    Escalate,
    /// The best first, then the middle one.
    PlanThenExecute,
}

/// The models by name, the cheapest first.
const LADDER: [&str; 3] = ["haiku", "sonnet", "opus"];
/// After so many successes in a row the cheapest will do.
const CLEAN: u32 = 3;

/// What a choice is made from, besides the task.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Iterations that have ended.
    pub iterations: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Successes since the last failure.
    pub clean_successes: u32,
    /// What the last answer asked for.
    pub hint: Option<String>,
    /// The models that may not be used before a time.
    pub capped: HashMap<String, Timestamp>,
}

/// The model for an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Model {
        /// Its name.
        name: String,
        /// Whether an agent asked for it.
        hinted: bool,
    },
    /// None before this time.
    NoneBefore(Timestamp),
}

impl Strategy {
    /// Whether another model may take the place of one that is used up.
    pub fn may_switch(&self) -> bool {
        !matches!(self, Strategy::Fixed(_))
    }

    /// The best model that is none of these, where another one may be taken.
    pub fn another(&self, tried: &[String]) -> Option<&'static str> {
        let is_new = |name: &&&str| !tried.iter().any(|it| it == **name);
        LADDER.iter().rev().filter(|_| self.may_switch()).find(is_new).copied()
    }

    /// The model for a task that no other model can read.
    pub fn only(model: &str, record: &Record, now: Timestamp) -> Choice {
        match record.capped.get(model) {
            Some(&until) if until > now => Choice::NoneBefore(until),
            _ => Choice::Model { name: model.to_owned(), hinted: false },
        }
    }

    /// Chooses the model for a task of which this is known.
    pub fn choose(&self, record: &Record, last_attempt_failed: bool, now: Timestamp) -> Choice {
        let free = |name: &str| record.capped.get(name).is_none_or(|&until| until <= now);
        let model = |name: &str, hinted| Choice::Model { name: name.to_owned(), hinted };
        if let Some(hint) = record.hint.as_deref().filter(|hint| free(hint)) {
            return model(hint, true);
        }
        let wanted = self.wanted(record, last_attempt_failed);
        if free(wanted) {
            return model(wanted, false);
        }
        let others = LADDER.iter().rev().copied().filter(|_| self.may_switch());
        match others.into_iter().find(|name| free(name)) {
            Some(other) => model(other, false),
            None => {
                let first = record.capped.values().filter(|&&until| until > now).min();
                Choice::NoneBefore(first.copied().unwrap_or(now))
            }
        }
    }

    fn wanted(&self, record: &Record, last_attempt_failed: bool) -> &str {
        match self {
            Strategy::Fixed(model) => model,
            Strategy::CostOptimized if last_attempt_failed => "opus",
            Strategy::CostOptimized if record.clean_successes >= CLEAN => "haiku",
            Strategy::CostOptimized => "sonnet",
            Strategy::Escalate => LADDER[(record.failures as usize).min(LADDER.len() - 1)],
            Strategy::PlanThenExecute if record.iterations == 0 => "opus",
            Strategy::PlanThenExecute => "sonnet",
        }
    }
}

impl Record {
    /// An attempt has ended, well or not; the hint was for it alone.
    pub fn ended(&mut self, success: bool) {
        self.iterations += 1;
        if success {
            self.clean_successes += 1;
        } else {
            self.failures += 1;
            self.clean_successes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_epoch(1_794_798_343).unwrap()
    }

    #[track_caller]
    fn check(strategy: &Strategy, record: &Record, last_failed: bool, expected: &str) {
        match strategy.choose(record, last_failed, now()) {
            Choice::Model { name, .. } => assert_eq!(name, expected),
            Choice::NoneBefore(until) => panic!("none before {until}"),
        }
    }

    fn after(outcomes: &[bool]) -> Record {
        let mut record = Record::default();
        outcomes.iter().for_each(|&success| record.ended(success));
        record
    }

    #[test]
    fn the_cheaper_it_goes_the_cheaper_it_gets() {
        let strategy = Strategy::CostOptimized;
        check(&strategy, &after(&[]), false, "sonnet");
        check(&strategy, &after(&[]), true, "opus");
        check(&strategy, &after(&[true, true]), false, "sonnet");
        check(&strategy, &after(&[true, true, true]), false, "haiku");
        check(&strategy, &after(&[true, true, true, true]), true, "opus");
        check(&strategy, &after(&[true, true, true, false]), false, "sonnet");
        check(&strategy, &after(&[true, true, true, false, true, true, true]), false, "haiku");
    }

    #[test]
    fn every_failure_is_a_step_up_and_nothing_is_a_step_down() {
        let strategy = Strategy::Escalate;
        check(&strategy, &after(&[]), false, "haiku");
        check(&strategy, &after(&[true, true, true]), false, "haiku");
        check(&strategy, &after(&[false]), false, "sonnet");
        check(&strategy, &after(&[false, true, true]), false, "sonnet");
        check(&strategy, &after(&[false, false, false, false]), true, "opus");
    }

    #[test]
    fn the_best_plans_and_the_middle_one_executes() {
        check(&Strategy::PlanThenExecute, &after(&[]), false, "opus");
        check(&Strategy::PlanThenExecute, &after(&[true]), false, "sonnet");
        check(&Strategy::PlanThenExecute, &after(&[false]), true, "sonnet");
    }

    #[test]
    fn a_hint_wins_whatever_the_strategy() {
        let hint = Record { hint: Some("haiku".into()), ..Record::default() };
        check(&Strategy::CostOptimized, &hint, true, "haiku");
        check(&Strategy::Fixed("my-model".into()), &hint, true, "haiku");
        assert_eq!(
            Strategy::Escalate.choose(&hint, false, now()),
            Choice::Model { name: "haiku".into(), hinted: true }
        );
    }

    #[test]
    fn a_model_that_is_used_up_is_replaced_where_that_is_allowed() {
        let later = now().plus(Duration::from_secs(60));
        let capped = |names: &[&str]| Record {
            hint: Some("opus".into()),
            capped: names.iter().map(|&name| (name.to_owned(), later)).collect(),
            ..Record::default()
        };
        check(&Strategy::CostOptimized, &capped(&["opus"]), true, "sonnet");
        check(&Strategy::CostOptimized, &capped(&["opus", "sonnet"]), false, "haiku");
        let none = Strategy::CostOptimized.choose(&capped(&LADDER), false, now());
        assert_eq!(none, Choice::NoneBefore(later));
        let fixed = Strategy::Fixed("opus".into());
        assert_eq!(fixed.choose(&capped(&["opus"]), false, now()), Choice::NoneBefore(later));
        let only = |record| Strategy::only("opus", &record, now());
        assert_eq!(only(capped(&["opus"])), Choice::NoneBefore(later), "no other will do");
        let opus = Choice::Model { name: "opus".into(), hinted: false };
        assert_eq!(only(capped(&["sonnet"])), opus);
        let over = Record { capped: [("sonnet".into(), now())].into(), ..Record::default() };
        check(&Strategy::CostOptimized, &over, false, "sonnet");
    }
}
