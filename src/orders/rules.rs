//! Pure rules of a purchase: what a valid one is, what is agreed, and how claimed tickets are dealt out. No clock, no database.

use std::collections::{HashMap, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};

use super::{OrderError, OrderLine};
use crate::{
    email::{self, Email},
    events::{Event, EventState, Programme, Selling},
    ids::TicketTypeId,
    input::{FieldErrors, line_of_text},
    inventory::Ticket,
};

/// Longest name of a buyer, in characters.
pub const BUYER_NAME_MAX: usize = 200;
/// Most lines that a request may have; lines of the same type are summed.
pub const LINES_MAX: usize = 100;
/// Longest Idempotency-Key, in bytes.
pub const KEY_MAX: usize = 255;
/// What a quantity must be, for the messages of every form and call.
pub const QUANTITY_EXPECTED: &str = "must be a whole number, 1 or more";

/// For how long tickets may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Seconds of a hold that does not say.
    pub usual_secs: u32,
    /// Most seconds that one may ask for.
    pub secs_max: u32,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { usual_secs: 600, secs_max: 3_600 }
    }
}

impl HoldLimits {
    /// The time of a hold of so many seconds.
    ///
    /// # Errors
    /// `ttl_seconds` is not from 1 to the most that is allowed.
    pub fn ttl(&self, asked_secs: Option<i64>) -> Result<TimeDelta, FieldErrors> {
        let secs = asked_secs.unwrap_or_else(|| self.usual_secs.min(self.secs_max).into());
        if (1..=i64::from(self.secs_max)).contains(&secs) {
            return Ok(TimeDelta::seconds(secs));
        }
        Err(FieldErrors::one("ttl_seconds", format!("must be a whole number of seconds from 1 to {}", self.secs_max)))
    }
}

/// A purchase as somebody sent it: nothing is checked yet, and what is absent is `None`.
#[derive(Clone, Debug, Default)]
pub struct PurchaseInput {
    /// The buyer's name.
    pub buyer_name: Option<String>,
    /// The buyer's e-mail address.
    pub buyer_email: Option<String>,
    /// What is asked for.
    pub lines: Vec<LineInput>,
    /// Whether fewer will do.
    pub accept_fewer: bool,
}

/// One line of a [`PurchaseInput`].
#[derive(Clone, Debug, Default)]
pub struct LineInput {
    /// Code of the ticket type.
    pub ticket_type: Option<String>,
    /// How many.
    pub quantity: Option<i64>,
}

/// What a buyer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// Name of the buyer.
    pub buyer_name: String,
    /// Where the buyer reads mail.
    pub buyer_email: Email,
    /// Each ticket type once, in the order of the request, with how many.
    pub lines: Vec<(String, i64)>,
    /// Take what is left, if it is fewer than asked for.
    pub accept_fewer: bool,
}

impl PurchaseInput {
    /// Checks every field, and sums lines of the same type.
    ///
    /// # Errors
    /// All that is wrong, by field as in the API.
    pub fn parse(&self) -> Result<Purchase, FieldErrors> {
        let mut errors = FieldErrors::new();
        let name = self.buyer_name.as_deref().and_then(|name| line_of_text(name, BUYER_NAME_MAX));
        let buyer_name = errors.check("buyer.name", name, "must be one line of 1 to 200 characters");
        let buyer_email = errors.check("buyer.email", self.buyer_email.as_deref().and_then(Email::parse), email::EXPECTED);
        if !(1..=LINES_MAX).contains(&self.lines.len()) {
            errors.add("items", format!("must have 1 to {LINES_MAX} lines"));
        }
        let lines: Vec<(String, i64)> = self.lines.iter().enumerate().filter_map(|(place, line)| line.parse(place, &mut errors)).collect();
        match (buyer_name, buyer_email) {
            (Some(buyer_name), Some(buyer_email)) => {
                let purchase = Purchase { buyer_name, buyer_email, lines: summed(&lines), accept_fewer: self.accept_fewer };
                errors.into_result().map(|()| purchase)
            }
            _ => Err(errors),
        }
    }
}

