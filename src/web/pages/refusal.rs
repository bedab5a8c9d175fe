//! Why there is no order, in words for its buyer, and what they can do about it.

use super::{basket::Basket, events::quantity_of, number, tickets};
use crate::{
    events::Programme,
    ids::new_secret,
    orders::{Order, OrderError, Purchase, Short, Shortage, rules},
    when::with_zone,
};

/// What stands above the form when it comes back.
pub(super) struct Notice {
    pub(super) tone: &'static str,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) links: Vec<FieldLink>,
    pub(super) offer: Option<Offer>,
}

/// One thing that is wrong, with the id of its field, if it has one.
pub(super) struct FieldLink {
    pub(super) id: String,
    pub(super) text: String,
}

/// A button that sends a form of hidden fields.
pub(super) struct Offer {
    pub(super) button: String,
    pub(super) action: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Notice {
    fn new(title: impl Into<String>, lines: Vec<String>) -> Self {
        Self { tone: "warn", title: title.into(), lines, links: Vec::new(), offer: None }
    }
}

/// What to say of a refusal to a buyer who has these holds; also makes `basket` ready to be sent again.
pub(super) fn notice(programme: &Programme, own_holds: &[Order], basket: &mut Basket, refusal: &OrderError) -> Option<Notice> {
    match refusal {
        OrderError::Invalid(errors) => {
            let links = basket.note(programme, errors);
            if rules::parse_key(&basket.form_key).is_none() {
                basket.form_key = new_secret();
            }
            let title = if links.len() == 1 { "One thing is not right yet" } else { "A few things are not right yet" };
            Some(Notice { tone: "bad", links, ..Notice::new(title, vec!["Nothing has been bought.".to_owned()]) })
        }
        OrderError::LimitExceeded { limit, requested } => {
            let title = format!("At most {} an order", tickets(*limit));
            let asked = format!("You asked for {}. Choose fewer, and send it again. Nothing has been bought.", number(*requested));
            Some(Notice::new(title, vec![asked]))
        }
        // How many the address has is not told: whoever asks may not be who reads its mail.
        OrderError::BuyerLimitExceeded { limit, requested, .. } => {
            let asked = match requested > limit {
                true => format!("You asked for {}. Choose fewer, and send it again.", number(*requested)),
                false => "With those that this e-mail address has already it would be more. Choose fewer, and send it again.".to_owned(),
            };
            Some(Notice::new(format!("At most {} a person", tickets(*limit)), vec![format!("{asked} Nothing more has been bought.")]))
        }
        OrderError::SalesNotOpen { ticket_type: Some(code), opens_at, .. } => {
            let opens = opens_at.map(|opens| format!("It opens on {}. ", with_zone(opens, programme.event.time_zone)));
            let text = format!("{}Nothing has been bought.", opens.unwrap_or_default());
            Some(Notice::new(format!("The sale of {} is not open", type_name(programme, code)), vec![text]))
        }
        OrderError::SalesClosed { ticket_type: Some(code), .. } => {
            let title = format!("{} is no longer sold", type_name(programme, code));
            Some(Notice::new(title, vec!["Nothing has been bought.".to_owned()]))
        }
        OrderError::KeyReused => {
            basket.form_key = new_secret();
            let lines = vec![
                "You ordered with this form before, and changed it since: that order stands.".to_owned(),
                "To have these tickets as well, send the form again.".to_owned(),
            ];
            Some(Notice::new("This form has been used", lines))
        }
        OrderError::Short(short, shortages) => basket.purchase().ok().map(|purchase| {
            let shortage = ShortPage { programme, own_holds, purchase: &purchase, short: *short, shortages };
            shortage.notice(basket)
        }),
        _ => None,
    }
}

fn type_name<'a>(programme: &'a Programme, code: &'a str) -> &'a str {
    programme.ticket_type(code).map_or(code, |ticket_type| ticket_type.name.as_str())
}

/// What a shortage looks like to its buyer.
struct ShortPage<'a> {
    programme: &'a Programme,
    own_holds: &'a [Order],
    purchase: &'a Purchase,
    short: Short,
    shortages: &'a [Shortage],
}

