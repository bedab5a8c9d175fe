//! The plans of the sale while tickets are sold, whatever the planner knows of that.
//!
//! Each statement is explained as the very text that runs, with a generic plan (what a long-lived prepared statement gets) and with one
//! made for the values at hand (what an unprepared one gets).

use std::{collections::BTreeSet, fmt::Debug};

use boxoffice::{
    inventory::statements::{CLAIM_SAME, CLAIM_SKIPPING, CLAIM_WAITING, GIVE_BACK, LEFT, MARK_CONFIRMED, MARK_HELD, MARK_SOLD, ON_SHELF},
    orders::statements::{BUYERS_HAVE, BY_KEYS, DUE_SKIPPING, DUE_WAITING, SALE_SESSION},
};
use diesel::{PgConnection, QueryableByName, RunQueryDsl, connection::SimpleConnection, sql_query, sql_types::Json};
use serde_json::Value;

use crate::support::Database;

/// How many tickets, 90 % of them sold: far more than a sale may look at.
const TICKETS: i64 = 60_000;
/// How many orders there are.
const ORDERS: i64 = 20_000;
/// How many holds are over; ten times as many orders hold tickets.
const DUE: i64 = 20;
/// How many of the tickets are standard.
const STANDARDS: i64 = 59_900;
/// Most rows that a statement may read and throw away.
const ROWS_WASTED_MAX: i64 = 5;
/// The table that never has more than a few rows.
const SMALL_TABLE: &str = "job_lanes";
const EVENT: &str = "'00000000-0000-0000-0000-00000000000e'";
const STANDARD: &str = "'00000000-0000-0000-0000-0000000000a1'";
const VIP: &str = "'00000000-0000-0000-0000-0000000000a2'";

/// What the planner knows of the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistics {
    /// From the first minutes of the sale: 5 % sold, nobody had sent a key yet, and few jobs had been written.
    Stale,
    /// Nothing at all.
    None,
    /// From after the sale, as autovacuum leaves them: the planner knows how little is left, and how large the index still is.
    Fresh,
}

/// A database with the tickets: nearly all are standard, the last 100 are VIP; of each type the first are
/// sold and some of the others are held.
fn on_sale(statistics: Statistics, percent_sold: i64) -> (Database, PgConnection) {
    let database = Database::new();
    let mut conn = database.connect();
    fill(&mut conn, statistics, percent_sold);
    (database, conn)
}

fn fill(conn: &mut PgConnection, statistics: Statistics, percent_sold: i64) {
    let fill = format!(
        "ALTER TABLE tickets SET (autovacuum_enabled = false); \
         INSERT INTO tickets (event_id, position, ticket_type_id) \
           SELECT {EVENT}, n, CASE WHEN n <= {STANDARDS} THEN {STANDARD}::uuid ELSE {VIP}::uuid END FROM generate_series(1, {TICKETS}) AS n"
    );
    let orders = format!(
        "ALTER TABLE orders SET (autovacuum_enabled = false); \
         INSERT INTO orders (event_id, id, status, buyer_name, buyer_email, items, positions, quantity, requested_quantity, total_minor, \
             currency, channel, access_key, idempotency_scope, idempotency_key, request_hash, created_at) \
           SELECT {EVENT}, gen_random_uuid(), 'SOLD', 'Ada', 'ada@example.org', '[]', ARRAY[n], 1, 1, 0, 'EUR', 'web', 'x', 'web', 'k' || n, \
             '\\x00', now() FROM generate_series(1, {ORDERS}) AS n"
    );
    let hold = format!(
        "UPDATE tickets SET status = 'HELD', order_id = {EVENT}, held_until = now() WHERE status = 'AVAILABLE' AND position % 100 = 0; \
         UPDATE orders SET status = 'HELD', expires_at = now() + make_interval(mins => CASE WHEN positions[1] <= {DUE} THEN -1 ELSE 1 END) \
           WHERE positions[1] <= 10 * {DUE} AND idempotency_key IS NOT NULL; \
         UPDATE orders SET buyer_key = 'buyer' || positions[1] / 10 WHERE positions[1] BETWEEN 1000 AND 1999 AND idempotency_key IS NOT NULL"
    );
    conn.batch_execute(&fill).unwrap();
    sell(conn, 5);
    if statistics == Statistics::Stale {
        let keyless = orders.replace("'k' || n, '\\x00'", "NULL, NULL").replace(&ORDERS.to_string(), "200");
        conn.batch_execute(&keyless).unwrap();
        conn.batch_execute("VACUUM ANALYZE tickets, orders").unwrap();
    }
    conn.batch_execute(&orders).unwrap();
    sell(conn, percent_sold);
    conn.batch_execute(&hold).unwrap();
    if statistics == Statistics::Fresh {
        conn.batch_execute("VACUUM ANALYZE tickets, orders").unwrap();
    }
}

