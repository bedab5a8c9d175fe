//! Every URL, on one page.

use actix_web::{
    middleware::from_fn,
    web::{self, ServiceConfig, get, post, resource, scope},
};

use super::{api, error, health, pages};

/// Registers every URL.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(
            scope("/api/v1")
                .wrap(from_fn(error::problems_as_json))
                .service(resource("/events").route(get().to(api::events::list)).route(post().to(api::events::create)))
                .service(resource("/events/{slug}").route(get().to(api::events::show)).route(web::patch().to(api::events::update)))
                .service(resource("/events/{slug}/availability").route(get().to(api::events::availability)))
                .service(resource("/events/{slug}/ticket-types").route(post().to(api::events::add_ticket_type)))
                .service(resource("/events/{slug}/inventory").route(post().to(api::inventory::load)))
                .service(resource("/events/{slug}/orders").route(get().to(api::orders::list)).route(post().to(api::orders::create)))
                .service(resource("/events/{slug}/orders/{id}").route(get().to(api::orders::show)))
                .default_service(web::to(api::not_found)),
        )
        .service(
            scope("")
                .wrap(from_fn(error::problems_as_pages))
                .service(resource("/livez").route(get().to(health::live)))
                .service(resource("/readyz").route(get().to(health::ready)))
                .service(resource("/static/{name}").route(get().to(pages::assets::show)))
                .service(resource("/").route(get().to(pages::events::list)))
                .service(resource("/events/{slug}").route(get().to(pages::events::show)))
                .service(resource("/events/{slug}/orders").route(get().to(pages::orders::to_event)).route(post().to(pages::orders::create)))
                .service(resource("/events/{slug}/orders/{id}").route(get().to(pages::orders::show)))
                .service(resource("/admin").route(get().to(pages::admin::home)))
                .service(resource("/admin/setup").route(get().to(pages::login::setup_form)).route(post().to(pages::login::set_up)))
                .service(resource("/admin/login").route(get().to(pages::login::form)).route(post().to(pages::login::log_in)))
                .service(resource("/admin/logout").route(get().to(pages::admin::to_home)).route(post().to(pages::login::log_out)))
                .service(resource("/admin/events/new").route(get().to(pages::admin::new_event)))
                .service(resource("/admin/events").route(get().to(pages::admin::to_home)).route(post().to(pages::admin::create_event)))
                .service(resource("/admin/events/{slug}").route(get().to(pages::admin::event)))
                .service(
                    resource("/admin/events/{slug}/edit")
                        .route(get().to(pages::admin::edit_event))
                        .route(post().to(pages::admin::update_event)),
                )
                .service(
                    resource("/admin/events/{slug}/ticket-types")
                        .route(get().to(pages::admin::to_event))
                        .route(post().to(pages::admin::add_ticket_type)),
                )
                .service(
                    resource("/admin/events/{slug}/inventory")
                        .route(get().to(pages::admin::to_event))
                        .route(post().to(pages::inventory::load)),
                )
                .default_service(web::to(pages::not_found)),
        );
}
