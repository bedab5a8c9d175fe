//! What the API takes and gives, field for field. These types are the contract; the inner ones may change behind them.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    clock::timestamp,
    events::{EventInput, Programme, TicketType, TicketTypeInput},
    input::FieldErrors,
    inventory::Left,
    orders::{
        Changed, LineInput, PurchaseInput,
        shown::{OrderJson, TicketJson},
    },
    web::body::Object,
    webhooks::{Delivery, Endpoint, EndpointInput, rules::secret_text},
};

/// A JSON integer. `"2"`, `2.0` and `true` are not, and are refused in words for people.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Whole;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a whole number")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
                i64::try_from(value).map(Whole).map_err(|_| E::custom("must be a whole number of at most 18 digits"))
            }
            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Whole, E> {
                Err(E::custom("must be a whole number, written without a point"))
            }
            fn visit_str<E: de::Error>(self, _: &str) -> Result<Whole, E> {
                Err(E::custom("must be a whole number, written without quotes"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Body of `POST …/orders` and `POST …/holds`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OrderBody {
    buyer: Option<Object<BuyerBody>>,
    items: Option<Vec<Object<ItemBody>>>,
    accept_fewer: Option<bool>,
    /// Of a hold only. Left out of what is hashed where it is absent, as it was before there were holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<Whole>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct BuyerBody {
    name: Option<String>,
    email: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ItemBody {
    ticket_type: Option<String>,
    quantity: Option<Whole>,
}

impl OrderBody {
    /// For how many seconds a hold is asked for.
    pub(super) fn ttl_seconds(&self) -> Option<i64> {
        self.ttl_seconds.map(|seconds| seconds.0)
    }

    /// The same without the JSON, for the rules to check.
    pub(super) fn into_input(self) -> PurchaseInput {
        let Object(buyer) = self.buyer.unwrap_or_default();
        let line = |Object(item): Object<ItemBody>| LineInput {
            ticket_type: item.ticket_type,
            quantity: item.quantity.map(|quantity| quantity.0),
        };
        PurchaseInput {
            buyer_name: buyer.name,
            buyer_email: buyer.email,
            lines: self.items.unwrap_or_default().into_iter().map(line).collect(),
            accept_fewer: self.accept_fewer.unwrap_or(false),
        }
    }
}

/// Body of `POST …/orders/{id}/cancel`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    /// The tickets to give back; all of them, if absent.
    pub(super) positions: Option<Vec<i32>>,
}

/// A body that has nothing to say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoBody {}

/// A ticket that has just been used.
#[derive(Debug, Serialize)]
pub(super) struct UsedTicketJson {
    event: String,
    order: String,
    #[serde(flatten)]
    ticket: TicketJson,
}

impl UsedTicketJson {
    /// The ticket at `position` of an order.
    pub(super) fn of(changed: Changed, position: i32, now: DateTime<Utc>) -> Self {
        let Changed { programme, placed, .. } = changed;
        let order = OrderJson::of(&programme.event.slug, placed, now);
        let ticket = order.tickets.into_iter().find(|ticket| ticket.position == position);
        Self { event: order.event, order: order.id, ticket: ticket.unwrap_or_default() }
    }
}

/// A page of orders.
#[derive(Debug, Serialize)]
pub(super) struct OrdersJson {
    pub(super) orders: Vec<OrderJson>,
    pub(super) next_cursor: Option<String>,
}

/// Body of `POST /events`, and of `PATCH /events/{slug}`. A field that is absent is left as it is; one that is null is cleared.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventBody {
    #[serde(default, deserialize_with = "given")]
    slug: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    venue: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    starts_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    time_zone: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    currency: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    sales_open_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    sales_close_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    state: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    max_per_order: Option<Option<Whole>>,
    #[serde(default, deserialize_with = "given")]
    max_per_buyer: Option<Option<Whole>>,
    #[serde(default, deserialize_with = "given")]
    checkout: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    buyers_cancel_until: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    show_counts: Option<Option<bool>>,
}

/// Tells a field that is null from one that is absent.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

impl EventBody {
    /// Fields that an event cannot be without are not cleared: a client that sends null for what it does not know would put a cancelled
    /// event on sale again.
    pub(super) fn refuse_nulls(&self) -> Result<(), FieldErrors> {
        let nulls = [
            ("slug", matches!(self.slug, Some(None))),
            ("name", matches!(self.name, Some(None))),
            ("time_zone", matches!(self.time_zone, Some(None))),
            ("currency", matches!(self.currency, Some(None))),
            ("state", matches!(self.state, Some(None))),
            ("max_per_order", matches!(self.max_per_order, Some(None))),
            ("checkout", matches!(self.checkout, Some(None))),
            ("show_counts", matches!(self.show_counts, Some(None))),
        ];
        refuse_nulls(&nulls)
    }

    /// Puts what was given into `input`.
    pub(super) fn apply(&self, input: &mut EventInput) {
        put(&mut input.slug, &self.slug);
        put(&mut input.name, &self.name);
        put(&mut input.venue, &self.venue);
        put(&mut input.starts_at, &self.starts_at);
        put(&mut input.time_zone, &self.time_zone);
        put(&mut input.currency, &self.currency);
        put(&mut input.sales_open_at, &self.sales_open_at);
        put(&mut input.sales_close_at, &self.sales_close_at);
        put(&mut input.state, &self.state);
        put(&mut input.max_per_order, &self.max_per_order.map(|limit| limit.map(|limit| limit.0)));
        put(&mut input.max_per_buyer, &self.max_per_buyer.map(|limit| limit.map(|limit| limit.0)));
        put(&mut input.checkout, &self.checkout);
        put(&mut input.buyers_cancel_until, &self.buyers_cancel_until);
        put(&mut input.show_counts, &self.show_counts);
    }
}

/// Refuses the fields that are null and must not be.
fn refuse_nulls(nulls: &[(&str, bool)]) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::new();
    for (field, _) in nulls.iter().filter(|(_, is_null)| *is_null) {
        errors.add(*field, "cannot be null: leave it out to keep what it is");
    }
    errors.into_result()
}

/// Puts what was given into a field; null empties it.
fn put<T: Clone>(field: &mut Option<T>, given: &Option<Option<T>>) {
    if let Some(value) = given {
        field.clone_from(value);
    }
}

/// Body of `POST …/ticket-types`, and of `PATCH …/ticket-types/{code}`. A field that is absent is left as it is; one that is null is cleared.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TicketTypeBody {
    #[serde(default, deserialize_with = "given")]
    code: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    price_minor: Option<Option<Whole>>,
    #[serde(default, deserialize_with = "given")]
    sales_open_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    sales_close_at: Option<Option<String>>,
}

