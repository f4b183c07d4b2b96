//! Amounts of money: as what was charged, or as what the API would have charged.

use crate::dag::{Billing, Costs, SessionKind};

/// An amount among other facts: `$0.60`, or `≈ $0.60 at API prices` where nothing is charged.
pub(super) fn amount(dollars: f64, decimals: usize, billing: Option<Billing>) -> String {
    let short = short(dollars, decimals, billing);
    match billing {
        Some(Billing::Subscription) => format!("{short} at API prices"),
        Some(Billing::Api) | None => short,
    }
}

/// An amount in a table: `$0.60` or `≈ $0.60`.
pub(super) fn short(dollars: f64, decimals: usize, billing: Option<Billing>) -> String {
    match billing {
        Some(Billing::Subscription) => format!("≈ ${dollars:.decimals$}"),
        Some(Billing::Api) | None => format!("${dollars:.decimals$}"),
    }
}

/// What all sessions have cost, and for what if it was not all for the same; none if it was nothing.
pub(super) fn total(costs: &Costs) -> Option<String> {
    let covered = Some(Billing::Subscription);
    let mut text = match (costs.charged > 0.0, costs.covered > 0.0) {
        (false, false) => return None,
        (true, false) => amount(costs.charged, 2, None),
        (false, true) => amount(costs.covered, 2, covered),
        (true, true) => {
            format!("{} and {}", amount(costs.charged, 2, None), amount(costs.covered, 2, covered))
        }
    };
    if costs.kinds.len() > 1 {
        // A sum of both is no amount that was charged.
        let billing = covered.filter(|_| costs.covered > 0.0);
        let part = |(kind, cost): &(SessionKind, f64)| {
            format!("{} {}", word(*kind), short(*cost, 2, billing))
        };
        let parts: Vec<String> = costs.kinds.iter().map(part).collect();
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    Some(text)
}

fn word(kind: SessionKind) -> &'static str {
    match kind {
        SessionKind::Work => "work",
        SessionKind::Verify => "verification",
        SessionKind::Build => "builds",
        SessionKind::Interview => "interviews",
        SessionKind::Loop => "loops",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_says_what_it_is_made_of_and_what_is_not_charged() {
        use SessionKind::{Build, Interview, Loop, Verify, Work};
        for (charged, covered, kinds, expected) in [
            (0.0, 0.0, vec![], None),
            (4.2, 0.0, vec![(Work, 4.2)], Some("$4.20")),
            (0.0, 0.6, vec![(Build, 0.6)], Some("≈ $0.60 at API prices")),
            (
                4.2,
                0.6,
                vec![(Work, 3.0), (Verify, 0.5), (Build, 0.2), (Interview, 0.1), (Loop, 1.0)],
                Some(
                    "$4.20 and ≈ $0.60 at API prices (work ≈ $3.00, verification ≈ $0.50, builds ≈ $0.20, interviews ≈ $0.10, loops ≈ $1.00)",
                ),
            ),
            (
                4.2,
                0.0,
                vec![(Work, 4.0), (Verify, 0.2)],
                Some("$4.20 (work $4.00, verification $0.20)"),
            ),
        ] {
            let costs = Costs { kinds, charged, covered, billing: None };
            assert_eq!(total(&costs).as_deref(), expected);
        }
    }
}
