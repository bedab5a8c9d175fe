//! Loading inventory from the event's page.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Bytes, Data, Path, Payload},
};

use super::{
    dashboard::{self, Report, Shown},
    form::{Filled, Form, Upload},
    login, see_other,
};
use crate::{
    accounts::AdminSession,
    app::App,
    events::EventError,
    ids::{digest, new_secret},
    input::FieldErrors,
    inventory::{self, InventoryError, Load, LoadReport, LoadedBy, Stock},
    orders::rules::parse_key,
    web::{
        auth,
        error::{self, Problem},
    },
};

/// Rows of up to this size come back in the page after a check, so that the file need not be chosen again.
const ROWS_KEPT_BYTES_MAX: usize = 128 * 1024;

/// Which of the page's two forms was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Count,
    File,
}

/// A load as it was typed.
struct Typed {
    kind: Kind,
    form: Form,
    stock: Stock,
    key: (String, Vec<u8>),
}

/// `POST /admin/events/{slug}/inventory`: checks or loads a count or a file, and shows what came of it on the event's page.
pub(in crate::web) async fn load(
    app: Data<App>,
    request: HttpRequest,
    slug: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let session = match login::admin(&app, &request).await? {
        Ok(session) => session,
        Err(to_login) => return Ok(to_login),
    };
    let upload = Upload::read(&app, &request, payload).await?;
    auth::check_csrf(&session, upload.form.text("csrf_token"))?;
    let slug = slug.into_inner();
    let Typed { kind, form, stock, key } = match parse(upload) {
        Ok(typed) => typed,
        Err((kind, form, errors)) => return again(&app, &session, &slug, kind, form, &Problem::invalid(&errors), errors).await,
    };
    let dry_run = form.text("action") != "load";
    let load = Load { event: slug.clone(), stock, by: LoadedBy::Admin(session.admin), key: Some(key), dry_run };
    let now = app.clock.now();
    match app.db.run_within(inventory::LOAD_TIME_MAX, move |conn| inventory::load(conn, now, &load)).await {
        Ok(report) if !dry_run => Ok(see_other(&format!("/admin/events/{}?load={}", report.event, form.text("form_key")))),
        Ok(report) => checked(&app, &session, &slug, kind, form, &report).await,
        Err(error) => refuse(&app, &session, &slug, kind, form, error).await,
    }
}

fn parse(upload: Upload) -> Result<Typed, (Kind, Form, FieldErrors)> {
    let Upload { form, file } = upload;
    let key = parse_key(form.text("form_key")).unwrap_or_else(new_secret);
    let form = form.with("form_key", key.clone());
    if form.text("kind") == "file" {
        return match rows(&form, file) {
            Ok((form, bytes)) => {
                let hash = digest(&bytes);
                Ok(Typed { kind: Kind::File, form, stock: Stock::File(bytes.to_vec()), key: (key, hash) })
            }
            Err((form, errors)) => Err((Kind::File, form, errors)),
        };
    }
    let mut errors = FieldErrors::new();
    let ticket_type = errors.check("ticket_type", form.filled("ticket_type"), "must be one of the event's ticket types");
    let quantity = errors.check("quantity", form.number("quantity"), "must be a whole number, 1 or more");
    match (ticket_type, quantity) {
        (Some(ticket_type), Some(quantity)) => {
            let hash = digest(format!("{ticket_type}\n{quantity}").as_bytes());
            Ok(Typed { kind: Kind::Count, form, stock: Stock::Count { ticket_type, quantity }, key: (key, hash) })
        }
        _ => Err((Kind::Count, form, errors)),
    }
}

/// The rows of a file, or else those that were typed; the form keeps them, if they are few enough to come back in the page.
fn rows(form: &Form, file: Option<Bytes>) -> Result<(Form, Bytes), (Form, FieldErrors)> {
    let typed = form.raw("rows");
    let bytes = match file {
        Some(bytes) => bytes,
        None if typed.trim().is_empty() => {
            return Err((form.clone(), FieldErrors::one("rows", "must be chosen as a file, or typed")));
        }
        None => Bytes::from(typed.to_owned()),
    };
    let kept = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= ROWS_KEPT_BYTES_MAX).unwrap_or_default();
    Ok((form.clone().with("rows", kept), bytes))
}

/// The page after a check that found nothing wrong.
async fn checked(
    app: &App,
    session: &AdminSession,
    slug: &str,
    kind: Kind,
    form: Form,
    report: &LoadReport,
) -> Result<HttpResponse, Problem> {
    let dashboard = dashboard::read(app, session, slug, None, None).await?;
    let can_be_sent_again = kind == Kind::Count || !form.raw("rows").is_empty();
    let form_id = match kind {
        Kind::Count => "load-count",
        Kind::File => "load-file",
    };
    let mut told = Report::of(dashboard.programme(), report, can_be_sent_again.then_some(form_id));
    if !can_be_sent_again {
        told.lines.push("To load them, choose the file again below, and press Load.".to_owned());
    }
    dashboard.render(session, StatusCode::OK, shown(kind, Filled::new(form, FieldErrors::new()), Some(told)))
}

async fn refuse(
    app: &App,
    session: &AdminSession,
    slug: &str,
    kind: Kind,
    form: Form,
    error: InventoryError,
) -> Result<HttpResponse, Problem> {
    let (report, form, problem) = match error {
        InventoryError::Event(EventError::Invalid(errors)) => {
            let problem = Problem::invalid(&errors);
            return again(app, session, slug, kind, form, &problem, errors).await;
        }
        InventoryError::Rows(rows) => (Report::of_errors(rows.clone()), form, Problem::from(InventoryError::Rows(rows))),
        InventoryError::KeyReused => {
            let line = "It was changed after it had loaded tickets. If these are to be loaded as well, press Load again.";
            (
                Report::refused("This form has been used", line),
                form.with("form_key", new_secret()),
                Problem::from(InventoryError::KeyReused),
            )
        }
        other => return Err(other.into()),
    };
    error::log(&problem);
    let dashboard = dashboard::read(app, session, slug, None, None).await?;
    dashboard.render(session, problem.status, shown(kind, Filled::new(form, FieldErrors::new()), Some(report)))
}

/// The page with the form as it was sent, and what is wrong beside its fields.
async fn again(
    app: &App,
    session: &AdminSession,
    slug: &str,
    kind: Kind,
    form: Form,
    problem: &Problem,
    errors: FieldErrors,
) -> Result<HttpResponse, Problem> {
    error::log(problem);
    let dashboard = dashboard::read(app, session, slug, None, None).await?;
    dashboard.render(session, problem.status, shown(kind, Filled::new(form, errors), None))
}

fn shown(kind: Kind, filled: Filled, report: Option<Report>) -> Shown {
    match kind {
        Kind::Count => Shown { count: filled, report, ..Shown::default() },
        Kind::File => Shown { file: filled, report, ..Shown::default() },
    }
}