/// Sells the first `percent` of each type.
fn sell(conn: &mut PgConnection, percent: i64) {
    let (standards, vips) = (STANDARDS * percent / 100, STANDARDS + (TICKETS - STANDARDS) * percent / 100);
    let sell = format!(
        "UPDATE tickets SET status = 'SOLD', order_id = {EVENT}, code = position || '-X' \
         WHERE status = 'AVAILABLE' AND (position <= {standards} OR position BETWEEN {STANDARDS} + 1 AND {vips})"
    );
    conn.batch_execute(&sell).unwrap();
}

#[derive(QueryableByName)]
struct Explained {
    #[diesel(sql_type = Json)]
    #[diesel(column_name = "QUERY PLAN")]
    plan: Value,
}

/// A plan that ran.
pub(super) struct Plan {
    /// Its nodes, the top one first.
    nodes: Vec<Value>,
    is_compiled: bool,
}

impl Plan {
    pub(super) fn of(conn: &mut PgConnection, mode: &str, types: &str, statement: &str, values: &str) -> Self {
        let prepare = format!("DEALLOCATE ALL; SET plan_cache_mode = {mode}; PREPARE statement ({types}) AS {statement}");
        conn.batch_execute(&prepare).unwrap();
        Self::explain(conn, &format!("EXECUTE statement ({values})"))
    }

    pub(super) fn explain(conn: &mut PgConnection, execute: &str) -> Self {
        conn.batch_execute("BEGIN").unwrap();
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}");
        let explained: Explained = sql_query(explain).get_result(conn).unwrap();
        conn.batch_execute("ROLLBACK").unwrap();
        let mut nodes = Vec::new();
        collect(&explained.plan[0]["Plan"], &mut nodes);
        Self { nodes, is_compiled: explained.plan[0].get("JIT").is_some() }
    }

    fn has(&self, node_type: &str) -> bool {
        self.nodes.iter().any(|node| node["Node Type"] == node_type)
    }

    fn reads_a_large_table(&self) -> bool {
        self.nodes.iter().any(|node| node["Node Type"] == "Seq Scan" && node["Relation Name"] != SMALL_TABLE)
    }

    /// The indexes that it goes by, but for that of the small table, which may be read either way.
    fn indexes(&self) -> Vec<&str> {
        self.nodes.iter().filter_map(|node| node["Index Name"].as_str()).filter(|index| !index.starts_with(SMALL_TABLE)).collect()
    }

    /// Rows that were read and thrown away, over all nodes.
    fn rows_wasted(&self) -> i64 {
        let removed = ["Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter"];
        self.nodes
            .iter()
            .flat_map(|node| removed.map(|name| node[name].as_i64().unwrap_or(0) * node["Actual Loops"].as_i64().unwrap_or(1)))
            .sum()
    }

    fn pages(&self) -> i64 {
        ["Shared Hit Blocks", "Shared Read Blocks"].iter().map(|name| self.nodes[0][name].as_i64().unwrap()).sum()
    }

    /// Rows that were read through an index, over all loops.
    fn rows_read(&self, index: &str) -> i64 {
        self.nodes.iter().filter(|node| node["Index Name"] == index).map(rows_of).sum()
    }
}

impl Debug for Plan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = |node: &Value| {
            format!("  {} {} rows {} removed {}\n", node["Node Type"], node["Index Name"], rows_of(node), node["Rows Removed by Filter"])
        };
        write!(out, "{}pages: {}", self.nodes.iter().map(line).collect::<String>(), self.pages())
    }
}

/// PostgreSQL tells rows a loop, from version 18 on with a fraction.
fn rows_of(node: &Value) -> i64 {
    (node["Actual Rows"].as_f64().unwrap() * node["Actual Loops"].as_f64().unwrap()).round() as i64
}

fn collect(node: &Value, nodes: &mut Vec<Value>) {
    nodes.push(node.clone());
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect(child, nodes);
    }
}

/// A statement of the sale, and what it may read.
pub(super) struct Expected {
    pub(super) name: &'static str,
    pub(super) types: &'static str,
    pub(super) statement: &'static str,
    pub(super) values: String,
    /// The indexes that it goes by, and how many rows it may read through each. There is no other way to the rows.
    pub(super) reads: &'static [(&'static str, i64)],
}

