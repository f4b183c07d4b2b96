//! What sessions use and what that costs.

use serde::Serialize;

use super::task::names;
use crate::money;

/// Tokens, apart where they have different prices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Read, and neither from nor into the cache.
    #[serde(rename = "input_tokens")]
    pub input: u64,
    /// Read from the cache.
    #[serde(rename = "cache_read_tokens")]
    pub cache_read: u64,
    /// Read, and written into the cache.
    #[serde(rename = "cache_write_tokens")]
    pub cache_write: u64,
    /// Written by the model.
    #[serde(rename = "output_tokens")]
    pub output: u64,
}

impl Tokens {
    /// These and others.
    #[must_use]
    pub fn plus(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// How a session is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Billing {
    /// By use, at API prices.
    Api,
    /// By a subscription: the cost is what the API would have charged.
    Subscription,
}

names!(Billing { Api => "api", Subscription => "subscription" });

/// What one session or several have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bill {
    /// At API prices, in USD.
    pub cost_usd: f64,
    /// What that is the price of.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// How it is paid for; none if that is not known, or not the same for all sessions.
    pub billing: Option<Billing>,
}

impl Bill {
    /// Adds what another session has used.
    pub fn add(&mut self, other: &Bill) {
        if other.is_empty() {
            return;
        }
        self.billing = if self.is_empty() {
            other.billing
        } else {
            self.billing.filter(|_| self.billing == other.billing)
        };
        self.cost_usd = money::rounded(self.cost_usd + other.cost_usd);
        self.tokens = self.tokens.plus(other.tokens);
    }

    fn is_empty(&self) -> bool {
        self.cost_usd == 0.0 && self.tokens == Tokens::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(cost_usd: f64, billing: Option<Billing>) -> Bill {
        Bill { cost_usd, billing, ..Bill::default() }
    }

    #[test]
    fn a_sum_is_billed_as_all_its_parts_are() {
        let (api, subscription) = (Some(Billing::Api), Some(Billing::Subscription));
        for (parts, expected) in [
            (vec![], bill(0.0, None)),
            (vec![bill(0.1, api), bill(0.2, api)], bill(0.3, api)),
            (vec![bill(0.1, api), bill(0.2, subscription), bill(0.1, api)], bill(0.4, None)),
            (vec![bill(0.1, None), bill(0.2, api)], bill(0.3, None)),
            (vec![bill(0.0, api), bill(0.2, subscription)], bill(0.2, subscription)),
        ] {
            let mut sum = Bill::default();
            parts.iter().for_each(|part| sum.add(part));
            assert_eq!(sum, expected, "{parts:?}");
        }
    }

    #[test]
    fn it_has_its_tokens_beside_its_cost_in_json() {
        let tokens = Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 };
        let bill = Bill { cost_usd: 0.5, tokens, billing: Some(Billing::Api) };
        insta::assert_snapshot!(serde_json::to_string(&bill).unwrap(), @r#"{"cost_usd":0.5,"input_tokens":1,"cache_read_tokens":2,"cache_write_tokens":3,"output_tokens":4,"billing":"api"}"#);
    }
}
