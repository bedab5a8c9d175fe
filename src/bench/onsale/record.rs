//! What became of every request. Kept small while the load runs: bodies as the bytes that came, read when it is over.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;

use super::wire::{number_member, text_member};
use crate::ids::OrderId;

/// Bytes of one piece of the store of bodies: it grows by pieces, so that nothing is copied when it does.
const PIECE_BYTES: usize = 1 << 20;
/// Answers that were not expected, of which the text is kept to be shown.
const EXAMPLES_MAX: usize = 5;
/// Bytes that are kept of one of them.
const EXAMPLE_BYTES_MAX: usize = 300;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// 201: the order.
    Sold,
    /// 409 `sold_out`.
    SoldOut,
    /// 409 `too_few_left`.
    TooFewLeft,
    /// 409 `all_held`.
    AllHeld,
    /// 409 `idempotency_in_progress`.
    InProgress,
    /// 503 `busy`.
    Busy,
    /// 503 `unavailable`.
    Unavailable,
    /// Another status.
    Other(u16),
    /// Closed by the buyer right after sending, as planned.
    HungUp,
    /// No connection could be made.
    NotConnected,
    /// The connection broke before the answer was there, or the answer was not one.
    Broken,
    /// No answer in time.
    TimedOut,
    /// Still waiting for a connection when the run ended.
    NotSent,
}

impl Kind {
    /// Its name in the results.
    pub(super) fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Sold => "201",
            Self::SoldOut => "409 sold_out",
            Self::TooFewLeft => "409 too_few_left",
            Self::AllHeld => "409 all_held",
            Self::InProgress => "409 idempotency_in_progress",
            Self::Busy => "503 busy",
            Self::Unavailable => "503 unavailable",
            Self::Other(status) => return Cow::Owned(status.to_string()),
            Self::HungUp => "hung up",
            Self::NotConnected => "no connection",
            Self::Broken => "connection broke",
            Self::TimedOut => "no answer in time",
            Self::NotSent => "not sent",
        })
    }

    /// Whether there may be an order although this was no answer that has it.
    pub(super) fn may_have_sold(self) -> bool {
        match self {
            Self::HungUp | Self::Broken | Self::TimedOut | Self::Unavailable => true,
            Self::Other(status) => status >= 500,
            _ => false,
        }
    }

    /// Whether the server answered.
    pub(super) fn is_answer(self) -> bool {
        !matches!(self, Self::HungUp | Self::NotConnected | Self::Broken | Self::TimedOut | Self::NotSent)
    }

    /// Whether it says that too few are left.
    pub(super) fn is_shortage(self) -> bool {
        matches!(self, Self::SoldOut | Self::TooFewLeft | Self::AllHeld)
    }

    /// The kind of an answer of that status.
    pub(super) fn of(status: u16, body: &[u8]) -> Self {
        match (status, text_member(body, "code")) {
            (201, _) => Self::Sold,
            (409, Some("sold_out")) => Self::SoldOut,
            (409, Some("too_few_left")) => Self::TooFewLeft,
            (409, Some("all_held")) => Self::AllHeld,
            (409, Some("idempotency_in_progress")) => Self::InProgress,
            (503, Some("busy")) => Self::Busy,
            (503, Some("unavailable")) => Self::Unavailable,
            (status, _) => Self::Other(status),
        }
    }
}

/// One request of a buyer. Times are nanoseconds from the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Click {
    pub(super) buyer: u32,
    /// The second of a double click.
    pub(super) is_second: bool,
    /// When the buyer meant to send it.
    pub(super) intended: u64,
    /// When it was sent.
    pub(super) sent: u64,
    /// When its end was known.
    pub(super) ended: u64,
    pub(super) kind: Kind,
    /// The order of a 201; `None` if the answer could not be read as one.
    pub(super) order: Option<Answered>,
    /// How many the answer says are left.
    pub(super) available: Option<u32>,
}

/// An order, as an answer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) id: OrderId,
    pub(super) quantity: i64,
    pub(super) positions: Vec<i32>,
}

/// When a request happened, as the load notes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) intended: u64,
    pub(super) sent: u64,
    pub(super) ended: u64,
}

/// What one thread of the load notes.
#[derive(Default)]
pub(super) struct Record {
    clicks: Vec<Noted>,
    bodies: Vec<Vec<u8>>,
    /// Answers of other statuses: the first few, and how often each came.
    pub(super) examples: BTreeMap<u16, String>,
}

struct Noted {
    buyer: u32,
    is_second: bool,
    times: Times,
    kind: Kind,
    available: u32,
    body: Body,
}

/// Where a body is; none is empty.
#[derive(Clone, Copy, Default)]
struct Body {
    piece: u32,
    start: u32,
    bytes: u32,
}