impl LineInput {
    fn parse(&self, place: usize, errors: &mut FieldErrors) -> Option<(String, i64)> {
        let quantity = self.quantity.filter(|quantity| (1..=i64::from(i32::MAX)).contains(quantity));
        if self.ticket_type.is_none() {
            errors.add(format!("items[{place}].ticket_type"), "must be the code of a ticket type, like standard");
        }
        if quantity.is_none() {
            errors.add(format!("items[{place}].quantity"), QUANTITY_EXPECTED);
        }
        self.ticket_type.clone().zip(quantity)
    }
}

fn summed(lines: &[(String, i64)]) -> Vec<(String, i64)> {
    let mut sums: Vec<(String, i64)> = Vec::with_capacity(lines.len());
    for (code, quantity) in lines {
        match sums.iter_mut().find(|(seen, _)| seen == code) {
            Some((_, sum)) => *sum = sum.saturating_add(*quantity),
            None => sums.push((code.clone(), *quantity)),
        }
    }
    sums
}

/// A purchase that the event's rules allow, with the prices of this moment; what remains is to find the tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The lines, in the order of the request.
    pub lines: Vec<AgreedLine>,
    /// Take what is left, if it is fewer.
    pub accept_fewer: bool,
}

/// One ticket type of an [`Agreement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedLine {
    /// The type.
    pub ticket_type: TicketTypeId,
    /// Its code.
    pub code: String,
    /// Its name for people.
    pub name: String,
    /// How many.
    pub quantity: i64,
    /// Price of one, in minor units.
    pub unit_price_minor: i64,
}

impl Agreement {
    /// How many tickets in all.
    #[must_use]
    pub fn quantity(&self) -> i64 {
        self.lines.iter().map(|line| line.quantity).sum()
    }
}

/// Decides whether an event's rules allow a purchase at `now`.
///
/// # Errors
/// [`OrderError`]: the sale is not open, a ticket type is unknown, the order is too large.
pub fn agree(programme: &Programme, purchase: &Purchase, now: DateTime<Utc>) -> Result<Agreement, OrderError> {
    may_sell(programme, std::iter::empty(), now)?;
    let lines = agreed_lines(programme, purchase)?;
    may_sell(programme, lines.iter().map(|line| line.code.as_str()), now)?;
    let agreement = Agreement { lines, accept_fewer: purchase.accept_fewer };
    let (requested, limit) = (agreement.quantity(), i64::from(programme.event.max_per_order));
    if requested > limit {
        return Err(OrderError::LimitExceeded { limit, requested });
    }
    Ok(agreement)
}

/// Decides whether an event and these ticket types of it, by code, sell at `now`.
///
/// # Errors
/// [`OrderError::SalesNotOpen`], [`OrderError::SalesClosed`]; they name the ticket type if it is not the event.
pub fn may_sell<'c>(programme: &Programme, codes: impl Iterator<Item = &'c str>, now: DateTime<Utc>) -> Result<(), OrderError> {
    let of_event = programme.event.selling(now);
    is_open(of_event, None)?;
    for ticket_type in codes.filter_map(|code| programme.ticket_type(code)) {
        is_open(ticket_type.selling(of_event, now), Some(&ticket_type.code))?;
    }
    Ok(())
}

fn is_open(selling: Selling, ticket_type: Option<&str>) -> Result<(), OrderError> {
    let ticket_type = ticket_type.map(str::to_owned);
    match selling {
        Selling::Open => Ok(()),
        Selling::NotYet(opens_at) => Err(OrderError::SalesNotOpen { opens_at, paused: false, ticket_type }),
        Selling::Paused => Err(OrderError::SalesNotOpen { opens_at: None, paused: true, ticket_type }),
        Selling::Closed => Err(OrderError::SalesClosed { cancelled: false, ticket_type }),
        Selling::Cancelled => Err(OrderError::SalesClosed { cancelled: true, ticket_type }),
    }
}

/// Decides whether tickets that were bought may be given back at `now`.
///
/// # Errors
/// [`OrderError::EventBegun`]; for a buyer also [`OrderError::CancelNotAllowed`]: only as long as the event lets them.
pub fn may_cancel(event: &Event, by_buyer: bool, now: DateTime<Utc>) -> Result<(), OrderError> {
    // One that is cancelled never begins, and its orders are still to be settled.
    if event.has_begun(now) && event.state != EventState::Cancelled {
        return Err(OrderError::EventBegun);
    }
    if by_buyer && event.buyers_cancel_until.is_none_or(|until| now >= until) {
        return Err(OrderError::CancelNotAllowed { until: event.buyers_cancel_until });
    }
    Ok(())
}

