//! HTTP/1.1 as far as the load needs it: requests that were rendered once, and the few bytes of an answer that matter.

use super::{
    args::{Quantity, Server},
    script::Buyer,
};

/// Digits of a buyer's number in a request: always as many, so that they are patched in place.
const DIGITS: usize = 10;
/// What stands in a template where the buyer's number goes.
const NUMBER: &str = "##########";

/// The event, the partner's key and the run's name, which every request has.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The event's slug.
    pub(super) slug: String,
    /// The ticket type's code.
    pub(super) ticket_type: String,
    /// The partner's key.
    pub(super) key: String,
    /// What the Idempotency-Keys begin with.
    pub(super) run: String,
}

impl Stage {
    /// The Idempotency-Key of a buyer.
    pub(super) fn idempotency_key(&self, buyer: u32) -> String {
        format!("{}-{buyer:0DIGITS$}", self.run)
    }

    /// The name that a buyer of this run gives.
    pub(super) fn buyer_name(buyer: u32) -> String {
        format!("Buyer {buyer:0DIGITS$}")
    }

    /// The number of the buyer of that name.
    pub(super) fn buyer_of_name(name: &str) -> Option<u32> {
        name.strip_prefix("Buyer ").filter(|digits| digits.len() == DIGITS)?.parse().ok()
    }

    /// A request for the event as the API shows it: whether the server knows it.
    pub(super) fn probe(&self, server: &Server) -> String {
        format!(
            "GET /api/v1/events/{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.slug, server.host, self.key
        )
    }

    fn purchase(&self, server: &Server, quantity: u32, keyed: bool) -> String {
        let body = format!(
            r#"{{"buyer":{{"name":"Buyer {NUMBER}","email":"b{NUMBER}@onsale.example"}},"items":[{{"ticket_type":"{}","quantity":{quantity}}}]}}"#,
            self.ticket_type
        );
        let idempotency = if keyed { format!("Idempotency-Key: {}-{NUMBER}\r\n", self.run) } else { String::new() };
        format!(
            "POST /api/v1/events/{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{idempotency}\
             Content-Length: {}\r\n\r\n{body}",
            format_args!("{}/orders", self.slug),
            server.host,
            self.key,
            body.len()
        )
    }
}

/// The requests to one server, rendered once for each quantity, with and without key.
pub(super) struct Requests {
    least: u32,
    keyed: Vec<Template>,
    plain: Vec<Template>,
}

impl Requests {
    /// Renders them.
    pub(super) fn new(stage: &Stage, server: &Server, quantity: Quantity) -> Self {
        let all = |keyed| (quantity.least..=quantity.most).map(|quantity| Template::new(stage.purchase(server, quantity, keyed))).collect();
        Self { least: quantity.least, keyed: all(true), plain: all(false) }
    }

    /// The request of one buyer; good until the next is asked for.
    pub(super) fn of(&mut self, number: u32, buyer: &Buyer) -> &[u8] {
        let templates = if buyer.keyed { &mut self.keyed } else { &mut self.plain };
        let place = usize::try_from(buyer.quantity.saturating_sub(self.least)).unwrap_or(usize::MAX);
        templates.get_mut(place).map_or(&[], |template| template.patched(number))
    }
}

struct Template {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    fn new(text: String) -> Self {
        let places = text.match_indices(NUMBER).map(|(place, _)| place).collect();
        Self { bytes: text.into_bytes(), places }
    }

    fn patched(&mut self, number: u32) -> &[u8] {
        let digits = digits(number);
        for place in &self.places {
            if let Some(slot) = self.bytes.get_mut(*place..place + DIGITS) {
                slot.copy_from_slice(&digits);
            }
        }
        &self.bytes
    }
}

fn digits(mut number: u32) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    digits
}

/// What of an answer's head matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The status.
    pub(super) status: u16,
    /// Length of the head, in bytes.
    pub(super) head_bytes: usize,
    /// Length of the body, in bytes.
    pub(super) body_bytes: usize,
    /// The server closes the connection after this answer.
    pub(super) closes: bool,
}

