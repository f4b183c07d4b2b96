//! What a session has used: by the program's own account, and what the stream says of messages that are
//! not in it because the session ended before the next account came.

use std::collections::HashMap;

use super::prices;
use crate::dag::{Bill, Billing};
use crate::event::{Finished, Usage};
use crate::money;

/// Adds up what a session uses.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What the program has said last; it adds up by itself.
    stated: Bill,
    billing: Option<Billing>,
    /// Every message, by its id.
    messages: HashMap<String, Message>,
}

#[derive(Debug)]
struct Message {
    usage: Usage<'static>,
    /// Whether it is in what the program has stated.
    settled: bool,
}

impl Account {
    /// A session begins that is paid for like this.
    pub(super) fn begin(&mut self, billing: Option<Billing>) {
        self.billing = billing.or(self.billing);
    }

    /// Takes what the stream says of a message. Each message counts once, as it was last said to be.
    pub(super) fn hear(&mut self, usage: &Usage<'_>) {
        if usage.message.is_empty() {
            return;
        }
        match self.messages.get_mut(&*usage.message) {
            // A block of a message that is complete says what was known when the message began.
            Some(known) if known.usage.complete && !usage.complete => {}
            Some(known) => {
                let model = match &*usage.model {
                    "" => std::mem::take(&mut known.usage.model),
                    model => model.to_owned().into(),
                };
                known.usage = Usage { model, message: "".into(), ..*usage };
            }
            None => {
                let model = usage.model.clone().into_owned().into();
                let usage_of = Usage { model, message: "".into(), ..*usage };
                let message = Message { usage: usage_of, settled: false };
                self.messages.insert(usage.message.clone().into_owned(), message);
            }
        }
    }

    /// Takes an account of the program, which has all messages so far. The message that an interrupt cut
    /// off is not in it.
    pub(super) fn settle(&mut self, finished: &Finished<'_>) {
        self.stated.cost_usd = self.stated.cost_usd.max(finished.cost_usd);
        self.stated.tokens = finished.tokens;
        let is_cut_off = matches!(
            finished.terminal_reason.as_deref(),
            Some("aborted_streaming" | "aborted_tools")
        );
        for message in self.messages.values_mut() {
            message.settled |= message.usage.complete || !is_cut_off;
        }
    }

    /// How the session is paid for, if it has said so.
    pub(super) fn billing(&self) -> Option<Billing> {
        self.billing
    }

    /// What the session has used.
    pub(super) fn bill(&self) -> Bill {
        let mut bill = self.stated;
        for message in self.messages.values().filter(|message| !message.settled) {
            bill.tokens = bill.tokens.plus(message.usage.tokens);
            bill.cost_usd += prices::cost(&message.usage).unwrap_or_default();
        }
        Bill { cost_usd: money::rounded(bill.cost_usd), billing: self.billing, ..bill }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag::Tokens;

    fn usage(message: &'static str, output: u64, complete: bool) -> Usage<'static> {
        let tokens = Tokens { input: 100, output, ..Tokens::default() };
        let model = if complete { "" } else { "claude-opus-5-5" };
        Usage { message: message.into(), model: model.into(), tokens, cache_write_1h: 0, complete }
    }

    fn result(
        cost_usd: f64,
        input: u64,
        output: u64,
        reason: Option<&'static str>,
    ) -> Finished<'static> {
        let tokens = Tokens { input, output, ..Tokens::default() };
        Finished {
            cost_usd,
            tokens,
            terminal_reason: reason.map(Into::into),
            ..Finished::default()
        }
    }

    #[track_caller]
    fn check(account: &Account, cost_usd: f64, input: u64, output: u64) {
        let tokens = Tokens { input, output, ..Tokens::default() };
        assert_eq!(account.bill(), Bill { cost_usd, tokens, billing: None });
    }

    #[test]
    fn each_message_counts_once_as_it_was_last_said_to_be() {
        let mut account = Account::default();
        account.hear(&usage("a", 1, false));
        account.hear(&usage("a", 1, false));
        check(&account, 0.00042, 100, 1);
        account.hear(&usage("a", 20, true));
        account.hear(&usage("a", 1, false));
        account.hear(&usage("b", 1, false));
        check(&account, 0.00122, 200, 21);
        account.hear(&usage("", 7, false));
        check(&account, 0.00122, 200, 21);
    }

    #[test]
    fn what_the_program_has_stated_is_not_counted_again() {
        let mut account = Account::default();
        account.hear(&usage("a", 20, true));
        account.settle(&result(0.5, 900, 60, None));
        account.hear(&usage("a", 1, false));
        check(&account, 0.5, 900, 60);
        account.hear(&usage("b", 1, false));
        account.hear(&usage("b", 20, true));
        check(&account, 0.5008, 1000, 80);
        account.settle(&result(0.6, 1000, 80, None));
        check(&account, 0.6, 1000, 80);
    }

    #[test]
    fn a_message_that_an_interrupt_cut_off_is_added_to_what_the_program_states() {
        let mut account = Account::default();
        account.hear(&usage("a", 20, true));
        account.hear(&usage("b", 1, false));
        account.settle(&result(0.0008, 100, 20, Some("aborted_streaming")));
        check(&account, 0.00122, 200, 21);
    }
}