fn agreed_lines(programme: &Programme, purchase: &Purchase) -> Result<Vec<AgreedLine>, OrderError> {
    let mut errors = FieldErrors::new();
    let mut lines = Vec::with_capacity(purchase.lines.len());
    for (place, (code, quantity)) in purchase.lines.iter().enumerate() {
        match programme.ticket_type(code) {
            Some(ticket_type) => lines.push(AgreedLine {
                ticket_type: ticket_type.id,
                code: ticket_type.code.clone(),
                name: ticket_type.name.clone(),
                quantity: *quantity,
                unit_price_minor: ticket_type.price_minor,
            }),
            None => errors.add(format!("items[{place}].ticket_type"), format!("{code:?} is not a ticket type of this event")),
        }
    }
    errors.into_result().map_err(OrderError::Invalid)?;
    Ok(lines)
}

/// Tickets that were claimed for a batch of orders, by type, lowest positions first.
pub type Shelf = HashMap<TicketTypeId, VecDeque<Ticket>>;

/// Deals `agreement` its tickets off the shelf, or leaves the shelf as it was if some line does not fit.
///
/// With `fewer` the lines that do not fit get what is there; `None` then means that nothing at all is.
pub fn deal(agreement: &Agreement, shelf: &mut Shelf, fewer: bool) -> Option<Vec<Ticket>> {
    let on_shelf = |line: &AgreedLine| shelf.get(&line.ticket_type).map_or(0, VecDeque::len);
    let wanted = |line: &AgreedLine| usize::try_from(line.quantity).unwrap_or(usize::MAX);
    let shares: Vec<usize> = agreement.lines.iter().map(|line| on_shelf(line).min(wanted(line))).collect();
    let all = agreement.lines.iter().zip(&shares).all(|(line, share)| *share == wanted(line));
    if !all && (!fewer || shares.iter().all(|share| *share == 0)) {
        return None;
    }
    let mut dealt = Vec::new();
    for (line, share) in agreement.lines.iter().zip(shares) {
        dealt.extend(shelf.get_mut(&line.ticket_type).into_iter().flat_map(|tickets| tickets.drain(..share)));
    }
    Some(dealt)
}

/// The lines of an order, from what was agreed and what was dealt; they differ only where fewer were accepted.
#[must_use]
pub fn order_lines(agreement: &Agreement, dealt: &[Ticket]) -> Vec<OrderLine> {
    let line = |line: &AgreedLine| OrderLine {
        ticket_type: line.code.clone(),
        name: line.name.clone(),
        quantity: i64::try_from(dealt.iter().filter(|ticket| ticket.ticket_type == line.ticket_type).count()).unwrap_or(i64::MAX),
        unit_price_minor: line.unit_price_minor,
    };
    agreement.lines.iter().map(line).filter(|line| line.quantity > 0).collect()
}

/// The total of an order's lines in minor units; `None` past 64 bits, which the limits on price and quantity rule out.
#[must_use]
pub fn total_minor(lines: &[OrderLine]) -> Option<i64> {
    lines.iter().try_fold(0_i64, |total, line| total.checked_add(line.quantity.checked_mul(line.unit_price_minor)?))
}

