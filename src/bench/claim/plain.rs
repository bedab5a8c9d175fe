//! The five ways that need no more than a table: one purchase a transaction, as `psql` could run it.
//!
//! Each statement is prepared, and as short as it can be while right. A way that can do with one statement has one, so that none pays for
//! round trips that it does not need. None stores an order that did not get both tickets.

use diesel::{
    PgConnection, QueryResult, QueryableByName, RunQueryDsl,
    connection::SimpleConnection,
    pg::Pg,
    query_builder::AstPass,
    sql_query,
    sql_types::{Array, BigInt, Integer, Untyped},
};

use super::{
    ClaimError, TICKETS_PER_PURCHASE, Way,
    clients::{self, Attempt, Buyer, Run, Sale},
};
use crate::db::{DbCause, DbError, Prepared, Statement, transaction};

const DROP: &str = "DROP TABLE IF EXISTS plain_tickets, plain_orders, plain_counter";

const CREATE: &str = "\
     CREATE TABLE plain_orders (id uuid PRIMARY KEY, event_id int, buyer text, quantity int, created_at timestamptz DEFAULT now()); \
     CREATE TABLE plain_tickets (event_id int NOT NULL, position int NOT NULL, status text NOT NULL DEFAULT 'AVAILABLE', \
       order_id uuid, sold_at timestamptz, PRIMARY KEY (event_id, position)); \
     CREATE TABLE plain_counter (event_id int PRIMARY KEY, sold int NOT NULL, total int NOT NULL)";

const INDEX: &str = "CREATE INDEX plain_available ON plain_tickets (event_id, position) WHERE status = 'AVAILABLE'";

/// Replaces the tables by new ones with `tickets` tickets, as if nothing had been sold before.
pub(super) fn refill(conn: &mut PgConnection, tickets: u32) -> Result<(), ClaimError> {
    conn.batch_execute(DROP)?;
    conn.batch_execute(CREATE)?;
    conn.batch_execute(&format!(
        "INSERT INTO plain_tickets (event_id, position) SELECT 1, place FROM generate_series(1, {tickets}) AS place"
    ))?;
    conn.batch_execute(&format!("INSERT INTO plain_counter VALUES (1, 0, {tickets})"))?;
    conn.batch_execute(INDEX)?;
    conn.batch_execute("VACUUM ANALYZE plain_tickets, plain_orders, plain_counter")?;
    Ok(())
}

/// The statement of one purchase, with what its claim does about locks.
macro_rules! purchase {
    ($locks:literal) => {
        concat!(
            "WITH picked AS MATERIALIZED (SELECT event_id, position FROM plain_tickets WHERE event_id = 1 AND status = 'AVAILABLE' \
               ORDER BY event_id, position LIMIT 2",
            $locks,
            "), bought AS (INSERT INTO plain_orders (id, event_id, buyer, quantity) \
               SELECT gen_random_uuid(), 1, 'ada@example.org', 2 FROM picked HAVING count(*) = 2 RETURNING id) \
             UPDATE plain_tickets AS ticket SET status = 'SOLD', sold_at = now(), order_id = bought.id FROM picked, bought \
             WHERE ticket.event_id = picked.event_id AND ticket.position = picked.position RETURNING ticket.position"
        )
    };
}

