//! From a typed error to an answer: problem+json (RFC 9457) for the API, HTML for pages. The one place where that is decided, and
//! where causes are logged, once.

use actix_web::{
    Error, HttpMessage, HttpResponse, ResponseError,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
};
use serde_json::{Map, Value, json};
use tracing::Span;
use tracing_actix_web::{RequestId, RootSpanBuilder};

use super::pages;
use crate::{
    accounts::AccountError,
    clock::timestamp,
    db::DbError,
    events::EventError,
    input::FieldErrors,
    inventory::InventoryError,
    orders::{OrderError, Short, Shortage},
    webhooks::WebhookError,
};

/// When to come back after "busy", in seconds.
const RETRY_SOON_SECS: u32 = 1;
/// When to come back after "the database is away", in seconds.
const RETRY_LATER_SECS: u32 = 2;
/// When to look for returned holds, in seconds.
const RETRY_HELD_SECS: u32 = 30;

/// What went wrong, as it is told to the outside.
#[derive(Clone, Debug)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable code, for programs.
    pub code: &'static str,
    /// What happened and what to do, for people.
    pub detail: String,
    /// What was wrong with the input, by field.
    pub errors: Vec<Value>,
    /// Further members, by code.
    pub members: Map<String, Value>,
    /// When to try again, in seconds.
    pub retry_after_secs: Option<u32>,
    /// What happened inside: for the log, never for the outside.
    cause: Option<String>,
}

impl Problem {
    /// A problem of that status and code.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), members: Map::new(), retry_after_secs: None, cause: None }
    }

    /// 401: who is it?
    #[must_use]
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// 403: not with that key, or not from that form.
    #[must_use]
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 422: these fields are wrong.
    #[must_use]
    pub fn invalid(errors: &FieldErrors) -> Self {
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", format!("The request was not carried out: {errors}."));
        problem.errors = errors.as_slice().iter().map(|error| json!(error)).collect();
        problem
    }

    fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The member, if there is a value for it.
    fn maybe(self, name: &str, value: Option<String>) -> Self {
        match value {
            Some(value) => self.member(name, value),
            None => self,
        }
    }

    fn retry_after(mut self, secs: u32) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    fn because(mut self, cause: impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// A problem for an error that is not ours: a URL that does not exist, a path that does not parse.
    fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("not_found", "There is nothing at this address."),
            StatusCode::METHOD_NOT_ALLOWED => ("method_not_allowed", "This address does not take that method."),
            StatusCode::PAYLOAD_TOO_LARGE => ("payload_too_large", "The body is too large."),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ("unsupported_media_type", "The body is not of a type that is taken here."),
            status if status.is_client_error() => ("invalid_request", "The request could not be read."),
            _ => ("internal", "Something went wrong on our side. Nothing was lost; please try again."),
        };
        Self::new(status, code, detail)
    }

    /// The body of the answer, `application/problem+json`.
    fn to_json(&self, request_id: &str) -> Value {
        let mut body = self.members.clone();
        body.insert("type".to_owned(), json!("about:blank"));
        body.insert("title".to_owned(), json!(self.status.canonical_reason().unwrap_or("Error")));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("code".to_owned(), json!(self.code));
        body.insert("detail".to_owned(), json!(self.detail));
        if !self.errors.is_empty() {
            body.insert("errors".to_owned(), json!(self.errors));
        }
        body.insert("request_id".to_owned(), json!(request_id));
        Value::Object(body)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.code, self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    /// An empty answer; the middleware of the API or of the pages fills it, since only they know the request.
    fn error_response(&self) -> HttpResponse<BoxBody> {
        HttpResponse::new(self.status)
    }
}

impl From<DbError> for Problem {
    fn from(error: DbError) -> Self {
        let unavailable = |detail: &str| Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        match &error {
            DbError::Unavailable(_) => unavailable("The service is not available for the moment. Nothing was changed; please try again.")
                .retry_after(RETRY_LATER_SECS)
                .because(&error),
            DbError::CommitUnknown(_) => {
                unavailable("It is not known whether this was carried out. Retry with the same Idempotency-Key, and it is done once.")
                    .retry_after(RETRY_LATER_SECS)
                    .because(&error)
            }
            DbError::Busy(_) | DbError::Conflict(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "Too much is going on at this moment. Nothing was changed; please try again.",
            )
            .retry_after(RETRY_SOON_SECS)
            .because(&error),
            DbError::Constraint { .. } | DbError::SwallowedError | DbError::Other(_) | DbError::Panicked(_) => {
                Self::of_status(StatusCode::INTERNAL_SERVER_ERROR).because(&error)
            }
        }
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        match error {
            EventError::NotFound(slug) => Self::not_found(format!("There is no event {slug:?}.")),
            EventError::TypeNotFound(code) => Self::not_found(format!("The event has no ticket type {code:?}.")),
            EventError::Invalid(errors) => Self::invalid(&errors),
            EventError::Db(error) => error.into(),
        }
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound => Self::not_found("There is no such webhook."),
            WebhookError::DeliveryNotFound => Self::not_found("There is no such delivery."),
            WebhookError::TooMany => Self::new(StatusCode::CONFLICT, "too_many", "A partner has at most 20 webhooks: delete one first."),
            WebhookError::Disabled => {
                Self::new(StatusCode::CONFLICT, "webhook_disabled", "The webhook is disabled and is sent nothing: enable it first.")
            }
            WebhookError::Db(error) => error.into(),
        }
    }
}