impl TicketTypeBody {
    /// Fields that a ticket type cannot be without are not cleared.
    pub(super) fn refuse_nulls(&self) -> Result<(), FieldErrors> {
        refuse_nulls(&[
            ("code", matches!(self.code, Some(None))),
            ("name", matches!(self.name, Some(None))),
            ("price_minor", matches!(self.price_minor, Some(None))),
        ])
    }

    /// Puts what was given into `input`.
    pub(super) fn apply(&self, input: &mut TicketTypeInput) {
        put(&mut input.code, &self.code);
        put(&mut input.name, &self.name);
        put(&mut input.price_minor, &self.price_minor.map(|price| price.map(|price| price.0)));
        put(&mut input.sales_open_at, &self.sales_open_at);
        put(&mut input.sales_close_at, &self.sales_close_at);
    }
}

/// Body of `POST …/inventory`, as JSON.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InventoryBody {
    pub(super) ticket_type: Option<String>,
    quantity: Option<Whole>,
}

impl InventoryBody {
    pub(super) fn quantity(&self) -> Option<i64> {
        self.quantity.map(|quantity| quantity.0)
    }
}

/// An event.
#[derive(Debug, Serialize)]
pub(super) struct EventJson {
    slug: String,
    name: String,
    venue: Option<String>,
    starts_at: Option<String>,
    time_zone: &'static str,
    currency: &'static str,
    sales_open_at: Option<String>,
    sales_close_at: Option<String>,
    state: &'static str,
    max_per_order: i32,
    max_per_buyer: Option<i32>,
    checkout: &'static str,
    buyers_cancel_until: Option<String>,
    show_counts: bool,
    ticket_types: Vec<TicketTypeJson>,
    created_at: String,
}

/// A ticket type.
#[derive(Debug, Serialize)]
pub(super) struct TicketTypeJson {
    code: String,
    name: String,
    price_minor: i64,
    sales_open_at: Option<String>,
    sales_close_at: Option<String>,
}

impl From<TicketType> for TicketTypeJson {
    fn from(ticket_type: TicketType) -> Self {
        Self {
            code: ticket_type.code,
            name: ticket_type.name,
            price_minor: ticket_type.price_minor,
            sales_open_at: ticket_type.sales_open_at.map(timestamp),
            sales_close_at: ticket_type.sales_close_at.map(timestamp),
        }
    }
}

