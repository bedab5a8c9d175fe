//! What a request handler is given. Built once, for the server and for tests alike.

use crate::{accounts::KeyRing, clock::Clock, config::WebConfig, db::Db, ids::new_secret, orders::Desk};

/// The service, without a listener.
#[derive(Clone)]
pub struct App {
    /// What handlers need to know of the configuration.
    pub config: WebConfig,
    /// The database.
    pub db: Db,
    /// The time.
    pub clock: Clock,
    /// Where every purchase goes, from pages and API alike.
    pub desk: Desk,
    /// The partners' keys that were shown lately.
    pub keys: KeyRing,
    /// The one-time secret that lets the first admin in; of no use once there is one.
    pub setup_token: String,
}

impl App {
    /// Builds the service and opens its desks.
    #[must_use]
    pub fn new(config: WebConfig, db: Db, clock: Clock) -> Self {
        let desk = Desk::open(&db, &clock, config.sale_limits);
        Self { config, db, clock, desk, keys: KeyRing::default(), setup_token: new_secret() }
    }
}
