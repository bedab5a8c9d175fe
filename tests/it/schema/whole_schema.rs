//! Rules that hold for every table, also for those that are yet to come.

use std::collections::BTreeSet;

use boxoffice::db::DbError;
use diesel::{PgConnection, RunQueryDsl, sql_query};

use super::catalog::lines;
use crate::support::Database;

/// Tables that stay small, whatever is sold; reference tables on Citus.
const SMALL: [&str; 8] =
    ["admin_sessions", "admins", "events", "job_lanes", "partner_keys", "partners", "ticket_types", "webhook_endpoints"];

fn conn() -> (Database, PgConnection) {
    let database = Database::new();
    let conn = database.connect();
    (database, conn)
}

#[test]
fn every_table_that_grows_with_sales_has_the_event_first_in_each_unique_index() {
    let (_database, mut conn) = conn();
    let unique = "SELECT format('%s %s %s', i.indrelid::regclass, i.indexrelid::regclass, a.attname) AS line \
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid AND c.relnamespace = 'public'::regnamespace \
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indisunique";
    let mut seen = 0;
    for line in lines(&mut conn, unique) {
        let parts: Vec<&str> = line.split(' ').collect();
        if !SMALL.contains(&parts[0]) && !parts[0].starts_with("__diesel") {
            assert_eq!(parts[2], "event_id", "first column of {} on {}", parts[1], parts[0]);
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen}: three primary keys, the keys of orders and loads, seats, references");
}

#[test]
fn every_table_has_a_primary_key() {
    let (_database, mut conn) = conn();
    let without = "SELECT c.relname::text AS line FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' \
        AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    assert_eq!(lines(&mut conn, without), Vec::<String>::new());
}

#[test]
fn no_foreign_key_leads_to_or_from_a_table_that_grows_with_sales() {
    let (_database, mut conn) = conn();
    let keys = "SELECT format('%s %s %s', conname, conrelid::regclass, confrelid::regclass) AS line FROM pg_constraint WHERE contype = 'f'";
    for line in lines(&mut conn, keys) {
        let ends = line.split(' ').skip(1);
        assert!(ends.clone().all(|table| SMALL.contains(&table)), "{line}");
    }
}

#[test]
fn ids_are_made_in_the_program_and_not_by_sequences() {
    let (_database, mut conn) = conn();
    let sequences = "SELECT relname::text AS line FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace";
    assert_eq!(lines(&mut conn, sequences), Vec::<String>::new());
}

#[test]
fn every_moment_is_stored_with_its_zone() {
    let (_database, mut conn) = conn();
    let without = "SELECT format('%s.%s %s', table_name, column_name, data_type) AS line FROM information_schema.columns \
        WHERE table_schema = 'public' AND table_name !~ '^__diesel' \
        AND (data_type IN ('timestamp without time zone', 'date') OR data_type LIKE 'time %')";
    assert_eq!(lines(&mut conn, without), Vec::<String>::new());
}

#[test]
fn every_check_has_a_name_that_says_what_it_holds() {
    let (_database, mut conn) = conn();
    let unnamed = "SELECT conname::text AS line FROM pg_constraint \
        WHERE connamespace = 'public'::regnamespace AND contype = 'c' AND conname ~ '_check[0-9]*$'";
    assert_eq!(lines(&mut conn, unnamed), Vec::<String>::new());
}

#[test]
fn every_claim_of_the_sale_is_read_through_its_partial_index() {
    let (_database, mut conn) = conn();
    let claim = "SELECT indexdef AS line FROM pg_indexes WHERE indexname = 'tickets_available'";
    let definition = lines(&mut conn, claim).concat();
    assert!(definition.ends_with("(event_id, ticket_type_id, \"position\") WHERE (status = 'AVAILABLE'::text)"), "{definition}");
}

type Row = &'static [(&'static str, &'static str)];

/// A right row of each table, as columns and SQL values. The rows are there when the wrong ones are tried.
const RIGHT: [(&str, Row); 15] = [
    ("events", &[("id", ID), ("slug", "'gala'"), ("name", "'Gala'"), ("currency", "'EUR'"), ("created_at", "now()")]),
    (
        "ticket_types",
        &[
            ("event_id", ID),
            ("id", ID),
            ("code", "'standard'"),
            ("name", "'S'"),
            ("price_minor", "0"),
            ("sort_order", "1"),
            ("created_at", "now()"),
        ],
    ),
    (
        "tickets",
        &[
            ("event_id", ID),
            ("position", "1"),
            ("ticket_type_id", ID),
            ("status", "'AVAILABLE'"),
            ("seat", "'1'"),
            ("external_ref", "'r'"),
            ("order_id", "NULL"),
            ("held_until", "NULL"),
            ("code", "NULL"),
        ],
    ),
    (
        "orders",
        &[
            ("event_id", ID),
            ("id", ID),
            ("status", "'SOLD'"),
            ("buyer_name", "'Ada'"),
            ("buyer_email", "'ada@example.org'"),
            ("items", "'[]'"),
            ("positions", "'{1}'"),
            ("quantity", "1"),
            ("requested_quantity", "1"),
            ("total_minor", "0"),
            ("currency", "'EUR'"),
            ("channel", "'web'"),
            ("partner_id", "NULL"),
            ("access_key", "'x'"),
            ("idempotency_scope", "'web'"),
            ("idempotency_key", "'k'"),
            ("request_hash", r"'\x00'"),
            ("created_at", "now()"),
        ],
    ),
    (
        "inventory_loads",
        &[
            ("event_id", ID),
            ("id", ID),
            ("source", "'count'"),
            ("loaded_by", "'command-line'"),
            ("report", "'{}'"),
            ("idempotency_key", "'k'"),
            ("request_hash", r"'\x00'"),
            ("created_at", "now()"),
        ],
    ),
    ("buyers", &[("event_id", ID), ("buyer_key", "'ada@example.org'")]),
    (
        "order_history",
        &[
            ("event_id", ID),
            ("order_id", ID),
            ("number", "1"),
            ("at", "now()"),
            ("actor_kind", "'buyer'"),
            ("change", "'cancel'"),
            ("positions", "'{1}'"),
        ],
    ),
    ("job_lanes", &[("name", "'tests'"), ("created_at", "now()")]),
    (
        "jobs",
        &[
            ("event_id", ID),
            ("id", ID),
            ("lane", "'tests'"),
            ("kind", "'test'"),
            ("group_key", "'g'"),
            ("number", "1"),
            ("is_head", "true"),
            ("unique_key", "'k'"),
            ("payload", "'{}'"),
            ("run_at", "now()"),
            ("created_at", "now()"),
        ],
    ),
    ("admins", &[("id", ID), ("email", "'ada@example.org'"), ("password_hash", "'x'"), ("created_at", "now()")]),
    (
        "admin_sessions",
        &[("token_hash", r"'\x00'"), ("admin_id", ID), ("csrf_token", "'x'"), ("created_at", "now()"), ("expires_at", "now()")],
    ),
    ("partners", &[("id", ID), ("name", "'tixx'"), ("created_at", "now()")]),
    (
        "webhook_endpoints",
        &[
            ("id", ID),
            ("partner_id", ID),
            ("url", "'https://example.org'"),
            ("secret", r"'\x000102030405060708090a0b0c0d0e0f1011121314151617'"),
            ("kinds", "'{order.sold}'"),
            ("all_orders", "false"),
            ("created_at", "now()"),
        ],
    ),
    (
        "webhook_deliveries",
        &[
            ("event_id", ID),
            ("id", ID),
            ("endpoint_id", ID),
            ("kind", "'order.sold'"),
            ("body", "'{}'"),
            ("state", "'PENDING'"),
            ("attempts", "1"),
            ("created_at", "now()"),
            ("attempted_at", "now()"),
        ],
    ),
    ("partner_keys", &[("key_hash", r"'\x00'"), ("partner_id", ID), ("scopes", "'{read,sell}'"), ("created_at", "now()")]),
];

const ID: &str = "'00000000-0000-0000-0000-000000000001'";
const OTHER: &str = "'00000000-0000-0000-0000-000000000002'";

/// What each constraint refuses: the constraint, the table, and what differs from the right row.
const WRONG: &[(&str, &str, Row)] = &[
    ("events_pkey", "events", &[("slug", "'other'")]),
    ("events_slug_key", "events", &[("id", OTHER)]),
    ("events_slug_form", "events", &[("id", OTHER), ("slug", "'Gala'")]),
    ("events_slug_form", "events", &[("id", OTHER), ("slug", "'a--b'")]),
    ("events_slug_form", "events", &[("id", OTHER), ("slug", "repeat('a', 81)")]),
    ("events_state_known", "events", &[("id", OTHER), ("slug", "'b'"), ("state", "'open'")]),
    ("events_currency_form", "events", &[("id", OTHER), ("slug", "'b'"), ("currency", "'eur'")]),
    ("events_window_order", "events", &[("id", OTHER), ("slug", "'b'"), ("sales_open_at", "now()"), ("sales_close_at", "now()")]),
    ("events_max_per_order_positive", "events", &[("id", OTHER), ("slug", "'b'"), ("max_per_order", "0")]),
    ("events_max_per_buyer_positive", "events", &[("id", OTHER), ("slug", "'b'"), ("max_per_buyer", "0")]),
    ("events_checkout_known", "events", &[("id", OTHER), ("slug", "'b'"), ("checkout", "'later'")]),
    (
        "ticket_types_window_order",
        "ticket_types",
        &[("id", OTHER), ("code", "'b'"), ("sales_open_at", "now()"), ("sales_close_at", "now()")],
    ),
    ("ticket_types_pkey", "ticket_types", &[("code", "'b'")]),
    ("ticket_types_event_id_code_key", "ticket_types", &[("id", OTHER)]),
    ("ticket_types_event_id_fkey", "ticket_types", &[("event_id", OTHER)]),
    ("ticket_types_code_form", "ticket_types", &[("id", OTHER), ("code", "'Standard'")]),
    ("ticket_types_price_not_negative", "ticket_types", &[("id", OTHER), ("code", "'b'"), ("price_minor", "-1")]),
    ("tickets_pkey", "tickets", &[("seat", "NULL"), ("external_ref", "NULL")]),
    ("tickets_seat_key", "tickets", &[("position", "2"), ("external_ref", "NULL")]),
    ("tickets_external_ref_key", "tickets", &[("position", "2"), ("seat", "NULL")]),
    ("tickets_position_positive", "tickets", &[("position", "0"), ("seat", "'2'"), ("external_ref", "'s'")]),
    ("tickets_status_known", "tickets", &[("position", "2"), ("status", "'LOST'")]),
    ("tickets_order_iff_taken", "tickets", &[("position", "2"), ("order_id", ID)]),
    ("tickets_order_iff_taken", "tickets", &[("position", "2"), ("status", "'BLOCKED'"), ("order_id", ID)]),
    ("tickets_order_iff_taken", "tickets", &[("position", "2"), ("status", "'SOLD'"), ("code", "'x'")]),
    ("tickets_order_iff_taken", "tickets", &[("position", "2"), ("status", "'HELD'"), ("held_until", "now()")]),
    ("tickets_deadline_iff_held", "tickets", &[("position", "2"), ("status", "'HELD'"), ("order_id", ID)]),
    ("tickets_deadline_iff_held", "tickets", &[("position", "2"), ("held_until", "now()")]),
    (
        "tickets_deadline_iff_held",
        "tickets",
        &[("position", "2"), ("status", "'SOLD'"), ("order_id", ID), ("code", "'x'"), ("held_until", "now()")],
    ),
    ("tickets_code_iff_sold", "tickets", &[("position", "2"), ("status", "'SOLD'"), ("order_id", ID)]),
    ("tickets_code_iff_sold", "tickets", &[("position", "2"), ("code", "'x'")]),
    (
        "tickets_code_iff_sold",
        "tickets",
        &[("position", "2"), ("status", "'HELD'"), ("order_id", ID), ("held_until", "now()"), ("code", "'x'")],
    ),
    ("tickets_used_if_sold", "tickets", &[("position", "2"), ("used_at", "now()")]),
    ("orders_cancelled_not_negative", "orders", &[("id", OTHER), ("cancelled_quantity", "-1")]),
    ("buyers_pkey", "buyers", &[]),
    ("order_history_pkey", "order_history", &[]),
    ("order_history_number_positive", "order_history", &[("number", "0")]),
    ("order_history_actor_known", "order_history", &[("number", "2"), ("actor_kind", "'nobody'")]),
    ("job_lanes_pkey", "job_lanes", &[]),
    ("jobs_pkey", "jobs", &[("group_key", "'h'"), ("unique_key", "'l'")]),
    ("jobs_head", "jobs", &[("id", OTHER), ("unique_key", "'l'")]),
    ("jobs_unique_key", "jobs", &[("id", OTHER), ("group_key", "'h'")]),
    ("jobs_state_known", "jobs", &[("id", OTHER), ("is_head", "false"), ("unique_key", "'l'"), ("state", "'LOST'")]),
    ("jobs_lease_iff_working", "jobs", &[("id", OTHER), ("group_key", "'h'"), ("unique_key", "'l'"), ("state", "'WORKING'")]),
    ("jobs_lease_iff_working", "jobs", &[("id", OTHER), ("group_key", "'h'"), ("unique_key", "'l'"), ("lease", ID)]),
    (
        "jobs_finished_iff_over",
        "jobs",
        &[("id", OTHER), ("group_key", "'h'"), ("is_head", "false"), ("unique_key", "'l'"), ("state", "'DONE'")],
    ),
    (
        "jobs_head_if_working",
        "jobs",
        &[("id", OTHER), ("is_head", "false"), ("unique_key", "'l'"), ("state", "'WORKING'"), ("lease", ID), ("lease_until", "now()")],
    ),
    (
        "jobs_no_head_if_over",
        "jobs",
        &[("id", OTHER), ("group_key", "'h'"), ("unique_key", "'l'"), ("state", "'FAILED'"), ("finished_at", "now()")],
    ),
    ("orders_pkey", "orders", &[("idempotency_key", "'l'")]),
    ("orders_idempotency_key", "orders", &[("id", OTHER)]),
    ("orders_status_known", "orders", &[("id", OTHER), ("status", "'PAID'")]),
    ("orders_channel_known", "orders", &[("id", OTHER), ("channel", "'fax'")]),
    ("orders_partner_iff_api", "orders", &[("id", OTHER), ("channel", "'api'")]),
    ("orders_partner_iff_api", "orders", &[("id", OTHER), ("partner_id", ID)]),
    ("orders_hash_iff_key", "orders", &[("id", OTHER), ("request_hash", "NULL")]),
    ("orders_hash_iff_key", "orders", &[("id", OTHER), ("idempotency_key", "NULL")]),
    ("orders_deadline_if_held", "orders", &[("id", OTHER), ("status", "'HELD'")]),
    ("orders_quantity_positive", "orders", &[("id", OTHER), ("quantity", "0"), ("positions", "'{}'")]),
    ("orders_quantity_positive", "orders", &[("id", OTHER), ("quantity", "2"), ("positions", "'{1,2}'")]),
    ("orders_position_a_ticket", "orders", &[("id", OTHER), ("positions", "'{1,2}'")]),
    ("orders_total_not_negative", "orders", &[("id", OTHER), ("total_minor", "-1")]),
    ("inventory_loads_pkey", "inventory_loads", &[("idempotency_key", "'l'")]),
    ("inventory_loads_idempotency_key", "inventory_loads", &[("id", OTHER)]),
    ("inventory_loads_hash_iff_key", "inventory_loads", &[("id", OTHER), ("request_hash", "NULL")]),
    ("inventory_loads_hash_iff_key", "inventory_loads", &[("id", OTHER), ("idempotency_key", "NULL")]),
    ("admins_pkey", "admins", &[("email", "'b@example.org'")]),
    ("admins_email_key", "admins", &[("id", OTHER)]),
    ("admins_email_lower", "admins", &[("id", OTHER), ("email", "'Ada@example.org'")]),
    ("admin_sessions_pkey", "admin_sessions", &[]),
    ("admin_sessions_admin_id_fkey", "admin_sessions", &[("token_hash", r"'\x01'"), ("admin_id", OTHER)]),
    ("partners_pkey", "partners", &[("name", "'b'")]),
    ("partners_name_key", "partners", &[("id", OTHER)]),
    ("webhook_endpoints_pkey", "webhook_endpoints", &[]),
    ("webhook_endpoints_partner_id_fkey", "webhook_endpoints", &[("id", OTHER), ("partner_id", OTHER)]),
    ("webhook_endpoints_secret_long", "webhook_endpoints", &[("id", OTHER), ("secret", r"'\x00'")]),
    ("webhook_endpoints_kinds_some", "webhook_endpoints", &[("id", OTHER), ("kinds", "'{}'")]),
    ("webhook_endpoints_reason_iff_disabled", "webhook_endpoints", &[("id", OTHER), ("disabled_at", "now()")]),
    ("webhook_deliveries_pkey", "webhook_deliveries", &[]),
    ("webhook_deliveries_state_known", "webhook_deliveries", &[("id", OTHER), ("state", "'LOST'")]),
    ("webhook_deliveries_attempts_positive", "webhook_deliveries", &[("id", OTHER), ("attempts", "0")]),
    ("partner_keys_pkey", "partner_keys", &[]),
    ("partner_keys_partner_id_fkey", "partner_keys", &[("key_hash", r"'\x01'"), ("partner_id", OTHER)]),
    ("partner_keys_scopes_known", "partner_keys", &[("key_hash", r"'\x01'"), ("scopes", "'{read,root}'")]),
    ("partner_keys_scopes_known", "partner_keys", &[("key_hash", r"'\x01'"), ("scopes", "'{}'")]),
];

fn insert(conn: &mut PgConnection, table: &str, changes: Row) -> Result<usize, DbError> {
    let right = RIGHT.iter().find(|(name, _)| *name == table).unwrap().1;
    let unchanged = right.iter().filter(|(column, _)| changes.iter().all(|(changed, _)| changed != column));
    let (columns, values): (Vec<&str>, Vec<&str>) = unchanged.chain(changes).copied().unzip();
    let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), values.join(", "));
    sql_query(sql).execute(conn).map_err(DbError::from)
}

#[test]
fn every_constraint_refuses_what_it_is_there_for() {
    let (_database, mut conn) = conn();
    for (table, _) in RIGHT {
        insert(&mut conn, table, &[]).unwrap();
    }
    for (constraint, table, changes) in WRONG {
        let refused = insert(&mut conn, table, changes);
        assert!(refused.as_ref().is_err_and(|error| error.is_constraint(constraint)), "{constraint} on {changes:?}: {refused:?}");
    }
}

#[test]
fn every_constraint_and_unique_index_is_tried() {
    let (_database, mut conn) = conn();
    let all = "SELECT conname::text AS line FROM pg_constraint \
          WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text !~ '^__diesel' \
        UNION SELECT indexrelid::regclass::text FROM pg_index \
          WHERE indisunique AND indrelid::regclass::text !~ '^__diesel' \
            AND indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)";
    let all: BTreeSet<String> = lines(&mut conn, all).into_iter().collect();
    let tried: BTreeSet<String> = WRONG.iter().map(|(constraint, _, _)| (*constraint).to_owned()).collect();
    assert_eq!(tried, all);
}
