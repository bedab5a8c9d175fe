//! Who comes and what they do: drawn from the seed and the buyer's number, so that nothing needs to be kept. Pure.

use std::time::Duration;

use super::args::{Quantity, Share};

/// Longest time between two clicks of a double click, in milliseconds.
const SECOND_CLICK_MS_MAX: u32 = 10;

/// What all buyers are drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) quantity: Quantity,
    pub(super) keys: Share,
    pub(super) double_clicks: Share,
    pub(super) hang_ups: Share,
}

/// What one buyer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buyer {
    /// Tickets asked for.
    pub(super) quantity: u32,
    /// The request has an Idempotency-Key.
    pub(super) keyed: bool,
    /// The same request is sent again, so long after the first.
    pub(super) again_after: Option<Duration>,
    /// The connection of the first request is closed right after sending.
    pub(super) hangs_up: bool,
}

impl Script {
    /// The buyer of that number.
    pub(super) fn buyer(&self, number: u32) -> Buyer {
        let mut draws = Draws(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(number) << 8));
        let choices = u64::from(self.quantity.most - self.quantity.least) + 1;
        let extra = u32::try_from((u64::from(draws.next()) * choices) >> 32).unwrap_or(0);
        let keyed = self.keys.has(draws.next());
        let again = self.double_clicks.has(draws.next());
        let hangs_up = self.hang_ups.has(draws.next());
        let after = Duration::from_millis(u64::from(1 + draws.next() % SECOND_CLICK_MS_MAX));
        Buyer { quantity: self.quantity.least + extra, keyed, again_after: again.then_some(after), hangs_up }
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), of which the upper halves are used. Any
/// state is as good as any other, so a generator for each buyer costs nothing.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench::onsale) fn script(quantity: &str, keys: &str) -> Script {
        let share = |text: &str| text.parse().unwrap();
        Script { seed: 7, quantity: quantity.parse().unwrap(), keys: share(keys), double_clicks: share("0.05"), hang_ups: share("0.02") }
    }

    #[test]
    fn the_same_seed_gives_the_same_buyers_and_another_gives_others() {
        let (one, other) = (script("1-4", "1"), Script { seed: 8, ..script("1-4", "1") });
        let of = |script: &Script| (0..1_000).map(|number| script.buyer(number)).collect::<Vec<_>>();
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn quantities_are_as_likely_as_each_other_and_shares_are_kept() {
        let script = script("1-4", "0.5");
        let buyers: Vec<Buyer> = (0..100_000).map(|number| script.buyer(number)).collect();
        let count = |is_so: &dyn Fn(&Buyer) -> bool| buyers.iter().filter(|buyer| is_so(buyer)).count();
        for quantity in 1..=4 {
            assert!((24_000..26_000).contains(&count(&|buyer| buyer.quantity == quantity)), "{quantity}");
        }
        assert!((49_000..51_000).contains(&count(&|buyer| buyer.keyed)));
        assert!((4_700..5_300).contains(&count(&|buyer| buyer.again_after.is_some())));
        assert!((1_850..2_150).contains(&count(&|buyer| buyer.hangs_up)));
        assert!((40..180).contains(&count(&|buyer| buyer.hangs_up && buyer.again_after.is_some())), "the draws are independent");
    }
}
