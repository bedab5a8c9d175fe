//! Pure rules of webhooks: what an endpoint may be, what it can be told of, how a message is signed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use chrono::{DateTime, Utc};
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use url::{Host, Url};

use crate::input::FieldErrors;

/// Longest URL, in bytes.
pub const URL_MAX: usize = 2_000;
/// Bytes of a new secret; the standard asks for 24 to 64.
pub const SECRET_BYTES: usize = 32;
/// What the text of a secret begins with.
const SECRET_PREFIX: &str = "whsec_";

/// What an endpoint can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An order was bought, at once or by confirming what it held.
    OrderSold,
    /// An order holds tickets.
    OrderHeld,
    /// Tickets of an order were given back, some or all.
    OrderCancelled,
    /// An order's deadline passed.
    OrderExpired,
    /// No ticket of an event is left, and none is held.
    EventSoldOut,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::OrderSold, Self::OrderHeld, Self::OrderCancelled, Self::OrderExpired, Self::EventSoldOut];

    /// The name in the API and in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OrderSold => "order.sold",
            Self::OrderHeld => "order.held",
            Self::OrderCancelled => "order.cancelled",
            Self::OrderExpired => "order.expired",
            Self::EventSoldOut => "event.sold_out",
        }
    }
}

impl FromStr for EventKind {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(())
    }
}

/// Which addresses messages may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Public ones, by https.
    #[default]
    Public,
    /// Any, by http too: for receivers on the same network, and for tests.
    Anywhere,
}

/// An endpoint as somebody sent it.
#[derive(Clone, Debug, Default)]
pub struct EndpointInput {
    /// Where messages go.
    pub url: Option<String>,
    /// What it is told of, by name; everything, if absent.
    pub kinds: Option<Vec<String>>,
    /// Whether it is told of everybody's orders.
    pub all_orders: bool,
}

/// An endpoint that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Where messages go.
    pub url: String,
    /// What it is told of.
    pub kinds: Vec<EventKind>,
    /// Whether it is told of everybody's orders.
    pub all_orders: bool,
}

impl EndpointInput {
    /// Checks every field.
    ///
    /// # Errors
    /// All that is wrong, by field.
    pub fn parse(&self, reach: Reach) -> Result<NewEndpoint, FieldErrors> {
        let mut errors = FieldErrors::new();
        let expected = match reach {
            Reach::Public => "must be an https URL of a public address, without user and fragment, like https://example.org/hooks",
            Reach::Anywhere => "must be an http or https URL, without user and fragment, like https://example.org/hooks",
        };
        let url = errors.check("url", self.url.as_deref().and_then(|url| parse_url(url, reach)), expected);
        let kinds = self.kinds.as_ref().map_or(Some(EventKind::ALL.to_vec()), |names| parse_kinds(names));
        let kinds = errors.check(
            "events",
            kinds,
            "must be some of order.sold, order.held, order.cancelled, order.expired, event.sold_out, each once",
        );
        match (url, kinds) {
            (Some(url), Some(kinds)) => errors.into_result().map(|()| NewEndpoint { url, kinds, all_orders: self.all_orders }),
            _ => Err(errors),
        }
    }
}

fn parse_kinds(names: &[String]) -> Option<Vec<EventKind>> {
    let kinds: Vec<EventKind> = names.iter().map(|name| name.parse().ok()).collect::<Option<_>>()?;
    let is_twice = kinds.iter().enumerate().any(|(place, kind)| kinds.iter().take(place).any(|other| other == kind));
    (!kinds.is_empty() && !is_twice).then_some(kinds)
}

/// Reads the URL of an endpoint. A host name is looked up, and its address checked, at each delivery.
fn parse_url(text: &str, reach: Reach) -> Option<String> {
    // Parsed as browsers do, line breaks would be left out and backslashes turned around: it would not be what was meant.
    let text =
        Some(text.trim()).filter(|text| !text.contains(|letter: char| letter.is_control() || letter.is_whitespace() || letter == '\\'))?;
    let url = Url::parse(text).ok().filter(|url| url.as_str().len() <= URL_MAX)?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let scheme_is_taken = url.scheme() == "https" || (url.scheme() == "http" && reach == Reach::Anywhere);
    let host_is_taken = match url.host()? {
        Host::Domain(name) => !name.is_empty() && (reach == Reach::Anywhere || !is_local_name(name)),
        Host::Ipv4(address) => may_reach(address.into(), reach),
        Host::Ipv6(address) => may_reach(address.into(), reach),
    };
    (is_plain && scheme_is_taken && host_is_taken).then(|| url.to_string())
}

