//! What tokens cost, for sessions of which the program itself does not say what they have cost. These are
//! the prices by which Claude Code 2.1.325 counts.

use crate::dag::Tokens;
use crate::event::Usage;

/// In USD for a million tokens. Writing into the cache costs a quarter more than reading, and twice as
/// much if it is to be kept for an hour.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Price {
    input: f64,
    cache_read: f64,
    output: f64,
}

const fn price(input: f64, cache_read: f64, output: f64) -> Price {
    Price { input, cache_read, output }
}

/// Above this many tokens in a prompt a model may have another price.
const LONG_PROMPT: u64 = 100_000;

/// The name of each model begins with one of these. A longer beginning stands before a shorter one.
const MODELS: &[(&str, Price)] = &[
    ("claude-fable-5-2", price(8.0, 0.2, 40.0)),
    ("claude-fable-5-1", price(10.0, 0.25, 50.0)),
    ("claude-fable-5", price(10.0, 1.0, 50.0)),
    ("claude-haiku-5-5", price(0.1, 0.01, 0.5)),
    ("claude-haiku-4-5", price(1.0, 0.1, 5.0)),
    ("claude-mythos-5-2", price(8.0, 0.2, 40.0)),
    ("claude-mythos-5-1", price(10.0, 0.25, 50.0)),
    ("claude-mythos-5", price(10.0, 1.0, 50.0)),
    ("claude-opus-5-5", price(4.0, 0.2, 20.0)),
    ("claude-opus-5", price(5.0, 0.5, 25.0)),
    ("claude-opus-4", price(5.0, 0.5, 25.0)),
    ("claude-sonnet-5-5", price(2.0, 0.1, 10.0)),
    ("claude-sonnet-5", price(2.0, 0.2, 10.0)),
    ("claude-sonnet-4", price(3.0, 0.3, 15.0)),
];

/// The same for long prompts, where that is another price.
const LONG: &[(&str, Price)] = &[("claude-haiku-5-5", price(0.5, 0.05, 2.5))];

/// What a message has cost; none if nothing is known of its model.
pub(super) fn cost(usage: &Usage<'_>) -> Option<f64> {
    let Tokens { input, cache_read, cache_write, output } = usage.tokens;
    let prompt = input.saturating_add(cache_read).saturating_add(cache_write);
    let price = price_of(&usage.model, prompt > LONG_PROMPT)?;
    let for_an_hour = usage.cache_write_1h.min(cache_write);
    let millionths = input as f64 * price.input
        + cache_read as f64 * price.cache_read
        + (cache_write - for_an_hour) as f64 * price.input * 1.25
        + for_an_hour as f64 * price.input * 2.0
        + output as f64 * price.output;
    Some(millionths / 1e6)
}

/// The price of a model. An unknown one costs as much as the most expensive of its family.
fn price_of(model: &str, is_long: bool) -> Option<Price> {
    let named = |table: &[(&str, Price)]| {
        table.iter().find(|(name, _)| model.starts_with(name)).map(|(_, price)| *price)
    };
    let long = if is_long { named(LONG) } else { None };
    long.or_else(|| named(MODELS)).or_else(|| most_expensive_of_family(model))
}

fn most_expensive_of_family(model: &str) -> Option<Price> {
    let family = |name: &str| name.split('-').nth(1).is_some_and(|word| model.contains(word));
    let relatives = MODELS.iter().chain(LONG).filter(|(name, _)| family(name));
    relatives.map(|(_, price)| *price).max_by(|a, b| a.output.total_cmp(&b.output))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million tokens of each kind, as the CLI itself has priced them.
    #[test]
    fn prices_are_those_of_the_program() {
        let of = |tokens: Tokens, cache_write_1h: u64, model: &str| {
            let usage = Usage { model: model.into(), tokens, cache_write_1h, ..Usage::default() };
            cost(&usage).map(|cost| (cost * 1e6).round() / 1e6)
        };
        let small = 100_000;
        for (model, expected) in [
            ("claude-haiku-5-5", [0.01, 0.001, 0.0125, 0.02, 0.05]),
            ("claude-haiku-4-5-20251001", [0.1, 0.01, 0.125, 0.2, 0.5]),
            ("claude-sonnet-5-5", [0.2, 0.01, 0.25, 0.4, 1.0]),
            ("claude-sonnet-4-6", [0.3, 0.03, 0.375, 0.6, 1.5]),
            ("claude-opus-5-5", [0.4, 0.02, 0.5, 0.8, 2.0]),
            ("claude-opus-5", [0.5, 0.05, 0.625, 1.0, 2.5]),
            ("claude-opus-4-8[1m]", [0.5, 0.05, 0.625, 1.0, 2.5]),
            ("claude-fable-5-2", [0.8, 0.02, 1.0, 1.6, 4.0]),
        ] {
            let kinds = [
                (Tokens { input: small, ..Tokens::default() }, 0),
                (Tokens { cache_read: small, ..Tokens::default() }, 0),
                (Tokens { cache_write: small, ..Tokens::default() }, 0),
                (Tokens { cache_write: small, ..Tokens::default() }, small),
                (Tokens { output: small, ..Tokens::default() }, 0),
            ];
            let found = kinds.map(|(tokens, hour)| of(tokens, hour, model).unwrap());
            assert_eq!(found, expected, "{model}");
        }
        let long = Tokens { input: 250_000, output: 100_000, ..Tokens::default() };
        assert_eq!(of(long, 0, "claude-haiku-5-5"), Some(0.375));
        assert_eq!(of(long, 0, "claude-sonnet-5-5"), Some(1.5));
    }

    #[test]
    fn an_unknown_model_costs_as_much_as_the_most_expensive_of_its_family() {
        assert_eq!(price_of("claude-opus-9", false), Some(price(5.0, 0.5, 25.0)));
        assert_eq!(
            price_of("us.anthropic.claude-3-5-haiku-v1:0", false),
            price_of("claude-haiku-4-5", false)
        );
        assert_eq!(price_of("acme-9", false), None);
        assert_eq!(price_of("<synthetic>", true), None);
    }
}
