//! The audit: the promises, checked over the whole database from outside the code that keeps them.
//!
//! No foreign key points at a hot row (see the migrations), and constraints can be dropped; so everything is checked here, also what a
//! constraint holds.

use diesel::{
    PgConnection, RunQueryDsl,
    connection::SimpleConnection,
    sql_query,
    sql_types::{BigInt, Text},
};

use crate::db::{DbError, snapshot};

/// Most breaches that are named for one check.
const BREACHES_TOLD_MAX: usize = 100;

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// How many tickets were looked at.
    pub tickets: i64,
    /// How many orders were looked at.
    pub orders: i64,
    /// How many checks were made.
    pub checks: usize,
    /// What was found wrong; empty if all is well.
    pub breaches: Vec<Breach>,
}

/// One row that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The promise.
    pub check: &'static str,
    /// The row, and how it breaks it.
    pub row: String,
}

/// A promise, and a query for the rows that break it.
struct Check {
    name: &'static str,
    sql: &'static str,
}

const CHECKS: [Check; 14] = [
    Check {
        name: "a ticket belongs to at most one live order",
        sql: "SELECT format('event %s ticket %s is claimed by %s live orders', event_id, position, count(*)) AS breach \
              FROM orders, unnest(positions) AS position WHERE status IN ('HELD', 'SOLD') GROUP BY event_id, position HAVING count(*) > 1",
    },
    Check {
        name: "a taken ticket has a live order of the same state that names it",
        sql: "SELECT format('event %s ticket %s is %s for order %s, which is %s', t.event_id, t.position, t.status, t.order_id, \
                CASE WHEN o.id IS NULL THEN 'missing' WHEN o.status = t.status THEN 'without this position' ELSE o.status END) AS breach \
              FROM tickets t LEFT JOIN orders o ON o.event_id = t.event_id AND o.id = t.order_id \
              WHERE t.status IN ('HELD', 'SOLD') AND (o.id IS NULL OR o.status <> t.status OR t.position <> ALL (o.positions))",
    },
    Check {
        name: "a live order has exactly its tickets",
        sql: "SELECT format('event %s order %s has %s of its %s tickets', o.event_id, o.id, count(t.position), o.quantity) AS breach \
              FROM orders o LEFT JOIN tickets t ON t.event_id = o.event_id AND t.position = ANY (o.positions) AND t.order_id = o.id \
              WHERE o.status IN ('HELD', 'SOLD') GROUP BY o.event_id, o.id, o.quantity HAVING count(t.position) <> o.quantity",
    },
    Check {
        name: "a live order has of each ticket type what was agreed",
        sql: "SELECT format('event %s order %s agreed on %s of %s and has %s', agreed.event_id, agreed.id, agreed.quantity, agreed.code, \
                coalesce(got.quantity, 0)) AS breach \
              FROM (SELECT o.event_id, o.id, item ->> 'ticket_type' AS code, sum((item ->> 'quantity')::bigint) AS quantity \
                    FROM orders o, jsonb_array_elements(o.items) AS item WHERE o.status IN ('HELD', 'SOLD') GROUP BY 1, 2, 3) AS agreed \
              LEFT JOIN (SELECT t.event_id, t.order_id, y.code, count(*) AS quantity \
                    FROM tickets t JOIN ticket_types y ON y.event_id = t.event_id AND y.id = t.ticket_type_id \
                    WHERE t.order_id IS NOT NULL GROUP BY 1, 2, 3) AS got \
                ON got.event_id = agreed.event_id AND got.order_id = agreed.id AND got.code = agreed.code \
              WHERE coalesce(got.quantity, 0) <> agreed.quantity",
    },
    Check {
        name: "an order's quantity and total are those of its lines",
        sql: "SELECT format('event %s order %s: quantity %s, lines %s; total %s, lines %s', o.event_id, o.id, o.quantity, lines.quantity, \
                o.total_minor, lines.total) AS breach \
              FROM orders o CROSS JOIN LATERAL (SELECT coalesce(sum((item ->> 'quantity')::bigint), 0) AS quantity, \
                  coalesce(sum((item ->> 'quantity')::bigint * (item ->> 'unit_price_minor')::bigint), 0) AS total \
                FROM jsonb_array_elements(o.items) AS item) AS lines \
              WHERE o.quantity <> lines.quantity OR o.total_minor <> lines.total OR o.quantity < 1 OR o.quantity > o.requested_quantity \
                OR cardinality(o.positions) <> o.quantity",
    },
    Check {
        name: "a ticket's columns are those of its state",
        sql: "SELECT format('event %s ticket %s is %s with order %s, deadline %s, code %s', event_id, position, status, \
                coalesce(order_id::text, 'none'), coalesce(held_until::text, 'none'), CASE WHEN code IS NULL THEN 'none' ELSE 'set' END) AS breach \
              FROM tickets WHERE status NOT IN ('AVAILABLE', 'HELD', 'SOLD', 'BLOCKED') \
                OR (status IN ('HELD', 'SOLD')) <> (order_id IS NOT NULL) OR (status = 'HELD') <> (held_until IS NOT NULL) \
                OR (status = 'SOLD') <> (code IS NOT NULL) \
                OR (used_at IS NOT NULL AND status <> 'SOLD')",
    },
    Check {
        name: "a held ticket is kept until its order's deadline",
        sql: "SELECT format('event %s ticket %s is held until %s, its order %s until %s', t.event_id, t.position, t.held_until, o.id, \
                coalesce(o.expires_at::text, 'none')) AS breach \
              FROM tickets t JOIN orders o ON o.event_id = t.event_id AND o.id = t.order_id \
              WHERE t.status = 'HELD' AND t.held_until IS DISTINCT FROM o.expires_at",
    },
    Check {
        name: "an order that changed says so in its history",
        sql: "SELECT format('event %s order %s is %s with %s tickets given back, its history ends with %s', o.event_id, o.id, o.status, \
                o.cancelled_quantity, coalesce(last.change, 'nothing')) AS breach \
              FROM orders o LEFT JOIN (SELECT DISTINCT ON (event_id, order_id) event_id, order_id, change FROM order_history \
                  WHERE change <> 'used' ORDER BY event_id, order_id, number DESC) AS last ON last.event_id = o.event_id AND last.order_id = o.id \
              WHERE CASE o.status WHEN 'CANCELLED' THEN coalesce(last.change, '') NOT IN ('cancel', 'release') \
                WHEN 'EXPIRED' THEN coalesce(last.change, '') <> 'expire' \
                WHEN 'HELD' THEN coalesce(last.change, 'release_some') <> 'release_some' \
                WHEN 'SOLD' THEN (last.change IS NULL) <> (o.expires_at IS NULL AND o.cancelled_quantity = 0) \
                  OR last.change IN ('cancel', 'release', 'release_some', 'expire') END",
    },
    Check {
        name: "an order's columns are those of its state",
        sql: "SELECT format('event %s order %s is %s with deadline %s', event_id, id, status, coalesce(expires_at::text, 'none')) AS breach \
              FROM orders WHERE status NOT IN ('HELD', 'SOLD', 'CANCELLED', 'EXPIRED') OR (status = 'HELD' AND expires_at IS NULL) \
                OR quantity + cancelled_quantity > requested_quantity",
    },
    Check {
        name: "a key has one order",
        sql: "SELECT format('event %s key %s of %s has %s orders', event_id, idempotency_key, idempotency_scope, count(*)) AS breach \
              FROM orders WHERE idempotency_key IS NOT NULL \
              GROUP BY event_id, idempotency_scope, idempotency_key HAVING count(*) > 1",
    },
    Check {
        name: "a ticket is of an event and a type that exist",
        sql: "SELECT format('event %s has %s tickets of type %s, which is missing', t.event_id, count(*), t.ticket_type_id) AS breach \
              FROM tickets t LEFT JOIN ticket_types y ON y.event_id = t.event_id AND y.id = t.ticket_type_id \
              WHERE y.id IS NULL GROUP BY t.event_id, t.ticket_type_id",
    },
    Check {
        name: "an order is of an event that exists, in its currency",
        sql: "SELECT format('event %s order %s is in %s, the event %s', o.event_id, o.id, o.currency, coalesce(e.currency, 'is missing')) AS breach \
              FROM orders o LEFT JOIN events e ON e.id = o.event_id WHERE e.id IS NULL OR e.currency <> o.currency",
    },
    Check {
        name: "a seat exists once",
        sql: "SELECT format('event %s has %s tickets for section %s row %s seat %s', event_id, count(*), coalesce(section, '-'), \
                coalesce(\"row\", '-'), seat) AS breach \
              FROM tickets WHERE seat IS NOT NULL GROUP BY event_id, section, \"row\", seat HAVING count(*) > 1",
    },
    Check {
        // A consumer in another language may have left the promotion out.
        name: "where jobs of a group wait, one is next",
        sql: "SELECT format('event %s group %s: %s jobs wait, and none of them is next', event_id, group_key, count(*)) AS breach \
              FROM jobs WHERE state IN ('CREATED', 'WORKING') GROUP BY event_id, group_key HAVING NOT bool_or(is_head)",
    },
];