impl Record {
    /// Notes a request, with the body of its answer if there is one.
    pub(super) fn note(&mut self, buyer: u32, is_second: bool, times: Times, kind: Kind, body: &[u8]) {
        let kept = if kind == Kind::Sold { self.keep(body) } else { Body::default() };
        let available = if kind.is_shortage() { number_member(body, "available").unwrap_or(u32::MAX) } else { u32::MAX };
        if let Kind::Other(status) = kind
            && (self.examples.len() < EXAMPLES_MAX || self.examples.contains_key(&status))
        {
            let text = || String::from_utf8_lossy(body.get(..EXAMPLE_BYTES_MAX).unwrap_or(body)).into_owned();
            self.examples.entry(status).or_insert_with(text);
        }
        self.clicks.push(Noted { buyer, is_second, times, kind, available, body: kept });
    }

    fn keep(&mut self, body: &[u8]) -> Body {
        if self.bodies.last().is_none_or(|piece| piece.capacity() - piece.len() < body.len()) {
            self.bodies.push(Vec::with_capacity(PIECE_BYTES.max(body.len())));
        }
        let piece = u32::try_from(self.bodies.len() - 1).unwrap_or(u32::MAX);
        let Some(last) = self.bodies.last_mut() else { return Body::default() };
        let start = u32::try_from(last.len()).unwrap_or(u32::MAX);
        last.extend_from_slice(body);
        Body { piece, start, bytes: u32::try_from(body.len()).unwrap_or(u32::MAX) }
    }

    fn body(&self, place: Body) -> Option<&[u8]> {
        let piece = self.bodies.get(usize::try_from(place.piece).ok()?)?;
        let start = usize::try_from(place.start).ok()?;
        piece.get(start..start + usize::try_from(place.bytes).ok()?)
    }

    /// Reads the bodies, now that there is time.
    pub(super) fn clicks(&self) -> impl Iterator<Item = Click> {
        self.clicks.iter().map(|noted| Click {
            buyer: noted.buyer,
            is_second: noted.is_second,
            intended: noted.times.intended,
            sent: noted.times.sent,
            ended: noted.times.ended,
            kind: noted.kind,
            order: if noted.kind == Kind::Sold { self.body(noted.body).and_then(answered) } else { None },
            available: Some(noted.available).filter(|available| *available != u32::MAX),
        })
    }
}

#[derive(Deserialize)]
struct OrderBody {
    id: OrderId,
    quantity: i64,
    tickets: Vec<TicketBody>,
}

#[derive(Deserialize)]
struct TicketBody {
    position: i32,
}

fn answered(body: &[u8]) -> Option<Answered> {
    let order: OrderBody = serde_json::from_slice(body).ok()?;
    let mut positions: Vec<i32> = order.tickets.iter().map(|ticket| ticket.position).collect();
    positions.sort_unstable();
    Some(Answered { id: order.id, quantity: order.quantity, positions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_back() {
        let times = Times { intended: 1, sent: 2, ended: 3 };
        let mut record = Record::default();
        let id = OrderId::new();
        let order = format!(r#"{{"id":"{id}","quantity":2,"tickets":[{{"position":9,"code":"x"}},{{"position":4}}],"buyer":{{}}}}"#);
        record.note(1, false, times, Kind::of(201, order.as_bytes()), order.as_bytes());
        record.note(2, true, times, Kind::of(201, b"{}"), b"{}");
        let few = br#"{"available":3,"code":"too_few_left","requested":4}"#;
        record.note(3, false, times, Kind::of(409, few), few);
        record.note(4, false, times, Kind::of(404, b"gone"), b"gone");
        let clicks: Vec<Click> = record.clicks().collect();
        assert_eq!(clicks[0].order, Some(Answered { id, quantity: 2, positions: vec![4, 9] }));
        assert_eq!((clicks[1].kind, clicks[1].order.clone()), (Kind::Sold, None));
        assert_eq!((clicks[2].kind, clicks[2].available), (Kind::TooFewLeft, Some(3)));
        assert_eq!((clicks[3].kind, record.examples[&404].as_str()), (Kind::Other(404), "gone"));
    }

    #[test]
    fn bodies_larger_than_a_piece_and_smaller_than_its_rest_are_kept_whole() {
        let mut record = Record::default();
        let bodies = [vec![b'a'; PIECE_BYTES - 1], vec![b'b'; 2], vec![b'c'; 2 * PIECE_BYTES], vec![b'd'; 1]];
        let places: Vec<Body> = bodies.iter().map(|body| record.keep(body)).collect();
        for (body, place) in bodies.iter().zip(places) {
            assert_eq!(record.body(place), Some(body.as_slice()));
        }
    }
}
