//! The keys that were shown lately, so that a sale does not pay a round trip to the database for learning who buys.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{AccountError, Partner, partner_by_digest};
use crate::{db::Db, ids::digest};

/// How long a key is remembered. A key that is withdrawn works for as long at most.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Most keys that are remembered; past it all are forgotten, and looked up again.
const KEYS_MAX: usize = 10_000;

/// Partners by the digest of their key, with when each was looked up. Cheap to clone. Unknown keys are not remembered, so that a key
/// works from the moment it is made.
#[derive(Clone, Default)]
pub struct KeyRing(Arc<Mutex<Known>>);

type Known = HashMap<Vec<u8>, (Partner, Instant)>;

impl KeyRing {
    /// The partner that a key belongs to, if it is one.
    ///
    /// # Errors
    /// The database's.
    pub async fn partner(&self, db: &Db, key: &str) -> Result<Option<Partner>, AccountError> {
        let digest = digest(key.as_bytes());
        if let Some(partner) = self.remembered(&digest) {
            return Ok(Some(partner));
        }
        let wanted = digest.clone();
        let partner = db.run(move |conn| partner_by_digest(conn, &wanted)).await?;
        if let Some(partner) = &partner {
            self.remember(digest, partner.clone());
        }
        Ok(partner)
    }

    fn remembered(&self, digest: &[u8]) -> Option<Partner> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(digest).filter(|(_, since)| since.elapsed() < REMEMBERED).map(|(partner, _)| partner.clone())
    }

    fn remember(&self, digest: Vec<u8>, partner: Partner) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        known.insert(digest, (partner, Instant::now()));
    }
}
