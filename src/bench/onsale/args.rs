//! The options of `boxoffice bench onsale`, and what they come to once they are checked.

use std::{
    fmt, fs,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::Args;

use super::{OnsaleError, script::Script};
use crate::events::rules::ORDER_LIMIT_MAX;

/// Most buyers of one run: what each of them was answered is kept until the end, in about 100 bytes.
pub(super) const BUYERS_MAX: u64 = 20_000_000;
/// Most tickets of one run.
const TICKETS_MAX: u64 = 10_000_000;
/// Most servers that share the load.
const SERVERS_MAX: usize = 16;

/// How the on-sale goes.
#[derive(Args, Clone, Debug)]
pub struct OnsaleArgs {
    /// The running servers, comma-separated, used in turn
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_SERVER", value_delimiter = ',', default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub server: Vec<String>,
    /// Let the load leave this machine; without it, only loopback addresses are accepted
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_ALLOW_REMOTE")]
    pub allow_remote: bool,
    /// Tickets on sale
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_TICKETS", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=TICKETS_MAX), value_name = "N")]
    pub tickets: u64,
    /// Buyers who arrive each second, whether or not those before them have been answered
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_RATE", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=200_000), value_name = "BUYERS")]
    pub rate: u64,
    /// How long buyers arrive and are measured, in seconds
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_SECS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600), value_name = "SECONDS")]
    pub secs: u64,
    /// How long buyers arrive before they are measured, in seconds
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_WARMUP_SECS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600), value_name = "SECONDS")]
    pub warmup_secs: u64,
    /// Tickets that a buyer asks for: a number, or a range of which each number is as likely
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_QUANTITY", default_value = "1-4", value_name = "N-M")]
    pub quantity: Quantity,
    /// Share of the buyers who send the same request a second time, a few milliseconds later on another connection
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_DOUBLE_CLICKS", default_value = "0.05", value_name = "SHARE")]
    pub double_clicks: Share,
    /// Share of the buyers who close the connection right after sending
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_HANG_UPS", default_value = "0.02", value_name = "SHARE")]
    pub hang_ups: Share,
    /// Share of the buyers whose request has an Idempotency-Key
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_KEYS", default_value = "1.0", value_name = "SHARE")]
    pub keys: Share,
    /// What the buyers' quantities and habits are drawn from: the same seed gives the same buyers
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_SEED", default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Most open connections; a buyer who finds none free waits for one, and the wait counts
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_CONNECTIONS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=20_000), value_name = "N")]
    pub connections: u32,
    /// Closed loop, to find the peak: each connection sends the next purchase as soon as it has its answer, and --rate is not used
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_CLOSED")]
    pub closed: bool,
    /// Threads that make the load
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_THREADS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), value_name = "N")]
    pub threads: u32,
    /// Print all numbers as JSON
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_JSON")]
    pub json: bool,
    /// Also write a page with charts to this file
    #[arg(long, env = "BOXOFFICE_BENCH_ONSALE_REPORT", value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// How many tickets a buyer asks for: from `least` to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let limit = u32::try_from(ORDER_LIMIT_MAX).unwrap_or(1);
        match (number(least), number(most)) {
            (Some(least), Some(most)) if 1 <= least && least <= most && most <= limit => Ok(Self { least, most }),
            _ => Err(format!("must be a number or a range such as 1-4, from 1 to {limit}")),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { write!(out, "{}", self.least) } else { write!(out, "{}-{}", self.least, self.most) }
    }
}

/// A share, from 0 (nobody) to 1 (everybody).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Whether a draw, which is any number with equal probability, falls into this share.
    pub(super) fn has(self, draw: u32) -> bool {
        f64::from(draw) < self.0 * (f64::from(u32::MAX) + 1.0)
    }

    /// Whether it is more than nobody.
    pub(super) fn is_some(self) -> bool {
        self.0 > 0.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or_else(|| "must be a number from 0 to 1".to_owned())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A server, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// As it was given.
    pub(super) url: String,
    /// For the header `Host`.
    pub(super) host: String,
    /// Where to connect.
    pub(super) address: SocketAddr,
}

/// The options, checked: all that the run needs to know of them.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) servers: Vec<Server>,
    pub(super) script: Script,
    pub(super) tickets: u64,
    pub(super) rate: u64,
    pub(super) warmup: Duration,
    /// When the last buyers come, from the beginning of the warm-up.
    pub(super) end: Duration,
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) closed: bool,
}

impl OnsaleArgs {
    /// Checks the options by themselves, before a database is opened for them.
    ///
    /// # Errors
    /// [`OnsaleError::Options`]; [`OnsaleError::Report`] if the report could not be written in the end.
    pub fn check(&self) -> Result<(), OnsaleError> {
        self.plan()?;
        let Some(path) = &self.report else { return Ok(()) };
        let opened = fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map(drop).map_err(|error| OnsaleError::Report(path.display().to_string(), error))
    }

