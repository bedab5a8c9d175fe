//! Buying: the form of an event's page, sent.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{Data, Path, Payload},
};
use askama::Template;

use super::{
    Keep,
    basket::Basket,
    events,
    form::Form,
    order::order_path,
    own_holds, page,
    refusal::{self, Offer},
    see_other,
};
use crate::{
    app::App,
    events::rules::parse_slug,
    orders::{OrderError, OrderStatus, Placed},
    web::error::{Problem, log},
};

/// `POST /events/{slug}/orders`: buys, and shows the order; or the form again, with what was in the way.
pub(in crate::web) async fn create(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let basket = Basket::of(&Form::read(&app, &request, payload).await?);
    match buy(&app, &slug, &basket).await {
        Ok(placed) => {
            let mut response = see_other(&order_path(&slug, &placed.order));
            if placed.order.status_at(app.clock.now()) == OrderStatus::Held {
                own_holds::remember(&app, &request, &mut response, &slug, &placed.order);
            }
            Ok(response)
        }
        Err(refusal) => refuse(&app, &request, &slug, basket, refusal).await,
    }
}

/// `GET /events/{slug}/orders`: where the browser's address bar stands when a form came back. A refresh leads to the event.
pub(in crate::web) async fn to_event(slug: Path<String>) -> Result<HttpResponse, Problem> {
    let slug = parse_slug(&slug).ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    Ok(see_other(&format!("/events/{slug}")))
}

async fn buy(app: &App, slug: &str, basket: &Basket) -> Result<Placed, OrderError> {
    let hold = app.config.holds.ttl(None).map_err(OrderError::Invalid)?;
    let request = basket.request(hold).map_err(OrderError::Invalid)?;
    app.desk.sell(slug.to_owned(), request).await
}

/// The page that says why there is no order, and what to do.
async fn refuse(app: &App, request: &HttpRequest, slug: &str, mut basket: Basket, error: OrderError) -> Result<HttpResponse, Problem> {
    if matches!(error, OrderError::Db(_) | OrderError::KeyInProgress) {
        return try_again(slug, &basket, error.into());
    }
    let stall = match events::stall(app, request, slug).await {
        Err(problem) => return try_again(slug, &basket, problem),
        Ok(stall) => stall,
    };
    let notice = refusal::notice(&stall.programme, &stall.own_holds, &mut basket, &error);
    let problem = Problem::from(error);
    log(&problem);
    // The sale's state is said in place of the form.
    let is_of_event = !problem.members.contains_key("ticket_type");
    let notice = notice.filter(|_| !(is_of_event && matches!(problem.code, "sales_not_open" | "sales_closed")));
    let response = events::render(problem.status, &stall, app.clock.now(), basket, notice)?;
    Ok(with_retry_after(response, &problem))
}

fn with_retry_after(mut response: HttpResponse, problem: &Problem) -> HttpResponse {
    if let Some(secs) = problem.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    response
}

#[derive(Template)]
#[template(path = "retry.html")]
struct RetryPage<'a> {
    slug: &'a str,
    title: &'static str,
    text: &'static str,
    offer: Offer,
}

/// The page that sends the same form again, under the same key; it needs no database. Any other failure is passed on.
fn try_again(slug: &str, basket: &Basket, problem: Problem) -> Result<HttpResponse, Problem> {
    let action = format!("/events/{slug}/orders");
    let (title, text) = match problem.code {
        "idempotency_in_progress" => ("Your order is on its way", "It was sent twice, and the first is still being worked on."),
        "busy" => ("Very busy just now", "Many people are buying at this moment, and your turn did not come in time."),
        "unavailable" => ("The box office is away for a moment", "It may or may not have received your order."),
        _ => return Err(problem),
    };
    log(&problem);
    let offer = Offer { button: "Try again".to_owned(), action, fields: basket.fields() };
    let response = page(problem.status, Keep::Nothing, &RetryPage { slug, title, text, offer })?;
    Ok(with_retry_after(response, &problem))
}