impl From<Programme> for EventJson {
    fn from(programme: Programme) -> Self {
        let Programme { event, ticket_types } = programme;
        Self {
            slug: event.slug,
            name: event.name,
            venue: event.venue,
            starts_at: event.starts_at.map(timestamp),
            time_zone: event.time_zone.name(),
            currency: event.currency.code(),
            sales_open_at: event.sales_open_at.map(timestamp),
            sales_close_at: event.sales_close_at.map(timestamp),
            state: event.state.name(),
            max_per_order: event.max_per_order,
            max_per_buyer: event.max_per_buyer,
            checkout: event.checkout.name(),
            buyers_cancel_until: event.buyers_cancel_until.map(timestamp),
            show_counts: event.show_counts,
            ticket_types: ticket_types.into_iter().map(TicketTypeJson::from).collect(),
            created_at: timestamp(event.created_at),
        }
    }
}

/// All events.
#[derive(Debug, Serialize)]
pub(super) struct EventsJson {
    pub(super) events: Vec<EventJson>,
}

/// What is left.
#[derive(Debug, Serialize)]
pub(super) struct AvailabilityJson {
    event: String,
    available: i64,
    held: i64,
    ticket_types: Vec<TypeAvailabilityJson>,
}

#[derive(Debug, Serialize)]
struct TypeAvailabilityJson {
    ticket_type: String,
    available: i64,
    held: i64,
}

impl AvailabilityJson {
    /// The availability of `programme`, given what is left of each type.
    pub(super) fn of(programme: &Programme, left: impl Fn(&TicketType) -> Left) -> Self {
        let of_type = |ticket_type: &TicketType| {
            let Left { available, held } = left(ticket_type);
            TypeAvailabilityJson { ticket_type: ticket_type.code.clone(), available, held }
        };
        let ticket_types: Vec<TypeAvailabilityJson> = programme.ticket_types.iter().map(of_type).collect();
        Self {
            event: programme.event.slug.clone(),
            available: ticket_types.iter().map(|of_type| of_type.available).sum(),
            held: ticket_types.iter().map(|of_type| of_type.held).sum(),
            ticket_types,
        }
    }
}

/// Body of `POST /webhooks`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndpointBody {
    url: Option<String>,
    events: Option<Vec<String>>,
    all_orders: Option<bool>,
}

impl EndpointBody {
    /// The same without the JSON, for the rules to check.
    pub(super) fn into_input(self) -> EndpointInput {
        EndpointInput { url: self.url, kinds: self.events, all_orders: self.all_orders.unwrap_or(false) }
    }
}

/// A webhook's endpoint.
#[derive(Debug, Serialize)]
pub(super) struct EndpointJson {
    id: String,
    url: String,
    events: Vec<&'static str>,
    all_orders: bool,
    /// Told once, when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    failing_since: Option<String>,
    disabled_at: Option<String>,
    disabled_reason: Option<String>,
    created_at: String,
}

impl EndpointJson {
    /// The endpoint as it is shown at any time.
    pub(super) fn of(endpoint: Endpoint) -> Self {
        let (disabled_at, disabled_reason) = endpoint.disabled.unzip();
        Self {
            id: endpoint.id.to_string(),
            url: endpoint.url,
            events: endpoint.kinds.into_iter().map(crate::webhooks::EventKind::name).collect(),
            all_orders: endpoint.all_orders,
            secret: None,
            failing_since: endpoint.failing_since.map(timestamp),
            disabled_at: disabled_at.map(timestamp),
            disabled_reason,
            created_at: timestamp(endpoint.created_at),
        }
    }

    /// The same with its secret, for whoever has just made it.
    pub(super) fn with_secret(endpoint: Endpoint) -> Self {
        let secret = secret_text(&endpoint.secret);
        Self { secret: Some(secret), ..Self::of(endpoint) }
    }
}

/// All endpoints of a partner.
#[derive(Debug, Serialize)]
pub(super) struct EndpointsJson {
    pub(super) webhooks: Vec<EndpointJson>,
}

/// A message that was tried to be delivered.
#[derive(Debug, Serialize)]
pub(super) struct DeliveryJson {
    id: String,
    event: String,
    state: &'static str,
    attempts: i32,
    response_status: Option<i32>,
    response: Option<String>,
    error: Option<String>,
    body: String,
    created_at: String,
    attempted_at: String,
}

impl From<Delivery> for DeliveryJson {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            event: delivery.kind,
            state: delivery.state.name(),
            attempts: delivery.attempts,
            response_status: delivery.response_status,
            response: delivery.response,
            error: delivery.error,
            body: delivery.body,
            created_at: timestamp(delivery.created_at),
            attempted_at: timestamp(delivery.attempted_at),
        }
    }
}

/// A page of deliveries.
#[derive(Debug, Serialize)]
pub(super) struct DeliveriesJson {
    pub(super) deliveries: Vec<DeliveryJson>,
    pub(super) next_cursor: Option<String>,
}