impl From<InventoryError> for Problem {
    fn from(error: InventoryError) -> Self {
        match error {
            InventoryError::Event(error) => error.into(),
            InventoryError::Rows(rows) => {
                let detail = match rows.total {
                    1 => "Nothing was loaded: one row is wrong.".to_owned(),
                    total => format!("Nothing was loaded: {total} rows are wrong."),
                };
                let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail).member("errors_total", rows.total);
                problem.errors = rows.first.iter().map(|error| json!(error)).collect();
                problem
            }
            InventoryError::KeyReused => key_reused(),
            InventoryError::Db(error) => error.into(),
        }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Invalid(errors) => Self::invalid(&errors),
            AccountError::WrongLogin => Self::unauthorized("The e-mail address or the password is wrong."),
            AccountError::AlreadySetUp => Self::forbidden("There is an admin already: log in instead."),
            AccountError::Hash(cause) => Self::of_status(StatusCode::INTERNAL_SERVER_ERROR).because(cause),
            AccountError::Db(error) => error.into(),
        }
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        let conflict = |code, detail: String| Self::new(StatusCode::CONFLICT, code, detail);
        match error {
            OrderError::EventNotFound(slug) => Self::not_found(format!("There is no event {slug:?}.")),
            OrderError::NotFound => Self::not_found("There is no such order."),
            OrderError::Invalid(errors) => Self::invalid(&errors),
            OrderError::SalesNotOpen { opens_at, paused, ticket_type } => {
                let sale = ticket_type.as_ref().map_or("The sale".to_owned(), |code| format!("The sale of {code}"));
                let opens_at = opens_at.map(timestamp);
                let detail = match (&opens_at, paused) {
                    (Some(opens_at), _) => format!("{sale} opens at {opens_at}."),
                    (None, true) => format!("{sale} is paused."),
                    (None, false) => format!("{sale} has not begun."),
                };
                conflict("sales_not_open", detail).maybe("opens_at", opens_at).maybe("ticket_type", ticket_type)
            }
            OrderError::SalesClosed { cancelled: true, .. } => conflict("sales_closed", "The event was cancelled.".to_owned()),
            OrderError::SalesClosed { cancelled: false, ticket_type } => {
                let sale = ticket_type.as_ref().map_or("The sale".to_owned(), |code| format!("The sale of {code}"));
                conflict("sales_closed", format!("{sale} is over.")).maybe("ticket_type", ticket_type)
            }
            OrderError::LimitExceeded { limit, requested } => {
                conflict("limit_exceeded", format!("An order may have at most {limit} tickets; {requested} were asked for."))
                    .member("limit", limit)
                    .member("requested", requested)
            }
            OrderError::BuyerLimitExceeded { limit, has, requested } => {
                let detail =
                    format!("A buyer may have at most {limit} tickets of this event, and has {has}; {requested} more were asked for.");
                conflict("limit_exceeded", detail).member("limit", limit).member("has", has).member("requested", requested)
            }
            OrderError::HoldExpired => {
                Self::new(StatusCode::GONE, "hold_expired", "The hold ran out, and too few tickets are left: nothing was bought.")
            }
            OrderError::Cancelled => conflict("order_cancelled", "The order was cancelled: make a new one.".to_owned()),
            OrderError::EventCancelled => conflict("event_cancelled", "The event is cancelled: nobody is let in.".to_owned()),
            OrderError::EventBegun => conflict("event_begun", "The event has begun: its tickets are not taken back.".to_owned()),
            OrderError::CancelNotAllowed { .. } => conflict(
                "cancel_not_allowed",
                "The organiser does not take this event's tickets back from buyers, or no longer.".to_owned(),
            ),
            OrderError::TicketUsed { position, at } => {
                let at = timestamp(at);
                conflict("ticket_used", format!("The ticket was used at {at}.")).member("position", position).member("used_at", at)
            }
            OrderError::TicketNotFound => Self::not_found("No ticket that is sold for this event has that code."),
            OrderError::Short(short, shortages) => shortage(short, &shortages),
            OrderError::KeyReused => key_reused(),
            OrderError::KeyInProgress => conflict(
                "idempotency_in_progress",
                "A request with this Idempotency-Key is under way: try again for its answer.".to_owned(),
            )
            .retry_after(RETRY_SOON_SECS),
            OrderError::Db(error) => error.into(),
        }
    }
}

fn key_reused() -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "idempotency_key_reused",
        "This Idempotency-Key was used for another request: take a new key for each new request.",
    )
}