    /// Checks what clap cannot.
    pub(super) fn plan(&self) -> Result<Plan, OnsaleError> {
        let refuse = |why: String| Err(OnsaleError::Options(why));
        if self.server.is_empty() || self.server.len() > SERVERS_MAX {
            return refuse(format!("--server must name 1 to {SERVERS_MAX} servers"));
        }
        let servers = self.server.iter().map(|url| resolve(url, self.allow_remote)).collect::<Result<Vec<_>, _>>()?;
        let secs = self.warmup_secs + self.secs;
        if !self.closed && self.rate * secs > BUYERS_MAX {
            return refuse(format!("--rate times the seconds must be at most {BUYERS_MAX} buyers"));
        }
        let (connections, threads) = (whole(self.connections), whole(self.threads));
        if connections < servers.len() * threads {
            return refuse("--connections must be at least one for each server and thread".to_owned());
        }
        let script = Script {
            seed: self.seed,
            quantity: self.quantity,
            keys: self.keys,
            double_clicks: self.double_clicks,
            hang_ups: self.hang_ups,
        };
        Ok(Plan {
            servers,
            script,
            tickets: self.tickets,
            rate: self.rate,
            warmup: Duration::from_secs(self.warmup_secs),
            end: Duration::from_secs(secs),
            connections,
            threads,
            closed: self.closed,
        })
    }

    /// The command that does the same again, with every option that decides what is measured. The database is left out: its URL may
    /// hold a password.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["boxoffice bench onsale".to_owned(), format!("--server {}", self.server.join(","))];
        words.push(format!("--tickets {}", self.tickets));
        words.push(if self.closed { "--closed".to_owned() } else { format!("--rate {}", self.rate) });
        words.push(format!("--secs {}", self.secs));
        words.push(format!("--warmup-secs {}", self.warmup_secs));
        words.push(format!("--quantity {}", self.quantity));
        words.push(format!("--double-clicks {}", self.double_clicks));
        words.push(format!("--hang-ups {}", self.hang_ups));
        words.push(format!("--keys {}", self.keys));
        words.push(format!("--connections {}", self.connections));
        words.push(format!("--threads {}", self.threads));
        words.push(format!("--seed {}", self.seed));
        if self.allow_remote {
            words.push("--allow-remote".to_owned());
        }
        words.join(" ")
    }
}

fn whole(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Reads `http://HOST:PORT`. Load that leaves the machine must be asked for: it would be an attack on whoever it was sent to by mistake.
fn resolve(url: &str, allow_remote: bool) -> Result<Server, OnsaleError> {
    let refuse = |why: &str| OnsaleError::Options(format!("--server {url}: {why}"));
    let host = url.trim().trim_end_matches('/').strip_prefix("http://").ok_or_else(|| refuse("must begin with http://"))?;
    if host.is_empty() || host.contains(['/', '@', '?', '#']) || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse("must be http://HOST:PORT and nothing more"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}:80") };
    let addresses: Vec<SocketAddr> = with_port.to_socket_addrs().map_err(|error| refuse(&error.to_string()))?.collect();
    if !allow_remote && !addresses.iter().all(|address| address.ip().is_loopback()) {
        return Err(refuse("is not a loopback address; --allow-remote lets the load leave this machine"));
    }
    let address = addresses.first().copied().ok_or_else(|| refuse("has no address"))?;
    Ok(Server { url: format!("http://{host}"), host: host.to_owned(), address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_leaves_the_machine_only_if_asked_to() {
        let refused = resolve("http://192.0.2.1:8080", false).unwrap_err().to_string();
        assert!(refused.contains("--allow-remote"), "{refused}");
        assert!(resolve("http://192.0.2.1:8080", true).is_ok());
        for local in ["http://127.0.0.1:8080", "http://127.0.0.9:1/", "http://[::1]:8080"] {
            assert!(resolve(local, false).is_ok(), "{local}");
        }
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for wrong in ["127.0.0.1:8080", "https://127.0.0.1", "http://127.0.0.1/api", "http://", "http://a@127.0.0.1:1"] {
            assert!(resolve(wrong, false).is_err(), "{wrong}");
        }
        assert_eq!(resolve("http://127.0.0.1", false).unwrap().address.port(), 80);
    }

    #[test]
    fn quantities_and_shares_are_read() {
        assert_eq!("2".parse(), Ok(Quantity { least: 2, most: 2 }));
        assert_eq!("1-4".parse(), Ok(Quantity { least: 1, most: 4 }));
        for wrong in ["", "0", "4-1", "1-", "1-1001", "x"] {
            assert!(wrong.parse::<Quantity>().is_err(), "{wrong}");
        }
        for wrong in ["", "-0.1", "1.1", "NaN", "x"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        let (nobody, half, everybody): (Share, Share, Share) = ("0".parse().unwrap(), "0.5".parse().unwrap(), "1".parse().unwrap());
        assert_eq!(
            [nobody.has(0), half.has(u32::MAX / 2), half.has(u32::MAX / 2 + 1), everybody.has(u32::MAX)],
            [false, true, false, true]
        );
    }
}
