//! What a buyer filled in: read from the form, made into a purchase, and shown again beside what is wrong with it.

use chrono::TimeDelta;

use super::{
    form::{Form, sentence},
    refusal::FieldLink,
};
use crate::{
    events::Programme,
    ids::{digest, new_secret},
    input::FieldErrors,
    orders::{Caller, IdempotencyKey, LineInput, Purchase, PurchaseInput, Request, Taking, rules},
};

/// What the name of a quantity's field begins with; the ticket type's code follows.
const QUANTITY: &str = "quantity-";
/// The same for the field that is typed into, where the quantity is "more".
const MORE: &str = "more-";

/// What a buyer filled in.
#[derive(Clone, Default)]
pub(super) struct Basket {
    pub(super) name: String,
    pub(super) email: String,
    /// Code of the ticket type and quantity, as typed; nothing in them means that the form is fresh.
    pub(super) quantities: Vec<(String, String)>,
    pub(super) accept_fewer: bool,
    pub(super) form_key: String,
    pub(super) errors: FieldErrors,
}

impl Basket {
    /// An empty one, with a key of its own.
    pub(super) fn new() -> Self {
        Self { form_key: new_secret(), ..Self::default() }
    }

    pub(super) fn of(form: &Form) -> Self {
        let quantity = |(name, value): (&str, &str)| {
            let code = name.strip_prefix(QUANTITY)?;
            let value = if value == "more" { form.text(&format!("{MORE}{code}")) } else { value.trim() };
            Some((code.to_owned(), value.to_owned()))
        };
        Self {
            name: form.text("name").to_owned(),
            email: form.text("email").to_owned(),
            quantities: form.pairs().filter_map(quantity).collect(),
            accept_fewer: form.ticked("accept_fewer"),
            form_key: form.text("form_key").to_owned(),
            errors: FieldErrors::new(),
        }
    }

    /// Whether the form has not been sent yet.
    fn is_fresh(&self) -> bool {
        self.quantities.is_empty()
    }

    /// How many of a type are chosen, as typed.
    pub(super) fn chosen(&self, code: &str, preset: &str) -> String {
        if self.is_fresh() {
            return preset.to_owned();
        }
        let typed = self.quantities.iter().find(|(sent, _)| sent == code).map(|(_, quantity)| quantity.as_str());
        typed.filter(|quantity| !quantity.is_empty()).unwrap_or("0").to_owned()
    }

    /// What is wrong with the quantity of a type; empty if nothing is.
    pub(super) fn error(&self, code: &str) -> String {
        self.field_error(&format!("{QUANTITY}{code}"))
    }

    pub(super) fn name_error(&self) -> String {
        self.field_error("name")
    }

    pub(super) fn email_error(&self) -> String {
        self.field_error("email")
    }

    fn field_error(&self, id: &str) -> String {
        self.errors.of(id).unwrap_or_default().to_owned()
    }

    /// The types of which any are wanted; what is no number is wanted, and refused later.
    fn lines(&self) -> Vec<(&str, &str)> {
        let lines = self.quantities.iter().map(|(code, quantity)| (code.as_str(), quantity.as_str()));
        lines.filter(|(_, quantity)| !quantity.is_empty() && quantity.parse() != Ok(0_i64)).collect()
    }

    pub(super) fn purchase(&self) -> Result<Purchase, FieldErrors> {
        let line = |(code, quantity): (&str, &str)| LineInput { ticket_type: Some(code.to_owned()), quantity: quantity.parse().ok() };
        let input = PurchaseInput {
            buyer_name: Some(self.name.clone()),
            buyer_email: Some(self.email.clone()),
            lines: self.lines().into_iter().map(line).collect(),
            accept_fewer: self.accept_fewer,
        };
        input.parse()
    }

    /// The purchase under the form's key; kept for `hold`, where the event's page does that.
    pub(super) fn request(&self, hold: TimeDelta) -> Result<Request, FieldErrors> {
        let purchase = self.purchase()?;
        let key = rules::parse_key(&self.form_key)
            .ok_or_else(|| FieldErrors::one("form_key", "was missing, so that two presses would have been two orders; send it again"))?;
        // The hash is of what was understood, so that a space at the end of a name makes no other order.
        let understood = (&purchase.buyer_name, purchase.buyer_email.as_str(), &purchase.lines, purchase.accept_fewer);
        let request_hash = digest(&serde_json::to_vec(&understood).unwrap_or_default());
        let key = Some(IdempotencyKey { key, request_hash });
        Ok(Request { purchase, caller: Caller::Web, key, taking: Taking::AsPage(hold) })
    }

