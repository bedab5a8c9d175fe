//! Kind `order_changes`: what follows for each order of a batch is made into jobs of its own.

use chrono::TimeDelta;

use super::{
    confirmation,
    handler::{Handler, Trouble},
};
use crate::{
    app::App,
    orders::jobs::{ORDER_CHANGES, OrderChanges},
    queue::{Claimed, NewJob, Retry},
};

/// Makes the follow-ups of changes of orders.
pub(super) struct FollowUp;

impl Handler for FollowUp {
    fn kind(&self) -> &'static str {
        ORDER_CHANGES
    }

    fn retry(&self) -> Retry {
        // It needs nothing but the database, so it is never given up for long.
        Retry { attempts_max: 1_000, first_pause: TimeDelta::seconds(1), pause_max: TimeDelta::minutes(5) }
    }

    fn work(&self, app: &App, job: &Claimed) -> Result<Vec<NewJob>, Trouble> {
        let OrderChanges { changes } = serde_json::from_value(job.payload.clone()).map_err(|error| Trouble::payload(&error))?;
        let orders = changes.iter().map(|change| change.order).collect::<Vec<_>>();
        let bought = app.db.run_here(|conn| crate::orders::bought(conn, job.event, &orders))?;
        Ok(bought.into_iter().map(|order| confirmation::job(job.event, order)).collect())
    }
}
