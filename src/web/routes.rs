//! Every URL, on one page.

use actix_web::{
    Route, guard,
    middleware::from_fn,
    web::{self, ServiceConfig, post, resource, scope},
};

use super::{api, error, health, pages};

/// Registers every URL.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(
            scope("/api/v1")
                .wrap(from_fn(error::problems_as_json))
                // URLs are compared in this order, and sales are what comes by the thousand.
                .service(resource("/events/{slug}/orders").route(read().to(api::orders::list)).route(post().to(api::orders::create)))
                .service(resource("/events").route(read().to(api::events::list)).route(post().to(api::events::create)))
                .service(resource("/events/{slug}").route(read().to(api::events::show)).route(web::patch().to(api::events::update)))
                .service(resource("/events/{slug}/availability").route(read().to(api::events::availability)))
                .service(resource("/events/{slug}/ticket-types").route(post().to(api::events::add_ticket_type)))
                .service(resource("/events/{slug}/ticket-types/{code}").route(web::patch().to(api::events::update_ticket_type)))
                .service(resource("/events/{slug}/inventory").route(post().to(api::inventory::load)))
                .service(resource("/events/{slug}/holds").route(post().to(api::orders::hold)))
                .service(resource("/events/{slug}/orders/{id}").route(read().to(api::orders::show)))
                .service(resource("/events/{slug}/orders/{id}/confirm").route(post().to(api::orders::confirm)))
                .service(resource("/events/{slug}/orders/{id}/cancel").route(post().to(api::orders::cancel)))
                .service(resource("/events/{slug}/tickets/{code}/use").route(post().to(api::orders::use_ticket)))
                .service(resource("/webhooks").route(read().to(api::webhooks::list)).route(post().to(api::webhooks::create)))
                .service(resource("/webhooks/{id}").route(web::delete().to(api::webhooks::delete)))
                .service(resource("/webhooks/{id}/enable").route(post().to(api::webhooks::enable)))
                .service(resource("/webhooks/{id}/deliveries").route(read().to(api::webhooks::deliveries)))
                .service(resource("/webhooks/{id}/deliveries/{delivery}/replay").route(post().to(api::webhooks::replay)))
                .default_service(web::to(api::not_found)),
        )
        .service(
            scope("")
                .wrap(from_fn(error::problems_as_pages))
                .service(resource("/livez").route(read().to(health::live)))
                .service(resource("/readyz").route(read().to(health::ready)))
                .service(resource("/static/{name}").route(read().to(pages::assets::show)))
                .service(resource("/").route(read().to(pages::events::list)))
                .service(resource("/events/{slug}").route(read().to(pages::events::show)))
                .service(
                    resource("/events/{slug}/orders").route(read().to(pages::orders::to_event)).route(post().to(pages::orders::create)),
                )
                .service(resource("/events/{slug}/orders/{id}").route(read().to(pages::order::show)))
                .service(
                    resource("/events/{slug}/orders/{id}/confirm")
                        .route(read().to(pages::order::to_order))
                        .route(post().to(pages::order::confirm)),
                )
                .service(
                    resource("/events/{slug}/orders/{id}/cancel")
                        .route(read().to(pages::order::to_order))
                        .route(post().to(pages::order::cancel)),
                )
                .service(resource("/admin").route(read().to(pages::admin::home)))
                .service(resource("/admin/setup").route(read().to(pages::login::setup_form)).route(post().to(pages::login::set_up)))
                .service(resource("/admin/login").route(read().to(pages::login::form)).route(post().to(pages::login::log_in)))
                .service(resource("/admin/logout").route(read().to(pages::admin::to_home)).route(post().to(pages::login::log_out)))
                .service(resource("/admin/events/new").route(read().to(pages::admin::new_event)))
                .service(resource("/admin/events").route(read().to(pages::admin::to_home)).route(post().to(pages::admin::create_event)))
                .service(resource("/admin/events/{slug}").route(read().to(pages::admin::event)))
                .service(
                    resource("/admin/events/{slug}/edit")
                        .route(read().to(pages::admin::edit_event))
                        .route(post().to(pages::admin::update_event)),
                )
                .service(
                    resource("/admin/events/{slug}/ticket-types")
                        .route(read().to(pages::admin::to_event))
                        .route(post().to(pages::admin::add_ticket_type)),
                )
                .service(
                    resource("/admin/events/{slug}/ticket-types/{code}")
                        .route(read().to(pages::admin::edit_ticket_type))
                        .route(post().to(pages::admin::update_ticket_type)),
                )
                .service(resource("/admin/events/{slug}/orders/{id}").route(read().to(pages::admin_order::show)))
                .service(
                    resource("/admin/events/{slug}/orders/{id}/cancel")
                        .route(read().to(pages::admin_order::to_order))
                        .route(post().to(pages::admin_order::cancel)),
                )
                .service(
                    resource("/admin/events/{slug}/inventory")
                        .route(read().to(pages::admin::to_event))
                        .route(post().to(pages::inventory::load)),
                )
                .service(resource("/admin/jobs").route(read().to(pages::jobs::show)))
                .service(
                    resource("/admin/jobs/lanes/{lane}").route(read().to(pages::jobs::to_jobs)).route(post().to(pages::jobs::set_paused)),
                )
                .service(
                    resource("/admin/jobs/lanes/{lane}/retry")
                        .route(read().to(pages::jobs::to_jobs))
                        .route(post().to(pages::jobs::retry_all)),
                )
                .service(
                    resource("/admin/jobs/{event}/{id}/retry").route(read().to(pages::jobs::to_jobs)).route(post().to(pages::jobs::retry)),
                )
                .default_service(web::to(pages::not_found)),
        );
}

/// GET, and HEAD, which asks for the same without the body.
fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}
