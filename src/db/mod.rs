//! The database: connections, transactions and their retries, error classes, migrations, the local PostgreSQL.
//!
//! **Lock order**, everywhere: the event, then orders by id, then tickets by (type, position). Two transactions that lock in
//! two orders deadlock; under load that costs far more than the order ever does.

mod error;
pub mod local;
pub mod migrate;
mod pool;
#[allow(missing_docs, reason = "generated from the database, whose comments it carries")]
pub(crate) mod schema;
mod statement;
mod transaction;

pub use error::{DbCause, DbError};
pub use pool::{DatabaseSettings, Db};
pub(crate) use statement::{Prepared, Statement};
pub use transaction::{savepoint, snapshot, transaction};