#[derive(diesel::QueryableByName)]
struct BreachRow {
    #[diesel(sql_type = Text)]
    breach: String,
}

#[derive(diesel::QueryableByName)]
struct Size {
    #[diesel(sql_type = BigInt)]
    tickets: i64,
    #[diesel(sql_type = BigInt)]
    orders: i64,
}

/// Checks every promise over one snapshot of the database; sales go on meanwhile. Reads every ticket and every order.
///
/// # Errors
/// The database's.
pub fn audit(conn: &mut PgConnection) -> Result<AuditReport, DbError> {
    snapshot(conn, |conn| {
        // Every check joins whole tables, which may never have been analysed: a nested loop that was planned for one row takes hours, and so
        // does a merge by the event alone. The settings make the estimates huge, for which PostgreSQL would compile each query, which
        // takes longer than to run it.
        conn.batch_execute("SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off")?;
        let size: Size =
            sql_query("SELECT (SELECT count(*) FROM tickets) AS tickets, (SELECT count(*) FROM orders) AS orders").get_result(conn)?;
        let mut breaches = Vec::new();
        for check in &CHECKS {
            let rows: Vec<BreachRow> = sql_query(format!("{} LIMIT {BREACHES_TOLD_MAX}", check.sql)).load(conn)?;
            breaches.extend(rows.into_iter().map(|row| Breach { check: check.name, row: row.breach }));
        }
        Ok(AuditReport { tickets: size.tickets, orders: size.orders, checks: CHECKS.len(), breaches })
    })
}
