//! Reading PostgreSQL's catalog.

use diesel::{PgConnection, QueryableByName, RunQueryDsl, sql_query, sql_types::Text};

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

/// The rows of a query whose one column is called `line`, as text.
pub fn lines(conn: &mut PgConnection, sql: &str) -> Vec<String> {
    let rows: Vec<Line> = sql_query(sql).load(conn).unwrap_or_else(|error| panic!("{error}: {sql}"));
    rows.into_iter().map(|row| row.line).collect()
}

/// The schema as text, one line for each thing in it that a migration can make: what `pg_dump` would show.
pub fn dump(conn: &mut PgConnection) -> Vec<String> {
    lines(conn, DUMP)
}

/// Everything in the schema `public` but diesel's own table.
const DUMP: &str = "\
    SELECT format('column %s.%s #%s %s%s default %s: %s', c.relname, a.attname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), format_type(a.atttypid, a.atttypmod), \
        CASE WHEN a.attnotnull THEN ' not null' ELSE '' END, coalesce(pg_get_expr(d.adbin, d.adrelid), 'none'), \
        coalesce(col_description(c.oid, a.attnum), '')) AS line \
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum \
      WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm') AND c.relname !~ '^__diesel' \
    UNION ALL SELECT format('relation %s %s: %s', c.relkind, c.relname, coalesce(obj_description(c.oid, 'pg_class'), '')) \
      FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relname !~ '^__diesel' \
    UNION ALL SELECT format('constraint %s.%s %s: %s', conrelid::regclass, conname, pg_get_constraintdef(oid), \
        coalesce(obj_description(oid, 'pg_constraint'), '')) \
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text !~ '^__diesel' \
    UNION ALL SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'public' AND tablename !~ '^__diesel' \
    UNION ALL SELECT format('function %s', oid::regprocedure) FROM pg_proc WHERE pronamespace = 'public'::regnamespace \
    UNION ALL SELECT format('trigger %s', pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal \
    UNION ALL SELECT format('type %s', oid::regtype) FROM pg_type \
      WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd', 'r') \
    ORDER BY 1";