/// An answer that this reader does not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Reads the head of an answer; `None` if it has not arrived whole.
pub(super) fn head(bytes: &[u8]) -> Result<Option<Head>, Unreadable> {
    let mut head = Head { status: 0, head_bytes: 0, body_bytes: 0, closes: false };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let is_first = head.head_bytes == 0;
        head.head_bytes += line.len();
        match line.first().map(u8::to_ascii_lowercase) {
            Some(b'\r' | b'\n') if !is_first => return Ok(Some(head)),
            _ if is_first => head.status = status(line).ok_or(Unreadable)?,
            Some(b'c') => {
                if let Some(value) = value_of(line, b"content-length:") {
                    head.body_bytes = number(value).ok_or(Unreadable)?;
                } else if let Some(value) = value_of(line, b"connection:") {
                    head.closes = value.eq_ignore_ascii_case(b"close");
                }
            }
            Some(b't') if value_of(line, b"transfer-encoding:").is_some() => return Err(Unreadable),
            _ => {}
        }
    }
    Ok(None)
}

fn status(line: &[u8]) -> Option<u16> {
    let status = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    u16::try_from(number(status.get(..3)?)?).ok()
}

fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The value of a string member, by a plain search: for codes, which have nothing to unescape.
pub(super) fn text_member<'b>(body: &'b [u8], name: &str) -> Option<&'b str> {
    let rest = after(body, &format!("\"{name}\":\""))?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

/// The value of a member that is a whole number, by a plain search.
pub(super) fn number_member(body: &[u8], name: &str) -> Option<u32> {
    let rest = after(body, &format!("\"{name}\":"))?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

fn after<'b>(body: &'b [u8], wanted: &str) -> Option<&'b [u8]> {
    let place = body.windows(wanted.len()).position(|window| window == wanted.as_bytes())?;
    body.get(place + wanted.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> Stage {
        Stage { slug: "onsale-x".into(), ticket_type: "standard".into(), key: "bxo_k".into(), run: "x".into() }
    }

    #[test]
    fn a_request_is_patched_and_stays_as_long_as_it_says() {
        let server = Server { url: "http://h:1".into(), host: "h:1".into(), address: "127.0.0.1:1".parse().unwrap() };
        let mut requests = Requests::new(&stage(), &server, Quantity { least: 9, most: 10 });
        let mut buyer = Buyer { quantity: 10, keyed: true, again_after: None, hangs_up: false };
        for number in [7, u32::MAX] {
            let text = String::from_utf8(requests.of(number, &buyer).to_vec()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /api/v1/events/onsale-x/orders HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("\r\nIdempotency-Key: {}\r\n", stage().idempotency_key(number))), "{head}");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["items"][0]["quantity"], 10);
            assert_eq!(Stage::buyer_of_name(body["buyer"]["name"].as_str().unwrap()), Some(number));
        }
        buyer.keyed = false;
        assert!(!String::from_utf8_lossy(requests.of(7, &buyer)).contains("Idempotency-Key"));
    }

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let answer = b"HTTP/1.1 409 Conflict\r\nContent-Type: x\r\ncontent-length: 12\r\nConnection: close\r\n\r\n{\"code\":\"x\"}";
        let whole = Head { status: 409, head_bytes: answer.len() - 12, body_bytes: 12, closes: true };
        assert_eq!(head(answer), Ok(Some(whole)));
        for end in 0..answer.len() - 12 {
            assert_eq!(head(&answer[..end]), Ok(None), "{end}");
        }
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Unreadable));
        assert_eq!(head(b"SSH-2.0\r\n\r\n"), Err(Unreadable));
    }

    #[test]
    fn members_are_found() {
        let body = br#"{"available":3,"code":"too_few_left","requested":4}"#;
        assert_eq!(
            (text_member(body, "code"), number_member(body, "available"), number_member(body, "x")),
            (Some("too_few_left"), Some(3), None)
        );
    }
}
