//! Decides when a session has had its time. The time is handed in, so this is all there is to test.

use std::time::{Duration, Instant};

use super::supervisor::Order;
use crate::event::AgentEvent;

/// How long an agent that was told to end has to do so.
const GRACE: Duration = Duration::from_secs(5);

/// What a session may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may show no sign of life; none is for ever.
    pub silence: Option<Duration>,
    /// How long the process may stay after its result.
    pub exit_grace: Duration,
    /// When it must be over, whatever it does.
    pub deadline: Option<Instant>,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The process ended by itself.
    Itself,
    /// There was no sign of life for too long.
    Silence,
    /// The process stayed after its result, or after it had closed its output.
    Lingering,
    /// The API does not accept the key: it would only have asked again.
    Rejected,
    /// Its time was over.
    Deadline,
    /// A person asked it to.
    Request,
}

/// What a person can ask of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Stop, but clean up first, for as long as that takes. A second interrupt means at once.
    Interrupt,
    /// Stop at once.
    Kill,
}

/// Watches over one session.
#[derive(Debug)]
pub(super) struct Watch {
    limits: Limits,
    last_sign: Instant,
    /// When it had nothing more to say: a result came, or the output was closed.
    settled_at: Option<Instant>,
    /// Something is going on that may take its time in silence.
    busy: bool,
    ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A person has interrupted it. It has all the time its limits give it: a second interrupt kills it.
    Interrupted,
    Asked {
        why: EndedBy,
        kill_at: Instant,
    },
    Killed {
        why: EndedBy,
        sweep_at: Instant,
    },
    Swept {
        why: EndedBy,
        leave_at: Instant,
    },
}

/// What is to be done with a session whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Tell the supervisor.
    Order(Order),
    /// End everything without it: it does not do what it is told.
    Sweep,
    /// Wait no longer: something can't be ended.
    Leave,
}

impl Watch {
    pub(super) fn new(limits: Limits, now: Instant) -> Watch {
        Watch { limits, last_sign: now, settled_at: None, busy: false, ending: Ending::No }
    }

    /// The agent said something.
    pub(super) fn see(&mut self, event: &AgentEvent<'_>, now: Instant) {
        self.last_sign = now;
        // Whoever goes on after a result has not had its last word.
        self.settled_at = matches!(event, AgentEvent::Finished(_)).then_some(now);
    }

    /// The agent has closed its output.
    pub(super) fn closed(&mut self, now: Instant) {
        self.settled_at = self.settled_at.or(Some(now));
    }

    /// There was a sign of life that says nothing.
    pub(super) fn stir(&mut self, now: Instant) {
        self.last_sign = now;
    }

    /// Whether silence means nothing for now.
    pub(super) fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// The agent has had its last word, or is about to go on after all.
    pub(super) fn settle(&mut self, at: Option<Instant>) {
        self.settled_at = at;
    }

    /// It is to end in good order, unless it is being ended already.
    pub(super) fn end(&mut self, why: EndedBy, now: Instant) -> Option<Order> {
        (self.ending == Ending::No).then(|| self.terminate(why, now))
    }

    fn terminate(&mut self, why: EndedBy, now: Instant) -> Order {
        self.ending = Ending::Asked { why, kill_at: now + GRACE };
        Order::Terminate
    }

    /// A person asks for an end: an interrupt lets the agent finish in its own time, a second one
    /// does not.
    pub(super) fn requested(&mut self, request: Request, now: Instant) -> Order {
        match (request, self.ending) {
            (Request::Interrupt, Ending::No) => {
                self.ending = Ending::Interrupted;
                Order::Interrupt
            }
            (Request::Interrupt | Request::Kill, _) => {
                self.ending = Ending::Killed { why: EndedBy::Request, sweep_at: now + GRACE };
                Order::Kill
            }
        }
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.ending {
            Ending::No | Ending::Interrupted => self.next_limit().map(|(at, _)| at),
            Ending::Asked { kill_at, .. } => Some(kill_at),
            Ending::Killed { sweep_at, .. } => Some(sweep_at),
            Ending::Swept { leave_at, .. } => Some(leave_at),
        }
    }

