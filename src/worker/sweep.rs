//! The sweeper: puts the tickets of holds back on sale that are over. Sales that need them do so themselves; this only keeps the tables tidy
//! and the histories timely.

use std::collections::HashSet;

use crate::{
    app::App,
    db::DbError,
    ids::OrderId,
    orders::{self, Swept},
};

/// Most corrupt holds that are remembered as told. A database with more is told of again and again, as it should be.
const TOLD_MAX: usize = 10_000;

/// Sweeps, and remembers what it has complained of.
#[derive(Debug, Default)]
pub struct Sweeper {
    told: HashSet<OrderId>,
}

impl Sweeper {
    /// Ends all holds that are over, page by page. A hold that does not have its tickets is left as it is, and logged once.
    pub fn sweep(&mut self, app: &App) {
        if !app.db.is_prepared() {
            return;
        }
        match app.db.run_here(|conn| orders::expire_everywhere(conn, app.clock.now())) {
            Ok(swept) => swept.iter().for_each(|(event, swept)| {
                app.desk.note_returned(*event, &swept.returned);
                self.tell(swept);
            }),
            // The database's absence is told by `db`, and the next sweep makes up for this one.
            Err(DbError::Unavailable(_) | DbError::CommitUnknown(_) | DbError::Busy(_)) => {}
            Err(error) => tracing::error!(%error, "holds that are over could not be ended"),
        }
    }

    fn tell(&mut self, swept: &Swept) {
        if swept.expired > 0 {
            tracing::debug!(holds = swept.expired, tickets = swept.returned.len(), "holds ended");
        }
        if self.told.len() > TOLD_MAX {
            self.told.clear();
        }
        for order in &swept.corrupt {
            if self.told.insert(*order) {
                tracing::error!(%order, "a hold that is over does not have its tickets, and is left as it is: see `boxoffice audit`");
            }
        }
    }
}