impl Expected {
    /// Whether a desk runs it; the others are of pages.
    fn is_of_the_sale(&self) -> bool {
        [CLAIM_SKIPPING, MARK_SOLD, MARK_HELD, BY_KEYS, DUE_SKIPPING, BUYERS_HAVE].contains(&self.statement)
    }

    /// The few rows that it is after are not found in the order in which they must be locked.
    fn sorts_what_it_locks(&self) -> bool {
        [DUE_WAITING, CLAIM_SAME].contains(&self.statement)
    }
}

fn statements() -> Vec<Expected> {
    const CLAIM: &str = "uuid, uuid, integer, bigint";
    const MARK: &str = "uuid, integer[], uuid[], text[]";
    const CLAIMED: &[(&str, i64)] = &[("tickets_available", 4)];
    // What is left: a tenth of the tickets, of which one in a hundred is held.
    const LEFT_NOW: &[(&str, i64)] = &[("tickets_available", TICKETS / 10), ("tickets_held", TICKETS / 1_000 + 1)];
    let expected = |name, types, statement, values, reads| Expected { name, types, statement, values, reads };
    vec![
        expected("the claim that skips", CLAIM, CLAIM_SKIPPING, format!("{EVENT}, {STANDARD}, 1, 4"), CLAIMED),
        expected("the claim that skips, of the last type", CLAIM, CLAIM_SKIPPING, format!("{EVENT}, {VIP}, 1, 4"), CLAIMED),
        expected("the claim that waits", CLAIM, CLAIM_WAITING, format!("{EVENT}, {STANDARD}, 1, 4"), CLAIMED),
        expected("marking two tickets sold", MARK, MARK_SOLD, marks(2), &[("tickets_pkey", 2)]),
        expected("marking a thousand tickets sold", MARK, MARK_SOLD, marks(1_000), &[("tickets_pkey", 1_000)]),
        expected("marking two tickets held", "uuid, integer[], uuid[], timestamptz[]", MARK_HELD, holds(), &[("tickets_pkey", 2)]),
        expected("marking what is held sold", MARK, MARK_CONFIRMED, held("ARRAY['x', 'x']"), &[("tickets_pkey", 2)]),
        expected("giving back what is held", "uuid, integer[], uuid[], text", GIVE_BACK, held("'HELD'"), &[("tickets_pkey", 2)]),
        expected("the same tickets again", "uuid, integer[]", CLAIM_SAME, same(), &[("tickets_pkey", 6)]),
        expected("holds that are over", "uuid, timestamptz, timestamptz, uuid, bigint", DUE_SKIPPING, due(4), &[("orders_held", 4)]),
        expected(
            "all holds that are over",
            "uuid, timestamptz, bigint",
            DUE_WAITING,
            format!("{EVENT}, now(), 256"),
            &[("orders_held", DUE)],
        ),
        expected("what two buyers have", "uuid, text[], timestamptz", BUYERS_HAVE, buyers(), &[("orders_of_buyer", 20)]),
        expected("the orders of one key", "uuid, text[], text[]", BY_KEYS, keys(1), &[("orders_idempotency_key", 1)]),
        expected("the orders of a batch of keys", "uuid, text[], text[]", BY_KEYS, keys(128), &[("orders_idempotency_key", 128)]),
        expected("what is left", "uuid, timestamptz", LEFT, format!("{EVENT}, now()"), LEFT_NOW),
        expected(
            "whether anything is left",
            "uuid[], timestamptz",
            ON_SHELF,
            format!("ARRAY[{EVENT}]::uuid[], now()"),
            &[("tickets_available", 1), ("tickets_held", 1)],
        ),
    ]
}

/// Values for holding two tickets that are on sale.
fn holds() -> String {
    marks(2).replace("ARRAY['x','x']", "ARRAY[now(), now()]")
}

/// Values for two tickets that are held.
fn held(what: &str) -> String {
    format!("{EVENT}, ARRAY[{}, {}], ARRAY[{EVENT}, {EVENT}]::uuid[], {what}", TICKETS - 200, TICKETS - 300)
}

/// Values for three tickets, one of them sold.
fn same() -> String {
    format!("{EVENT}, ARRAY[7, {}, {}]", TICKETS - 201, TICKETS - 202)
}

/// Values for the first so many of the holds that are over.
fn due(count: i64) -> String {
    format!("{EVENT}, now(), 'epoch', '00000000-0000-0000-0000-000000000000', {count}")
}

fn buyers() -> String {
    format!("{EVENT}, ARRAY['buyer120', 'buyer150'], now()")
}