fn shortage(short: Short, shortages: &[Shortage]) -> Problem {
    let conflict = |code, detail: String| Problem::new(StatusCode::CONFLICT, code, detail);
    let scarcest = shortages.iter().min_by_key(|shortage| shortage.available);
    let (name, requested, available, held) =
        scarcest.map(|shortage| (shortage.ticket_type.as_str(), shortage.requested, shortage.available, shortage.held)).unwrap_or_default();
    let problem = match short {
        Short::SoldOut => conflict("sold_out", format!("{name} is sold out.")),
        Short::TooFewLeft => conflict("too_few_left", format!("Only {available} of {name} are left; {requested} were asked for.")),
        Short::AllHeld => conflict("all_held", format!("All tickets left of {name} are held by other buyers, and may come back."))
            .member("held", held)
            .retry_after(RETRY_HELD_SECS),
    };
    problem.member("ticket_type", name).member("requested", requested).member("available", available).member("shortages", json!(shortages))
}

/// Gives each request a span, for those who debug: at the usual level there is none, since making one costs a tenth of what serving
/// a sale does, and few requests have anything to tell. What goes wrong says itself which request it was, see `log`.
///
/// The path goes into it and not the query, which in a buyer's link is a secret; causes are left to `log`.
pub struct RequestSpan;

impl RootSpanBuilder for RequestSpan {
    fn on_request_start(request: &ServiceRequest) -> Span {
        let request_id = request.extensions().get::<RequestId>().map(ToString::to_string).unwrap_or_default();
        tracing::debug_span!("request", request_id, method = request.method().as_str(), path = request.path())
    }

    fn on_request_end<B: MessageBody>(_: Span, _: &Result<ServiceResponse<B>, Error>) {}
}

/// The request at hand, for the log.
struct AtHand {
    id: String,
    method: Method,
    path: String,
}

tokio::task_local! {
    static AT_HAND: AtHand;
}

/// The id of a request, in every line of its log and in every answer.
fn request_id() -> String {
    AT_HAND.try_with(|request| request.id.clone()).unwrap_or_default()
}

/// Middleware around everything: the request's id goes into the answer, and into the log of what went wrong with it.
///
/// # Errors
/// Those of the handler.
pub async fn with_request_id(request: ServiceRequest, next: Next<impl MessageBody>) -> Result<ServiceResponse<impl MessageBody>, Error> {
    const NAME: HeaderName = HeaderName::from_static("x-request-id");
    let id = request.extensions().get::<RequestId>().map(ToString::to_string).unwrap_or_default();
    let header = HeaderValue::from_str(&id);
    let at_hand = AtHand { id, method: request.method().clone(), path: request.path().to_owned() };
    let mut response = AT_HAND.scope(at_hand, next.call(request)).await?;
    if let Ok(id) = header {
        response.headers_mut().insert(NAME, id);
    }
    Ok(response)
}

/// Middleware of the API: every error is problem+json.
///
/// # Errors
/// None that leave it; the signature is the framework's.
pub async fn problems_as_json(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    render(next.call(request).await?, |problem, id| {
        HttpResponse::build(problem.status).content_type("application/problem+json").body(problem.to_json(id).to_string())
    })
}

/// Middleware of the pages: every error is a page.
///
/// # Errors
/// None that leave it; the signature is the framework's.
pub async fn problems_as_pages(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    render(next.call(request).await?, pages::problem)
}

/// Replaces an error answer that has no body of its own yet, and logs its cause.
fn render(
    response: ServiceResponse<BoxBody>,
    show: impl FnOnce(&Problem, &str) -> HttpResponse<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(problem) = problem_of(&response) else { return Ok(response) };
    log(&problem);
    let mut answer = show(&problem, &request_id());
    // The handler's own headers stay: Allow, WWW-Authenticate.
    for (name, value) in response.headers() {
        if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
            answer.headers_mut().insert(name.clone(), value.clone());
        }
    }
    if let Some(secs) = problem.retry_after_secs {
        answer.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Ok(response.into_response(answer))
}

/// What went wrong, if something did and the handler did not render it itself.
fn problem_of(response: &ServiceResponse<BoxBody>) -> Option<Problem> {
    let status = response.status();
    if let Some(error) = response.response().error() {
        let ours = error.as_error::<Problem>().cloned();
        return Some(ours.unwrap_or_else(|| Problem::of_status(status).because(error)));
    }
    let has_page = response.headers().contains_key(header::CONTENT_TYPE);
    (status.is_client_error() || status.is_server_error()).then_some(()).filter(|()| !has_page).map(|()| Problem::of_status(status))
}

/// Logs a problem of the request at hand: for the middleware, and for a page that shows one in its own way.
pub(super) fn log(problem: &Problem) {
    let (code, cause) = (problem.code, problem.cause.as_deref().unwrap_or(""));
    // Outside a request there is nobody to tell apart.
    let _ = AT_HAND.try_with(|AtHand { id: request_id, method, path }| match problem.status.as_u16() {
        // The database's absence is said once by `db`; here it is one line a request that was turned away.
        503 => tracing::info!(request_id, %method, path, code, cause, "turned away"),
        500.. => tracing::error!(request_id, %method, path, code, cause, "failed"),
        _ => tracing::debug!(request_id, %method, path, code, cause, detail = problem.detail, "refused"),
    });
}
