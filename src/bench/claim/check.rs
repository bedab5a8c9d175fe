//! What a run left in the database, compared with what its buyers were told.

use diesel::{PgConnection, QueryableByName, RunQueryDsl, sql_query, sql_types::BigInt};

use super::{ClaimError, TICKETS_PER_PURCHASE, clients::Sale};
use crate::orders;

/// What the database holds.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// Orders.
    pub(super) orders: i64,
    /// Tickets that are sold.
    pub(super) sold: i64,
    /// Tickets that are on sale.
    pub(super) left: i64,
    /// Orders that have not exactly their number of tickets.
    pub(super) not_full: i64,
    /// Tickets that are sold to an order that is not there.
    pub(super) astray: i64,
    /// What the product's audit found.
    pub(super) audited: Vec<String>,
}

/// What is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) sold_twice: u64,
    pub(super) breaches: Vec<String>,
}

#[derive(QueryableByName)]
struct StoredRow {
    #[diesel(sql_type = BigInt)]
    orders: i64,
    #[diesel(sql_type = BigInt)]
    sold: i64,
    #[diesel(sql_type = BigInt)]
    remaining: i64,
    #[diesel(sql_type = BigInt)]
    not_full: i64,
    #[diesel(sql_type = BigInt)]
    astray: i64,
}

/// A ticket names its order, so of two orders that were given the same ticket the database shows one that has too few.
macro_rules! stored {
    ($tickets:literal, $orders:literal) => {
        concat!(
            "SELECT (SELECT count(*) FROM ",
            $orders,
            ") AS orders, \
               count(*) FILTER (WHERE status = 'SOLD') AS sold, count(*) FILTER (WHERE status = 'AVAILABLE') AS remaining, \
               (SELECT count(*) FROM ",
            $orders,
            " AS o \
                LEFT JOIN (SELECT order_id, count(*) AS tickets FROM ",
            $tickets,
            " WHERE status = 'SOLD' GROUP BY order_id) AS t \
                ON t.order_id = o.id WHERE coalesce(t.tickets, 0) <> o.quantity OR o.quantity <> 2) AS not_full, \
               (SELECT count(*) FROM ",
            $tickets,
            " AS t LEFT JOIN ",
            $orders,
            " AS o ON o.id = t.order_id \
                WHERE t.status = 'SOLD' AND o.id IS NULL) AS astray \
             FROM ",
            $tickets
        )
    };
}

/// Looks at the tables of the plain ways.
pub(super) fn plain(conn: &mut PgConnection) -> Result<Stored, ClaimError> {
    stored(conn, stored!("plain_tickets", "plain_orders"))
}

/// Looks at the product's tables, and has them audited.
pub(super) fn real(conn: &mut PgConnection) -> Result<Stored, ClaimError> {
    let stored = stored(conn, stored!("tickets", "orders"))?;
    let report = orders::audit(conn)?;
    let audited = report.breaches.into_iter().map(|breach| format!("{}: {}", breach.check, breach.row)).collect();
    Ok(Stored { audited, ..stored })
}

fn stored(conn: &mut PgConnection, sql: &str) -> Result<Stored, ClaimError> {
    let row: StoredRow = sql_query(sql).get_result(conn)?;
    Ok(Stored { orders: row.orders, sold: row.sold, left: row.remaining, not_full: row.not_full, astray: row.astray, audited: Vec::new() })
}

/// Compares what was told with what is stored.
pub(super) fn verdict(sale: &Sale, stored: &Stored, tickets: u32) -> Verdict {
    let told = twice(&sale.positions);
    let overwritten = stored.orders.saturating_mul(TICKETS_PER_PURCHASE.into()).saturating_sub(stored.sold);
    let sold_twice = told.max(u64::try_from(overwritten).unwrap_or(0));
    let purchases = i64::try_from(sale.before + sale.latencies.len()).unwrap_or(i64::MAX);
    let mut breaches = stored.audited.clone();
    let mut expect = |is_so: bool, what: String| {
        if !is_so {
            breaches.push(what);
        }
    };
    expect(stored.not_full == 0, format!("{} orders have not exactly {TICKETS_PER_PURCHASE} tickets", stored.not_full));
    expect(stored.astray == 0, format!("{} tickets are sold to an order that is not there", stored.astray));
    expect(stored.orders == purchases, format!("{purchases} purchases were answered, and {} orders are stored", stored.orders));
    expect(
        stored.sold + stored.left == i64::from(tickets),
        format!("{} tickets are sold and {} on sale, of {tickets}", stored.sold, stored.left),
    );
    Verdict { sold_twice, breaches }
}

/// How often somebody was told of a ticket that somebody else had been told of.
fn twice(positions: &[i32]) -> u64 {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let all = sorted.len();
    sorted.dedup();
    u64::try_from(all - sorted.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sale(positions: &[i32]) -> Sale {
        Sale { latencies: vec![Duration::ZERO; positions.len() / 2], positions: positions.to_vec(), ..Sale::default() }
    }

    #[test]
    fn all_is_well() {
        let stored = Stored { orders: 2, sold: 4, left: 6, ..Stored::default() };
        assert_eq!(verdict(&sale(&[1, 2, 3, 4]), &stored, 10), Verdict::default());
    }

    #[test]
    fn a_ticket_that_two_were_told_of_is_sold_twice() {
        let stored = Stored { orders: 2, sold: 3, left: 7, not_full: 1, ..Stored::default() };
        let verdict = verdict(&sale(&[1, 2, 2, 3]), &stored, 10);
        assert_eq!(verdict.sold_twice, 1);
        assert_eq!(verdict.breaches, ["1 orders have not exactly 2 tickets"]);
    }

    #[test]
    fn an_order_that_nobody_was_told_of_is_named() {
        let stored = Stored { orders: 3, sold: 6, left: 4, ..Stored::default() };
        let verdict = verdict(&sale(&[1, 2, 3, 4]), &stored, 10);
        assert_eq!(verdict.breaches, ["2 purchases were answered, and 3 orders are stored"]);
    }
}