/// Values for looking up so many keys that have an order.
fn keys(count: usize) -> String {
    let keys: Vec<String> = (1..=count).map(|number| format!("'k{number}'")).collect();
    format!("{EVENT}, ARRAY[{}], ARRAY[{}]", vec!["'web'"; count].join(","), keys.join(","))
}

/// Values for marking so many tickets that are on sale.
fn marks(count: usize) -> String {
    let on_sale = (STANDARDS * 95 / 100..).filter(|position| position % 100 != 0);
    let positions: Vec<String> = on_sale.take(count).map(|position| position.to_string()).collect();
    let repeated = |value: &str| vec![value; count].join(",");
    format!("{EVENT}, ARRAY[{}], ARRAY[{}]::uuid[], ARRAY[{}]", positions.join(","), repeated(EVENT), repeated("'x'"))
}

/// Why a plan reads more than it may; nothing if it does not.
pub(super) fn too_much(plan: &Plan, expected: &Expected) -> Option<&'static str> {
    let indexes: BTreeSet<&str> = plan.indexes().into_iter().collect();
    let allowed: BTreeSet<&str> = expected.reads.iter().map(|(index, _)| *index).collect();
    match () {
        () if plan.reads_a_large_table() => Some("it reads the table"),
        () if plan.has("Sort") && expected.statement.contains("FOR UPDATE") && !expected.sorts_what_it_locks() => Some("it sorts"),
        () if plan.is_compiled => Some("it is compiled"),
        () if indexes != allowed => Some("it goes by other indexes"),
        () if expected.reads.iter().any(|(index, rows)| plan.rows_read(index) > *rows) => Some("it reads more rows than it needs"),
        () if plan.rows_wasted() > ROWS_WASTED_MAX => Some("it throws rows away"),
        () => None,
    }
}

/// Explains every statement in both ways that it may come to be planned.
fn each_reads_only_what_it_needs(statements: &[Expected], statistics: Statistics, percent_sold: i64) {
    let (_database, mut conn) = on_sale(statistics, percent_sold);
    let mut found = Vec::new();
    for expected in statements {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = Plan::of(&mut conn, mode, expected.types, expected.statement, &expected.values);
            found.extend(too_much(&plan, expected).map(|why| format!("{} ({mode}): {why}:\n{plan:?}", expected.name)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_statement_reads_only_what_it_needs_with_statistics_from_the_first_minutes_of_the_sale() {
    each_reads_only_what_it_needs(&statements(), Statistics::Stale, 90);
}

#[test]
fn every_statement_reads_only_what_it_needs_without_statistics() {
    each_reads_only_what_it_needs(&statements(), Statistics::None, 90);
}

#[test]
fn every_statement_reads_only_what_it_needs_with_fresh_statistics() {
    each_reads_only_what_it_needs(&statements(), Statistics::Fresh, 90);
}

/// A desk keeps its connection, and with it the plans that it made when it opened: on tables that were empty, and that autovacuum had
/// seen empty.
#[test]
fn a_plan_that_was_made_before_the_first_ticket_was_loaded_serves_the_last_sale() {
    let database = Database::new();
    let mut desk = database.connect();
    desk.batch_execute("VACUUM ANALYZE tickets, orders").unwrap();
    desk.batch_execute(SALE_SESSION).unwrap();
    let sale: Vec<Expected> = statements().into_iter().filter(|expected| expected.is_of_the_sale()).collect();
    for (number, expected) in sale.iter().enumerate() {
        let Expected { types, statement, values, .. } = expected;
        let open = format!("PREPARE s{number} ({types}) AS {statement}; BEGIN; EXECUTE s{number} ({values}); ROLLBACK");
        desk.batch_execute(&open).unwrap();
    }
    fill(&mut database.connect(), Statistics::None, 90);
    let mut found = Vec::new();
    for (number, expected) in sale.iter().enumerate() {
        let plan = Plan::explain(&mut desk, &format!("EXECUTE s{number} ({})", expected.values));
        found.extend(too_much(&plan, expected).map(|why| format!("{}: {why}:\n{plan:?}", expected.name)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// While most tickets are left, the primary key looks cheaper to the planner than the partial index, wherever it serves the order too. It
/// then walks all that were sold.
#[test]
fn the_claim_reads_only_what_it_takes_while_most_tickets_are_left() {
    let mut claims = statements();
    claims.retain(|expected| [CLAIM_SKIPPING, CLAIM_WAITING].contains(&expected.statement));
    assert_eq!(claims.len(), 3);
    each_reads_only_what_it_needs(&claims, Statistics::Fresh, 20);
    each_reads_only_what_it_needs(&claims, Statistics::Stale, 20);
}
