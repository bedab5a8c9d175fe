//! Measurements that anyone can repeat: `boxoffice bench`.

pub mod claim;
pub mod onsale;

use std::time::Duration;

/// The smallest of `sorted` that `per_mille` of them are not above; zero if there are none.
pub(crate) fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let rank = sorted.len().saturating_mul(per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// A number for people: `1234567.5` as `1,234,567.5`.
pub(crate) fn thousands(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut grouped = String::with_capacity(number.len() + number.len() / 3);
    for (place, character) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped + rest
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