impl ShortPage<'_> {
    fn notice(&self, basket: &Basket) -> Notice {
        let rest = self.rest();
        let rest_total: i64 = rest.iter().map(|(_, quantity)| quantity).sum();
        let mut lines: Vec<String> =
            if self.is_one_line() { vec![self.asked()] } else { self.shortages.iter().map(|short| self.line(short)).collect() };
        lines.push("Nothing has been bought.".to_owned());
        let offer = match (rest_total, self.short) {
            (0, Short::AllHeld) if self.shortages.iter().any(|shortage| self.others_hold(shortage)) => {
                Some(Offer { button: "Try again".to_owned(), action: self.action(), fields: basket.fields() })
            }
            (0, _) => None,
            _ => Some(self.offer(basket, &rest)),
        };
        let title = match (rest_total, self.shortages, self.short) {
            (1.., ..) | (_, [_], _) => self.title(),
            (.., Short::AllHeld) => "None of these are free at this moment".to_owned(),
            _ => "None of these are left".to_owned(),
        };
        Notice { offer, ..Notice::new(title, lines) }
    }

    /// Whether one ticket type was asked for.
    fn is_one_line(&self) -> bool {
        self.purchase.lines.len() == 1
    }

    /// How many of the type the buyer holds already.
    fn own(&self, shortage: &Shortage) -> i64 {
        quantity_of(self.own_holds, &shortage.ticket_type)
    }

    /// Whether anybody but the buyer holds some of the type.
    fn others_hold(&self, shortage: &Shortage) -> bool {
        shortage.held > self.own(shortage)
    }

    fn shows_counts(&self) -> bool {
        self.programme.event.show_counts
    }

    /// The name of a type, where the event has more than one.
    fn of_type(&self, code: &str) -> String {
        let name = self.programme.ticket_type(code).map_or(code, |ticket_type| ticket_type.name.as_str());
        if self.programme.ticket_types.len() == 1 { String::new() } else { format!(" {name}") }
    }

    fn title(&self) -> String {
        let [shortage] = self.shortages else { return "Fewer are left than you asked for".to_owned() };
        let of_type = self.of_type(&shortage.ticket_type);
        match shortage {
            Shortage { available: 0, .. } => match (self.own(shortage), self.others_hold(shortage)) {
                (0, false) => format!("{} sold out", if of_type.is_empty() { "Just" } else { of_type.trim() }),
                (0, true) => format!("All{of_type} tickets are in other buyers' baskets"),
                (_, false) => format!("You hold the last{of_type} tickets"),
                (_, true) => format!("All other{of_type} tickets are in other buyers' baskets"),
            },
            Shortage { requested, .. } if !self.shows_counts() => format!("Fewer than {}{of_type} are left", number(*requested)),
            Shortage { available, .. } => format!("Only {}{of_type} left", number(*available)),
        }
    }

    fn asked(&self) -> String {
        let requested = self.purchase.lines.iter().map(|(_, quantity)| quantity).sum();
        match self.short {
            Short::SoldOut => "The last ones went before your order came in.".to_owned(),
            Short::AllHeld if !self.shortages.iter().any(|shortage| self.others_hold(shortage)) => {
                "Go on with your order: what you do not buy in time goes back on sale.".to_owned()
            }
            Short::AllHeld => "What they do not buy comes back on sale: try again in a moment.".to_owned(),
            Short::TooFewLeft => format!("You asked for {}.", tickets(requested)),
        }
    }

    fn line(&self, shortage: &Shortage) -> String {
        let name = self.programme.ticket_type(&shortage.ticket_type).map_or(shortage.ticket_type.as_str(), |ticket_type| &ticket_type.name);
        let requested = number(shortage.requested);
        match shortage {
            Shortage { available: 0, .. } => match (self.own(shortage), self.others_hold(shortage)) {
                (0, false) => format!("{name}: sold out; you asked for {requested}."),
                (0, true) => format!("{name}: all in other buyers' baskets; you asked for {requested}."),
                (_, false) => format!("{name}: you hold the last ones; you asked for {requested} more."),
                (_, true) => format!("{name}: all others in other buyers' baskets; you asked for {requested} more."),
            },
            _ if !self.shows_counts() => format!("{name}: fewer than {requested} left."),
            Shortage { available, .. } => format!("{name}: {} left; you asked for {requested}.", number(*available)),
        }
    }

    /// What could be had of each line, in the order of the request.
    fn rest(&self) -> Vec<(String, i64)> {
        let available = |code: &str, wanted: i64| {
            let shortage = self.shortages.iter().find(|shortage| shortage.ticket_type == code);
            shortage.map_or(wanted, |shortage| shortage.available.min(wanted))
        };
        self.purchase.lines.iter().map(|(code, wanted)| (code.clone(), available(code, *wanted))).collect()
    }

    fn action(&self) -> String {
        format!("/events/{}/orders", self.programme.event.slug)
    }

    /// The button that takes the rest: by its count where that is told and is one number, and "whatever there is" otherwise.
    fn offer(&self, basket: &Basket, rest: &[(String, i64)]) -> Offer {
        let mut taken = basket.clone();
        taken.form_key = new_secret();
        if self.shows_counts() {
            taken.quantities = rest.iter().map(|(code, quantity)| (code.clone(), quantity.to_string())).collect();
        }
        taken.accept_fewer = !(self.shows_counts() && self.is_one_line());
        Offer { button: self.button(rest), action: self.action(), fields: taken.fields() }
    }

    fn button(&self, rest: &[(String, i64)]) -> String {
        if !self.shows_counts() {
            return "Take what is left".to_owned();
        }
        if let [(_, quantity)] = rest {
            return if *quantity == 1 {
                "Take the one that is left".to_owned()
            } else {
                format!("Take the {} that are left", number(*quantity))
            };
        }
        let part = |(code, quantity): &(String, i64)| format!("{}{}", number(*quantity), self.of_type(code));
        let parts: Vec<String> = rest.iter().filter(|(_, quantity)| *quantity > 0).map(part).collect();
        format!("Take {}", enumerated(&parts))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn enumerated(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        events::{Event, EventInput, NewEvent, TicketType},
        ids::{EventId, OrderId, TicketTypeId},
        money::Currency,
        orders::{Caller, OrderLine, OrderStatus},
    };

    fn programme(types: &[&str], show_counts: bool) -> Programme {
        let input =
            EventInput { slug: Some("gala".into()), name: Some("Gala".into()), currency: Some("EUR".into()), ..EventInput::default() };
        let event = Event::new(EventId::new(), chrono::DateTime::UNIX_EPOCH, NewEvent { show_counts, ..input.parse().unwrap() });
        let ticket_type = |code: &&str| TicketType {
            id: TicketTypeId::new(),
            code: (*code).into(),
            name: code.to_uppercase(),
            price_minor: 100,
            sales_open_at: None,
            sales_close_at: None,
        };
        Programme { event, ticket_types: types.iter().map(ticket_type).collect() }
    }

    /// What is said to a buyer of `wanted` where so many are (available, held).
    fn said(programme: &Programme, wanted: &[(&str, i64)], left: &[(i64, i64)]) -> Notice {
        said_to_holder(programme, &[], wanted, left)
    }

    /// The same to one who has these holds.
    fn said_to_holder(programme: &Programme, own: &[Order], wanted: &[(&str, i64)], left: &[(i64, i64)]) -> Notice {
        let mut basket = Basket { name: "Ada".into(), email: "ada@example.org".into(), form_key: "key".into(), ..Basket::default() };
        basket.quantities = wanted.iter().map(|(code, quantity)| ((*code).to_owned(), quantity.to_string())).collect();
        let shortage = |((code, requested), (available, held)): (&(&str, i64), &(i64, i64))| Shortage {
            ticket_type: (*code).to_owned(),
            requested: *requested,
            available: *available,
            held: *held,
        };
        let short: Vec<Shortage> = wanted.iter().zip(left).map(shortage).filter(|short| short.available < short.requested).collect();
        let kind = match short.iter().map(|short| short.available).min() {
            Some(0) if short.iter().all(|short| short.available > 0 || short.held > 0) => Short::AllHeld,
            Some(0) => Short::SoldOut,
            _ => Short::TooFewLeft,
        };
        notice(programme, own, &mut basket, &OrderError::Short(kind, short)).unwrap()
    }

    /// An order that holds so many of a type.
    fn hold(code: &str, quantity: i64) -> Order {
        let line = OrderLine { ticket_type: code.to_owned(), name: code.to_uppercase(), quantity, unit_price_minor: 100 };
        Order {
            id: OrderId::new(),
            status: OrderStatus::Held,
            buyer_name: "Ada".into(),
            buyer_email: "ada@example.org".into(),
            lines: vec![line],
            positions: Vec::new(),
            quantity: 1,
            requested_quantity: 1,
            total_minor: 100,
            currency: Currency::parse("EUR").unwrap(),
            caller: Caller::Web,
            access_key: "key".into(),
            cancelled_quantity: 0,
            expires_at: None,
            created_at: chrono::DateTime::UNIX_EPOCH,
        }
    }

    fn field<'a>(offer: &'a Offer, name: &str) -> Option<&'a str> {
        offer.fields.iter().find(|(sent, _)| sent == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn seven_left_are_offered_as_seven_under_a_new_key() {
        let notice = said(&programme(&["standard"], true), &[("standard", 10)], &[(7, 0)]);
        assert_eq!(notice.title, "Only 7 left");
        let offer = notice.offer.unwrap();
        assert_eq!(offer.button, "Take the 7 that are left");
        assert_eq!((field(&offer, "quantity-standard"), field(&offer, "accept_fewer")), (Some("7"), None));
        assert_ne!(field(&offer, "form_key"), Some("key"));
    }

    #[test]
    fn a_count_that_is_hidden_is_not_told() {
        let notice = said(&programme(&["standard"], false), &[("standard", 10)], &[(7, 0)]);
        let offer = notice.offer.unwrap();
        assert_eq!((notice.title.as_str(), offer.button.as_str()), ("Fewer than 10 are left", "Take what is left"));
        assert_eq!((field(&offer, "quantity-standard"), field(&offer, "accept_fewer")), (Some("10"), Some("true")));
        assert!(!notice.lines.concat().contains('7'));
    }

    #[test]
    fn of_several_types_what_is_left_of_each_is_offered() {
        let wanted = [("standard", 4), ("vip", 2), ("student", 1)];
        let notice = said(&programme(&["standard", "vip", "student"], true), &wanted, &[(3, 0), (0, 0), (9, 0)]);
        assert_eq!(notice.lines, ["STANDARD: 3 left; you asked for 4.", "VIP: sold out; you asked for 2.", "Nothing has been bought."]);
        let offer = notice.offer.unwrap();
        assert_eq!(offer.button, "Take 3 STANDARD and 1 STUDENT");
        assert_eq!((field(&offer, "quantity-vip"), field(&offer, "accept_fewer")), (Some("0"), Some("true")));
    }

    #[test]
    fn sold_out_offers_nothing_and_baskets_of_others_offer_another_try() {
        let gone = said(&programme(&["standard"], true), &[("standard", 1)], &[(0, 0)]);
        assert_eq!((gone.title.as_str(), gone.offer.is_none()), ("Just sold out", true));
        let held = said(&programme(&["standard"], true), &[("standard", 1)], &[(0, 3)]);
        assert_eq!(held.title, "All tickets are in other buyers' baskets");
        let again = held.offer.unwrap();
        assert_eq!((again.button.as_str(), field(&again, "form_key")), ("Try again", Some("key")));
    }

    #[test]
    fn who_holds_the_last_ones_is_led_to_them_and_not_told_that_they_are_sold_out() {
        let own = [hold("standard", 2)];
        let last = said_to_holder(&programme(&["standard"], true), &own, &[("standard", 1)], &[(0, 2)]);
        assert_eq!((last.title.as_str(), last.offer.is_none()), ("You hold the last tickets", true));
        assert!(last.lines[0].starts_with("Go on with your order"), "{:?}", last.lines);
        let some = said_to_holder(&programme(&["standard"], true), &own, &[("standard", 1)], &[(0, 3)]);
        assert_eq!((some.title.as_str(), some.offer.is_some()), ("All other tickets are in other buyers' baskets", true));
        let both = said_to_holder(&programme(&["standard", "vip"], true), &own, &[("standard", 1), ("vip", 1)], &[(0, 2), (0, 1)]);
        assert_eq!(both.title, "None of these are free at this moment");
        assert_eq!(both.lines[0], "STANDARD: you hold the last ones; you asked for 1 more.");
    }
}