    /// The fields that send it once more.
    pub(super) fn fields(&self) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> =
            self.quantities.iter().map(|(code, quantity)| (format!("{QUANTITY}{code}"), quantity.clone())).collect();
        fields.push(("name".to_owned(), self.name.clone()));
        fields.push(("email".to_owned(), self.email.clone()));
        fields.push(("form_key".to_owned(), self.form_key.clone()));
        if self.accept_fewer {
            fields.push(("accept_fewer".to_owned(), "true".to_owned()));
        }
        fields
    }

    /// Notes what is wrong by the ids of the form's fields, in sentences; what has no field stays with the notice.
    pub(super) fn note(&mut self, programme: &Programme, errors: &FieldErrors) -> Vec<FieldLink> {
        let codes: Vec<String> = self.lines().iter().map(|(code, _)| (*code).to_owned()).collect();
        let has_lines = !codes.is_empty();
        let first = programme.ticket_types.first().map_or("", |ticket_type| ticket_type.code.as_str());
        let mut links = Vec::new();
        let mut noted = FieldErrors::new();
        for error in errors.as_slice() {
            let (id, text) = match error.field.as_str() {
                "buyer.name" => ("name".to_owned(), sentence("Your name", &self.name, &error.message)),
                "buyer.email" => ("email".to_owned(), sentence("Your e-mail address", &self.email, &error.message)),
                "items" if !has_lines => (format!("{QUANTITY}{first}"), "Choose at least one ticket.".to_owned()),
                "form_key" => (String::new(), sentence("The form's key", "-", &error.message)),
                field => match item_code(field, &codes).and_then(|code| programme.ticket_type(code)) {
                    Some(ticket_type) => {
                        let label = format!("The number of {} tickets", ticket_type.name);
                        (format!("{QUANTITY}{}", ticket_type.code), sentence(&label, "-", &error.message))
                    }
                    None => (String::new(), "The form has a ticket type that this event does not have.".to_owned()),
                },
            };
            if !id.is_empty() {
                noted.add(id.clone(), text.clone());
            }
            links.push(FieldLink { id, text });
        }
        self.errors = noted;
        links
    }
}

/// The ticket type that `items[2].quantity` is about.
fn item_code<'a>(field: &str, codes: &'a [String]) -> Option<&'a str> {
    let place: usize = field.strip_prefix("items[")?.split(']').next()?.parse().ok()?;
    codes.get(place).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basket(quantities: &[(&str, &str)]) -> Basket {
        let quantities = quantities.iter().map(|(code, quantity)| ((*code).to_owned(), (*quantity).to_owned())).collect();
        Basket { name: "Ada".into(), email: "ada@example.org".into(), form_key: "key".into(), quantities, ..Basket::default() }
    }

    #[test]
    fn a_quantity_of_nothing_is_a_line_left_out() {
        let purchase = basket(&[("standard", "2"), ("vip", "0"), ("student", "")]).purchase().unwrap();
        assert_eq!(purchase.lines, [("standard".to_owned(), 2)]);
    }

    #[test]
    fn what_is_no_quantity_is_refused_and_not_left_out() {
        for wrong in ["-1", "1.5", "two", "2147483648", "0x1"] {
            let errors = basket(&[("vip", "0"), ("standard", wrong)]).purchase().unwrap_err();
            assert!(errors.of("items[0].quantity").is_some(), "{wrong:?}");
        }
        assert!(basket(&[("standard", "0")]).purchase().unwrap_err().of("items").is_some());
    }

    #[test]
    fn a_space_more_is_the_same_request_and_a_ticket_more_is_not() {
        let hash = |basket: &Basket| basket.request(TimeDelta::minutes(10)).unwrap().key.unwrap().request_hash;
        let first = basket(&[("standard", "2")]);
        let spaced = Basket { name: " Ada ".into(), ..basket(&[("standard", "2"), ("vip", "0")]) };
        assert_eq!(hash(&first), hash(&spaced));
        assert_ne!(hash(&first), hash(&basket(&[("standard", "3")])));
    }

    #[test]
    fn more_is_read_from_the_field_beside_it() {
        let form = Form::default().with("quantity-standard", "more").with("more-standard", " 12 ").with("form_key", "key");
        assert_eq!(Basket::of(&form).quantities, [("standard".to_owned(), "12".to_owned())]);
    }

    #[test]
    fn without_a_key_nothing_is_bought() {
        let keyless = Basket { form_key: String::new(), ..basket(&[("standard", "1")]) };
        assert!(keyless.request(TimeDelta::minutes(10)).unwrap_err().of("form_key").is_some());
    }
}