    /// What is to be done now, if anything.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Action> {
        match self.ending {
            Ending::No | Ending::Interrupted => {
                let (_, limit) = self.next_limit().filter(|&(at, _)| at <= now)?;
                let why = if self.ending == Ending::No { limit } else { EndedBy::Request };
                Some(Action::Order(self.terminate(why, now)))
            }
            Ending::Asked { why, kill_at } if kill_at <= now => {
                self.ending = Ending::Killed { why, sweep_at: now + GRACE };
                Some(Action::Order(Order::Kill))
            }
            Ending::Killed { why, sweep_at } if sweep_at <= now => {
                self.ending = Ending::Swept { why, leave_at: now + GRACE };
                Some(Action::Sweep)
            }
            Ending::Swept { leave_at, .. } if leave_at <= now => Some(Action::Leave),
            Ending::Asked { .. } | Ending::Killed { .. } | Ending::Swept { .. } => None,
        }
    }

    /// Why the session ended, now that it has.
    pub(super) fn ended_by(&self) -> EndedBy {
        match self.ending {
            Ending::No => EndedBy::Itself,
            Ending::Interrupted => EndedBy::Request,
            Ending::Asked { why, .. } | Ending::Killed { why, .. } | Ending::Swept { why, .. } => {
                why
            }
        }
    }

    /// The first limit that will be reached.
    fn next_limit(&self) -> Option<(Instant, EndedBy)> {
        let patience = match self.settled_at {
            Some(settled) => Some((settled + self.limits.exit_grace, EndedBy::Lingering)),
            None if self.busy => None,
            None => self.limits.silence.map(|it| (self.last_sign + it, EndedBy::Silence)),
        };
        let deadline = self.limits.deadline.map(|it| (it, EndedBy::Deadline));
        patience.into_iter().chain(deadline).min_by_key(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Finished;

    fn finished() -> AgentEvent<'static> {
        AgentEvent::Finished(Box::new(Finished {
            success: true,
            subtype: "success".into(),
            ..Finished::default()
        }))
    }

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watch(deadline: Option<u64>) -> (Watch, Instant) {
        let start = Instant::now();
        let limits = Limits {
            silence: Some(after(100)),
            exit_grace: after(10),
            deadline: deadline.map(|seconds| start + after(seconds)),
        };
        (Watch::new(limits, start), start)
    }

    #[test]
    fn silence_ends_a_session_first_gently_then_for_good() {
        let (mut watch, start) = watch(None);
        watch.see(&AgentEvent::Alive, start + after(50));
        assert_eq!(watch.expire(start + after(149)), None);
        assert_eq!(watch.deadline(), Some(start + after(150)));
        assert_eq!(watch.expire(start + after(150)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.expire(start + after(154)), None);
        assert_eq!(watch.expire(start + after(155)), Some(Action::Order(Order::Kill)));
        assert_eq!(watch.expire(start + after(160)), Some(Action::Sweep));
        assert_eq!(watch.expire(start + after(164)), None);
        assert_eq!(watch.deadline(), Some(start + after(165)), "no wait is without end");
        assert_eq!(watch.expire(start + after(165)), Some(Action::Leave));
        assert_eq!(watch.ended_by(), EndedBy::Silence);
    }

    #[test]
    fn who_stays_after_the_result_is_ended_soon() {
        let (mut watch, start) = watch(None);
        watch.see(&finished(), start);
        assert_eq!(watch.expire(start + after(10)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Lingering);
    }

    #[test]
    fn who_goes_on_after_the_result_is_not() {
        let (mut watch, start) = watch(None);
        watch.see(&finished(), start);
        watch.see(&AgentEvent::Alive, start + after(5));
        assert_eq!(watch.expire(start + after(50)), None);
        watch.see(&finished(), start + after(60));
        assert_eq!(watch.expire(start + after(70)), Some(Action::Order(Order::Terminate)));
    }

    #[test]
    fn who_closes_the_output_and_stays_is_ended_soon() {
        let (mut watch, start) = watch(None);
        watch.closed(start + after(1));
        assert_eq!(watch.expire(start + after(11)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Lingering);
    }

    #[test]
    fn the_deadline_holds_for_the_busiest() {
        let (mut watch, start) = watch(Some(30));
        watch.see(&AgentEvent::Alive, start + after(29));
        assert_eq!(watch.expire(start + after(30)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Deadline);
    }

    #[test]
    fn an_interrupt_sets_no_limit_of_its_own() {
        let limits = Limits { silence: None, exit_grace: after(10), deadline: None };
        let start = Instant::now();
        let mut watch = Watch::new(limits, start);
        assert_eq!(watch.requested(Request::Interrupt, start), Order::Interrupt);
        assert_eq!(watch.deadline(), None);
        assert_eq!(watch.expire(start + after(1_000_000)), None);
        assert_eq!(watch.ended_by(), EndedBy::Request);
    }

    #[test]
    fn an_interrupted_process_that_stays_after_its_result_is_ended() {
        let (mut watch, start) = watch(None);
        assert_eq!(watch.requested(Request::Interrupt, start), Order::Interrupt);
        watch.see(&finished(), start + after(1));
        assert_eq!(watch.expire(start + after(10)), None);
        assert_eq!(watch.expire(start + after(11)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Request);
    }

    #[test]
    fn who_asks_twice_means_at_once() {
        let (mut watch, start) = watch(None);
        assert_eq!(watch.requested(Request::Interrupt, start), Order::Interrupt);
        assert_eq!(watch.requested(Request::Interrupt, start + after(1)), Order::Kill);
        assert_eq!(watch.ended_by(), EndedBy::Request);
    }

    #[test]
    fn whoever_is_busy_may_be_silent() {
        let (mut watch, start) = watch(Some(500));
        watch.set_busy(true);
        assert_eq!(watch.expire(start + after(499)), None);
        watch.set_busy(false);
        watch.stir(start + after(399));
        assert_eq!(watch.deadline(), Some(start + after(499)));
        watch.set_busy(true);
        assert_eq!(watch.expire(start + after(500)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Deadline);
    }

    #[test]
    fn whoever_has_had_the_last_word_may_go_on_after_all() {
        let (mut watch, start) = watch(None);
        watch.settle(Some(start));
        watch.stir(start + after(9));
        assert_eq!(watch.deadline(), Some(start + after(10)), "only words count");
        watch.settle(None);
        assert_eq!(watch.expire(start + after(108)), None);
        assert_eq!(watch.expire(start + after(109)), Some(Action::Order(Order::Terminate)));
        assert_eq!(watch.ended_by(), EndedBy::Silence);
    }

    #[test]
    fn an_end_in_good_order_is_tried_once() {
        let (mut watch, start) = watch(None);
        assert_eq!(watch.end(EndedBy::Request, start), Some(Order::Terminate));
        assert_eq!(watch.end(EndedBy::Silence, start + after(1)), None);
        assert_eq!(watch.expire(start + after(5)), Some(Action::Order(Order::Kill)));
        assert_eq!(watch.ended_by(), EndedBy::Request);
    }

    #[test]
    fn without_a_limit_silence_lasts_for_ever() {
        let start = Instant::now();
        let limits = Limits { silence: None, exit_grace: after(10), deadline: None };
        let mut watch = Watch::new(limits, start);
        assert_eq!(watch.deadline(), None);
        assert_eq!(watch.expire(start + after(1_000_000)), None);
    }
}
