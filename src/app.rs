//! What a request handler is given. Built once, for the server and for tests alike.

use crate::{clock::Clock, config::WebConfig, db::Db};

/// The service, without a listener.
#[derive(Clone)]
pub struct App {
    /// What handlers need to know of the configuration.
    pub config: WebConfig,
    /// The database.
    pub db: Db,
    /// The time.
    pub clock: Clock,
    /// The one-time secret that lets the first admin in; of no use once there is one.
    pub setup_token: String,
}
