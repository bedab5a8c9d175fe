//! Measurements that anyone can repeat: `boxoffice bench`.

pub mod claim;
mod halt;
pub mod onsale;
pub mod queue;
mod scratch;

pub use halt::Interrupted;
pub use scratch::{ScratchError, Server};

use std::time::Duration;

use crate::money::grouped;

/// The smallest of `sorted` that `per_mille` of them are not above; zero if there are none.
pub(crate) fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let rank = sorted.len().saturating_mul(per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Three places are as many as the clock is good for.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

/// A count as a number to calculate with. A run has far fewer of anything than 32 bits count.
pub(crate) fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// A number for people: `1234567.5` as `1,234,567.5`.
pub(crate) fn thousands(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    digits.parse().map_or_else(|_| number.to_owned(), |whole| format!("{sign}{}{rest}", grouped(whole)))
}

/// Text as it may stand in a chart or a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 500), Duration::from_millis(100));
        assert_eq!(percentile(&sorted, 990), Duration::from_millis(198));
        assert_eq!(percentile(&sorted, 1_000), Duration::from_millis(200));
        assert_eq!(percentile(&sorted[..1], 990), Duration::from_millis(1));
        assert_eq!(percentile(&[], 500), Duration::ZERO);
    }

    #[test]
    fn thousands_are_set_apart() {
        let cases = [("0", "0"), ("999", "999"), ("1000", "1,000"), ("-100", "-100"), ("1234567.50", "1,234,567.50")];
        for (number, expected) in cases {
            assert_eq!(thousands(number), expected);
        }
    }
}
