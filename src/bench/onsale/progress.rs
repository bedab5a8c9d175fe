//! How the on-sale goes, while it goes: a bar on a terminal, else a line a second, on the error output.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::Ordering,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::drive::Live;
use crate::money::grouped;

/// How often the rate is worked out, and a plain line written.
const EVERY: Duration = Duration::from_secs(1);

/// A bar, or lines.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    stock: u64,
    /// When the rate was last worked out, and how many tickets were sold by then.
    last: (Duration, u64),
    rate: u64,
}

impl Progress {
    pub(super) fn of(stock: u64) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(stock), ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{elapsed:>4} [{bar:32}] {human_pos}/{human_len} sold · {wide_msg}") {
                Ok(style) => bar.with_style(style.progress_chars("█▌ ")),
                Err(_) => bar,
            }
        });
        Self { bar, stock, last: (Duration::ZERO, 0), rate: 0 }
    }

    pub(super) fn show(&mut self, live: &Live, now: Duration) {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let sold = count(&live.tickets);
        let since = now.saturating_sub(self.last.0);
        let is_time = since >= EVERY;
        if is_time {
            let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
            self.rate = (sold - self.last.1) * 1_000 / millis;
            self.last = (now, sold);
        }
        let message = format!(
            "{}/s · {} too few left · {} busy · {} failed · {} waiting",
            grouped(self.rate),
            grouped(count(&live.short)),
            grouped(count(&live.busy)),
            grouped(count(&live.failed)),
            grouped(count(&live.waiting)),
        );
        if let Some(bar) = &self.bar {
            bar.set_position(sold);
            bar.set_message(message);
        } else if is_time {
            // Progress that cannot be shown is no reason to stop.
            let _ = writeln!(io::stderr(), "{:>4} s  {} of {} sold · {message}", now.as_secs(), grouped(sold), grouped(self.stock));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}
