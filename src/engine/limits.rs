//! What to do when the API refuses: wait, take another model, or give up. None of it is the fault of
//! the task.

use std::time::Duration;

use crate::agent::Trouble;
use crate::time::Timestamp;

/// What to do about a session that the API has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Wait until then.
    Wait {
        /// Until then.
        until: Timestamp,
    },
    /// This model is used up until then; another one may go on.
    Cap {
        /// The model.
        model: &'static str,
        /// Until then.
        until: Timestamp,
    },
    /// Nothing would help: stop the run.
    GiveUp,
    /// The API is not to blame: the attempt has failed.
    Blame,
}

/// A little longer than asked for: clocks differ.
const SLACK: Duration = Duration::from_secs(5);
/// A limit may reset while the session that met it is ending.
const JUST_PAST: Duration = Duration::from_secs(120);
/// No window is longer than a week; a time further away makes no sense.
const LONGEST: Duration = Duration::from_secs(8 * 24 * 3600);
/// The pauses after one, two, three, … refusals in a row when it is not said how long to wait.
const PAUSES: [u64; 6] = [30, 60, 120, 300, 600, 900];
/// The same for a usage limit, which takes hours to pass.
const LONG_PAUSES: [u64; 4] = [300, 600, 900, 1_800];

/// What to do about this trouble after so many refusals in a row.
pub(super) fn react(trouble: &Trouble, refusals: u32, now: Timestamp) -> Reaction {
    match trouble {
        Trouble::UsageLimit { window, resets_at } => {
            let until = resets_at
                .and_then(Timestamp::from_epoch)
                .filter(|&at| now.since(at) <= JUST_PAST && at.since(now) <= LONGEST)
                .map_or_else(|| pause(now, &LONG_PAUSES, refusals), |at| at.max(now).plus(SLACK));
            match window.as_deref() {
                Some("seven_day_opus") => Reaction::Cap { model: "opus", until },
                Some("seven_day_sonnet") => Reaction::Cap { model: "sonnet", until },
                _ => Reaction::Wait { until },
            }
        }
        Trouble::RateLimited
        | Trouble::Overloaded
        | Trouble::Server(_)
        | Trouble::Connection(_)
        | Trouble::Intercepted(_)
        | Trouble::Unanswered => Reaction::Wait { until: pause(now, &PAUSES, refusals) },
        Trouble::Authentication
        | Trouble::NoCredit
        | Trouble::ModelNotFound(_)
        | Trouble::NotSetUp(_)
        | Trouble::NoConsent(_) => Reaction::GiveUp,
        Trouble::PromptTooLong(_)
        | Trouble::InvalidRequest(_)
        | Trouble::Refusal(_)
        | Trouble::MaxTokens
        | Trouble::ContextFull
        | Trouble::MaxTurns
        | Trouble::Budget
        | Trouble::Aborted
        | Trouble::Error(_)
        | Trouble::Question(_)
        | Trouble::NoResult
        | Trouble::Idle(_) => Reaction::Blame,
    }
}

fn pause(now: Timestamp, pauses: &[u64], refusals: u32) -> Timestamp {
    let index = (refusals.saturating_sub(1) as usize).min(pauses.len() - 1);
    now.plus(Duration::from_secs(pauses[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_794_798_343;

    fn now() -> Timestamp {
        Timestamp::from_epoch(NOW).unwrap()
    }

    fn after(seconds: u64) -> Timestamp {
        now().plus(Duration::from_secs(seconds))
    }

    fn limit(window: Option<&str>, resets_at: Option<i64>) -> Trouble {
        Trouble::UsageLimit { window: window.map(str::to_owned), resets_at }
    }

    #[test]
    fn a_usage_limit_is_waited_for_until_it_resets() {
        for window in [None, Some("five_hour"), Some("seven_day"), Some("overage"), Some("new")] {
            let reaction = react(&limit(window, Some(NOW + 3600)), 1, now());
            assert_eq!(reaction, Reaction::Wait { until: after(3605) });
        }
    }

    #[test]
    fn a_time_that_makes_no_sense_is_no_time() {
        for resets_at in
            [None, Some(NOW - 200), Some(0), Some(NOW + 30 * 24 * 3600), Some(i64::MAX)]
        {
            for (refusals, seconds) in [(0, 300), (1, 300), (2, 600), (4, 1_800), (99, 1_800)] {
                let reaction = react(&limit(Some("five_hour"), resets_at), refusals, now());
                assert_eq!(reaction, Reaction::Wait { until: after(seconds) }, "{resets_at:?}");
            }
        }
    }

    #[test]
    fn a_limit_that_has_just_reset_is_over_soon() {
        for past in [0, 1, 100] {
            let reaction = react(&limit(Some("five_hour"), Some(NOW - past)), 1, now());
            assert_eq!(reaction, Reaction::Wait { until: after(5) });
        }
    }

    #[test]
    fn a_cap_on_one_model_is_one_on_that_model() {
        for (window, model) in [("seven_day_opus", "opus"), ("seven_day_sonnet", "sonnet")] {
            let reaction = react(&limit(Some(window), Some(NOW + 60)), 1, now());
            assert_eq!(reaction, Reaction::Cap { model, until: after(65) });
        }
    }

    #[test]
    fn overload_and_outages_are_met_with_growing_pauses() {
        let troubles = [
            Trouble::RateLimited,
            Trouble::Overloaded,
            Trouble::Server(500),
            Trouble::Connection("refused".into()),
            Trouble::Intercepted("Please log in".into()),
            Trouble::Unanswered,
        ];
        for trouble in troubles {
            for (refusals, seconds) in [(1, 30), (2, 60), (3, 120), (6, 900), (1_000, 900)] {
                let reaction = react(&trouble, refusals, now());
                assert_eq!(reaction, Reaction::Wait { until: after(seconds) }, "{trouble:?}");
            }
        }
    }

    #[test]
    fn what_waiting_does_not_mend_stops_the_run() {
        let model = Trouble::ModelNotFound("opus".into());
        let (setup, consent) = (Trouble::NotSetUp("x".into()), Trouble::NoConsent("x".into()));
        for trouble in [Trouble::Authentication, Trouble::NoCredit, model, setup, consent] {
            assert_eq!(react(&trouble, 1, now()), Reaction::GiveUp);
        }
    }

    #[test]
    fn what_the_session_did_itself_is_its_own_fault() {
        let troubles = [
            Trouble::PromptTooLong("x".into()),
            Trouble::InvalidRequest("x".into()),
            Trouble::Refusal("x".into()),
            Trouble::MaxTokens,
            Trouble::ContextFull,
            Trouble::MaxTurns,
            Trouble::Aborted,
            Trouble::Error("x".into()),
            Trouble::NoResult,
            Trouble::Idle(Duration::from_secs(30)),
        ];
        for trouble in troubles {
            assert_eq!(react(&trouble, 1, now()), Reaction::Blame);
        }
    }
}
