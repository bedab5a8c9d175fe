//! How often a job is tried, and how long between. Pure.

use chrono::TimeDelta;

/// How a kind of job is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all; then the job is given up.
    pub attempts_max: u32,
    /// Pause after the first failure. Each further one is twice as long.
    pub first_pause: TimeDelta,
    /// Longest pause.
    pub pause_max: TimeDelta,
}

impl Retry {
    /// The pause after the `attempt`th try, counted from 1. `chance`, from 0 to 1, spreads it over 20 % either way: what failed together is not
    /// tried again together.
    #[must_use]
    pub fn pause(&self, attempt: u32, chance: f64) -> TimeDelta {
        let doubled = i32::try_from(1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX)).unwrap_or(i32::MAX);
        let pause = self.first_pause.checked_mul(doubled).unwrap_or(self.pause_max).min(self.pause_max);
        let millis = pause.num_milliseconds();
        // A fifth, in thousandths, so that nothing is converted from and to floating point that could be large.
        let spread = i64::from((0..=400_i32).rev().find(|step| f64::from(*step) <= chance * 400.0).unwrap_or(0)) - 200;
        TimeDelta::milliseconds(millis + millis.saturating_mul(spread) / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let retry = Retry { attempts_max: 10, first_pause: TimeDelta::seconds(10), pause_max: TimeDelta::hours(1) };
        let even = |attempt| retry.pause(attempt, 0.5).num_seconds();
        assert_eq!([even(1), even(2), even(3), even(9), even(10), even(60)], [10, 20, 40, 2_560, 3_600, 3_600]);
        assert_eq!((retry.pause(1, 0.0).num_milliseconds(), retry.pause(1, 1.0).num_milliseconds()), (8_000, 12_000));
    }
}