/// Reads an Idempotency-Key: 1 to [`KEY_MAX`] visible ASCII characters.
#[must_use]
pub fn parse_key(text: &str) -> Option<String> {
    let fits = (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Place;

    fn input(lines: &[(&str, i64)]) -> PurchaseInput {
        PurchaseInput {
            buyer_name: Some("Ada".into()),
            buyer_email: Some("ada@example.org".into()),
            lines: lines
                .iter()
                .map(|(code, quantity)| LineInput { ticket_type: Some((*code).to_owned()), quantity: Some(*quantity) })
                .collect(),
            accept_fewer: false,
        }
    }

    fn shelf(stock: &[(TicketTypeId, i32)]) -> Shelf {
        let tickets = |ticket_type, count| {
            (1..=count).map(|position| Ticket { position, ticket_type, place: Place::default(), code: None, used_at: None }).collect()
        };
        stock.iter().map(|(ticket_type, count)| (*ticket_type, tickets(*ticket_type, *count))).collect()
    }

    fn agreement(lines: &[(TicketTypeId, i64)]) -> Agreement {
        let line = |(ticket_type, quantity): &(TicketTypeId, i64)| AgreedLine {
            ticket_type: *ticket_type,
            code: "x".into(),
            name: "X".into(),
            quantity: *quantity,
            unit_price_minor: 3_400,
        };
        Agreement { lines: lines.iter().map(line).collect(), accept_fewer: false }
    }

    #[test]
    fn lines_of_one_type_are_summed() {
        let lines: Vec<(&str, i64)> = std::iter::repeat_n(("standard", 1), 20).collect();
        assert_eq!(input(&lines).parse().unwrap().lines, [("standard".to_owned(), 20)]);
    }

    #[test]
    fn quantities_are_whole_and_positive() {
        for wrong in [0, -1, 1 << 31] {
            let errors = input(&[("standard", 1), ("vip", wrong)]).parse().unwrap_err();
            assert_eq!(errors.of("items[1].quantity"), Some(QUANTITY_EXPECTED), "{wrong}");
        }
        assert!(input(&[]).parse().unwrap_err().of("items").is_some());
    }

    #[test]
    fn a_basket_is_dealt_whole_or_not_at_all() {
        let (a, b) = (TicketTypeId::new(), TicketTypeId::new());
        let mut both = shelf(&[(a, 3), (b, 1)]);
        assert_eq!(deal(&agreement(&[(a, 2), (b, 2)]), &mut both, false), None);
        assert_eq!((both[&a].len(), both[&b].len()), (3, 1), "the shelf is as it was");
        assert_eq!(deal(&agreement(&[(a, 2), (b, 1)]), &mut both, false).map(|dealt| dealt.len()), Some(3));
        assert_eq!((both[&a].len(), both[&b].len()), (1, 0));
    }

    #[test]
    fn a_large_order_that_does_not_fit_does_not_stop_a_smaller_one_behind_it() {
        let a = TicketTypeId::new();
        let mut shelf = shelf(&[(a, 3)]);
        assert_eq!(deal(&agreement(&[(a, 4)]), &mut shelf, false), None);
        assert_eq!(deal(&agreement(&[(a, 3)]), &mut shelf, false).map(|dealt| dealt.len()), Some(3));
    }

    #[test]
    fn fewer_means_what_is_there_of_each_line() {
        let (a, b) = (TicketTypeId::new(), TicketTypeId::new());
        let mut some = shelf(&[(a, 1)]);
        let agreement = agreement(&[(a, 2), (b, 2)]);
        let dealt = deal(&agreement, &mut some, true).unwrap();
        let lines = order_lines(&agreement, &dealt);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].quantity, 1);
        assert_eq!(deal(&agreement, &mut some, true), None, "nothing at all is not fewer");
    }

    #[test]
    fn lines_and_total_agree_to_the_cent() {
        let a = TicketTypeId::new();
        let agreement = agreement(&[(a, 2)]);
        let lines = order_lines(&agreement, &deal(&agreement, &mut shelf(&[(a, 2)]), false).unwrap());
        assert_eq!(total_minor(&lines), Some(6_800));
    }

    #[test]
    fn a_hold_is_as_long_as_asked_within_bounds() {
        let limits = HoldLimits { usual_secs: 600, secs_max: 900 };
        assert_eq!(limits.ttl(None), Ok(TimeDelta::seconds(600)));
        assert_eq!(limits.ttl(Some(900)), Ok(TimeDelta::seconds(900)));
        for wrong in [0, -1, 901, i64::MAX] {
            assert!(limits.ttl(Some(wrong)).unwrap_err().of("ttl_seconds").is_some(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_visible_ascii() {
        assert!(parse_key("order-1/ü").is_none());
        assert!(parse_key("").is_none() && parse_key("a b").is_none() && parse_key(&"k".repeat(256)).is_none());
        assert_eq!(parse_key("8e03978e-40d5"), Some("8e03978e-40d5".to_owned()));
    }
}