/// A statement without values.
macro_rules! statement {
    ($(#[$doc:meta])* $name:ident, $sql:expr) => {
        $(#[$doc])*
        struct $name;

        impl Statement for $name {
            const SQL: &'static str = $sql;
            type Row = Untyped;

            fn bind<'b>(&'b self, _place: u32, _out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                Ok(())
            }
        }
    };
}

statement!(
    /// The weakest lock that keeps other sellers out; readers go on. Taken in a statement of its own, so that the next one sees what the
    /// holder before has sold.
    LockTable,
    "LOCK TABLE plain_tickets IN EXCLUSIVE MODE"
);
statement!(
    /// Under the table's lock.
    Unlocked,
    purchase!("")
);
statement!(
    /// Waits for each row that somebody has locked. One that was sold meanwhile fails the condition when it is checked again.
    Blocking,
    purchase!(" FOR UPDATE")
);
statement!(
    /// That of `seed_claim.sql`, which the product was measured against from the beginning, but for storing no order without tickets.
    Skipping,
    purchase!(" FOR UPDATE SKIP LOCKED")
);
statement!(
    /// Two rows by one subquery, where the textbook has one: the array is made once, and the UPDATE checks the status of each row again
    /// after it has waited for whoever had it. `seen` tells a lost race from the end of the stock.
    Repeating,
    "WITH wanted AS MATERIALIZED (SELECT gen_random_uuid() AS id, ARRAY(SELECT position FROM plain_tickets \
         WHERE event_id = 1 AND status = 'AVAILABLE' ORDER BY event_id, position LIMIT 2) AS positions), \
       taken AS (UPDATE plain_tickets SET status = 'SOLD', sold_at = now(), order_id = (SELECT id FROM wanted) \
         WHERE event_id = 1 AND position = ANY ((SELECT positions FROM wanted)::int[]) AND status = 'AVAILABLE' RETURNING position), \
       bought AS (INSERT INTO plain_orders (id, event_id, buyer, quantity) \
         SELECT id, 1, 'ada@example.org', 2 FROM wanted WHERE (SELECT count(*) FROM taken) = 2) \
     SELECT cardinality(positions) AS seen, ARRAY(SELECT position FROM taken) AS positions FROM wanted"
);
statement!(
    /// The counter says which positions are next; whoever wants some waits for the commit of whoever counted before.
    Counting,
    "WITH counted AS (UPDATE plain_counter SET sold = sold + 2 WHERE event_id = 1 AND sold + 2 <= total RETURNING sold), \
       bought AS (INSERT INTO plain_orders (id, event_id, buyer, quantity) \
         SELECT gen_random_uuid(), 1, 'ada@example.org', 2 FROM counted RETURNING id) \
     UPDATE plain_tickets AS ticket SET status = 'SOLD', sold_at = now(), order_id = bought.id FROM counted, bought \
     WHERE ticket.event_id = 1 AND ticket.position IN (counted.sold - 1, counted.sold) AND ticket.status = 'AVAILABLE' \
     RETURNING ticket.position"
);

/// Whether there is enough for one more purchase; asked only after an attempt that got nothing.
const LEFT: &str = "SELECT count(*) AS count FROM \
     (SELECT 1 FROM plain_tickets WHERE event_id = 1 AND status = 'AVAILABLE' ORDER BY event_id, position LIMIT 2) AS shelf";

#[derive(QueryableByName)]
struct PositionRow {
    #[diesel(sql_type = Integer)]
    position: i32,
}

#[derive(QueryableByName)]
struct RaceRow {
    #[diesel(sql_type = Integer)]
    seen: i32,
    #[diesel(sql_type = Array<Integer>)]
    positions: Vec<i32>,
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// A client with a connection of its own.
struct PlainBuyer {
    way: Way,
    conn: PgConnection,
}

/// Sells with one of the plain ways.
pub(super) fn sell(run: &Run<'_>) -> Result<Sale, ClaimError> {
    let buyer = |_| Ok(PlainBuyer { way: run.way, conn: run.db.dedicated_in_time()? });
    let buyers = (0..run.clients).map(buyer).collect::<Result<Vec<_>, DbError>>()?;
    clients::on_threads(buyers, run)
}

impl Buyer for PlainBuyer {
    async fn attempt(&mut self) -> Result<Attempt, ClaimError> {
        match self.attempt_here() {
            Ok(attempt) => Ok(attempt),
            // The transaction was undone: the buyer tries again.
            Err(Refusal::Db(DbError::Conflict(_) | DbError::Busy(_)) | Refusal::LostRace) => Ok(Attempt::Missed),
            Err(Refusal::TooFewLeft) => Ok(Attempt::SoldOut),
            Err(Refusal::Db(error)) => Err(error.into()),
        }
    }
}

impl PlainBuyer {
    fn attempt_here(&mut self) -> Result<Attempt, Refusal> {
        let conn = &mut self.conn;
        match self.way {
            Way::LockTable => {
                let sold = transaction(conn, |conn| {
                    Prepared(LockTable).execute(conn)?;
                    positions(conn, Unlocked)
                })?;
                sold_or_missed(conn, sold)
            }
            Way::RepeatedCondition => transaction(conn, race),
            Way::ForUpdate => {
                let sold = positions(conn, Blocking)?;
                sold_or_missed(conn, sold)
            }
            Way::CounterRow => {
                let sold = positions(conn, Counting)?;
                sold_or_missed(conn, sold)
            }
            Way::SkipLocked | Way::Desk => {
                let sold = positions(conn, Skipping)?;
                sold_or_missed(conn, sold)
            }
        }
    }
}

fn positions(conn: &mut PgConnection, statement: impl Statement<Row = Untyped>) -> Result<Vec<i32>, Refusal> {
    let rows: Vec<PositionRow> = Prepared(statement).load(conn)?;
    Ok(rows.into_iter().map(|row| row.position).collect())
}

/// Nothing was sold: because others had locked what is left, or because nothing is left?
fn sold_or_missed(conn: &mut PgConnection, sold: Vec<i32>) -> Result<Attempt, Refusal> {
    if !sold.is_empty() {
        return Ok(Attempt::Sold(sold));
    }
    let left: CountRow = sql_query(LEFT).get_result(conn)?;
    Ok(if left.count < i64::from(TICKETS_PER_PURCHASE) { Attempt::SoldOut } else { Attempt::Missed })
}

/// Half a purchase is none: whatever was taken is given back.
fn race(conn: &mut PgConnection) -> Result<Attempt, Refusal> {
    let row: RaceRow = Prepared(Repeating).get_result(conn)?;
    let wanted = usize::try_from(TICKETS_PER_PURCHASE).unwrap_or(usize::MAX);
    match usize::try_from(row.seen) {
        Ok(_) if row.positions.len() == wanted => Ok(Attempt::Sold(row.positions)),
        Ok(seen) if seen == wanted => Err(Refusal::LostRace),
        _ => Err(Refusal::TooFewLeft),
    }
}

/// Why an attempt was undone.
enum Refusal {
    LostRace,
    TooFewLeft,
    Db(DbError),
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

impl From<diesel::result::Error> for Refusal {
    fn from(error: diesel::result::Error) -> Self {
        Self::Db(error.into())
    }
}

impl DbCause for Refusal {
    /// None: a deadlock is an attempt to be counted, and not to be tried again in silence.
    fn db_cause(&self) -> Option<&DbError> {
        None
    }
}