/// Names that mean this machine wherever they are looked up.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a message may be sent to that address.
#[must_use]
pub fn may_reach(address: IpAddr, reach: Reach) -> bool {
    reach == Reach::Anywhere || is_public(address)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        // An IPv4 address in disguise is what it stands for.
        IpAddr::V6(address) => match address.to_ipv4_mapped().or_else(|| embedded(address)) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

/// The IPv4 address in one of NAT64 (64:ff9b::/96) or 6to4 (2002::/16).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b) {
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => Some(of(g, h)),
        (0x2002, _) => Some(of(b, c)),
        _ => None,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast is 2000::/3; of it, 2001:db8::/32 and 3fff::/20 are for documents, and 2001::/32 tunnels IPv4.
    let is_for_documents = (first == 0x2001 && second == 0xdb8) || (first == 0x3fff && second < 0x1000);
    (first & 0xe000) == 0x2000 && !is_for_documents && !(first == 0x2001 && second == 0)
}

/// The text of a secret, as the partner is given it.
#[must_use]
pub fn secret_text(secret: &[u8]) -> String {
    format!("{SECRET_PREFIX}{}", BASE64.encode(secret))
}

/// The `webhook-signature` of a message: version 1, HMAC-SHA256 over its id, the time of this try, and its body.
#[must_use]
pub fn signature(secret: &[u8], id: &str, at: DateTime<Utc>, body: &str) -> String {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(format!("{id}.{}.{body}", at.timestamp()).as_bytes());
    format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand with openssl, from the standard's description.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let at = DateTime::from_timestamp(1_614_265_330, 0).unwrap();
        let signature = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(secret_text(&secret), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    }

    #[test]
    fn addresses_that_are_not_public_are_not_reached() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "240.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "192.88.99.1",
            "3fff::1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!may_reach(inside.parse().unwrap(), Reach::Public), "{inside}");
            assert!(may_reach(inside.parse().unwrap(), Reach::Anywhere), "{inside}");
        }
        for public in ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808"] {
            assert!(may_reach(public.parse().unwrap(), Reach::Public), "{public}");
        }
    }

    #[test]
    fn an_endpoint_is_a_public_https_url_and_something_to_tell() {
        let parse = |url: &str, reach| EndpointInput { url: Some(url.into()), ..EndpointInput::default() }.parse(reach);
        assert_eq!(parse("https://example.org/hooks?x=1", Reach::Public).unwrap().kinds.len(), 5);
        assert!(parse("https://example.org:8443", Reach::Public).is_ok());
        for wrong in [
            "",
            "example.org",
            "http://example.org/",
            "ftp://example.org/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            "https://localhost/",
            "https://shop.localhost./",
            "https://example.org/a\nb",
            "https://example.org\\a",
            "https://example.org/a b",
            "https://0x7f.1/",
            "https://ada:x@example.org/",
            "https://example.org/#x",
            "javascript:x",
            "https://",
        ] {
            assert!(parse(wrong, Reach::Public).is_err(), "{wrong}");
        }
        assert!(parse("http://127.0.0.1:9/", Reach::Anywhere).is_ok());
        let kinds = |kinds: &[&str]| {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            EndpointInput { url: Some("https://example.org".into()), kinds: Some(kinds), all_orders: false }.parse(Reach::Public)
        };
        assert_eq!(kinds(&["order.sold"]).unwrap().kinds, [EventKind::OrderSold]);
        for wrong in [&[][..], &["order.lost"], &["order.sold", "order.sold"]] {
            assert!(kinds(wrong).unwrap_err().of("events").is_some(), "{wrong:?}");
        }
    }
}
