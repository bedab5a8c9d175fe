//! `boxoffice bench claim` and `bench queue`: that they measure all that they should, find nothing wrong, and leave nothing behind. How
//! fast it all is is not for tests.

use std::process::{Output, Stdio};

use diesel::{PgConnection, QueryableByName, RunQueryDsl, connection::SimpleConnection, sql_query, sql_types::BigInt};
use serde_json::Value;

use crate::support::{Database, Process, signal, wait_until};

const WAYS: [(&str, &str); 6] = [
    ("lock_table", "LOCK TABLE first"),
    ("for_update", "Blocking FOR UPDATE"),
    ("repeated_condition", "UPDATE, condition repeated"),
    ("counter_row", "One counter row"),
    ("skip_locked", "SKIP LOCKED, singly"),
    ("desk", "The sale desk's batches"),
];

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Sessions on the scratch database of the process `pid`, or `None` if there is no such database.
fn sessions(conn: &mut PgConnection, pid: u32) -> Option<i64> {
    let sql = format!(
        "SELECT (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname) AS count \
         FROM pg_database d WHERE datname = 'boxoffice_bench_{pid}'"
    );
    sql_query(sql).load::<Count>(conn).unwrap().first().map(|row| row.count)
}

fn claim(url: &str, arguments: &[&str]) -> (u32, Output) {
    bench("claim", url, arguments)
}

fn bench(what: &str, url: &str, arguments: &[&str]) -> (u32, Output) {
    let child = Process::command()
        .args(["bench", what, "--database-url", url])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    (child.id(), child.wait_with_output().unwrap())
}

#[test]
fn every_way_is_measured_and_none_sells_twice() {
    let database = Database::empty();
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().join("claim.svg");
    let arguments = ["--secs", "1", "--clients", "2", "--tickets", "2000", "--json", "--svg", chart.to_str().unwrap()];
    let (pid, output) = claim(database.url(), &arguments);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sessions(&mut database.connect(), pid), None, "the scratch database is gone");

    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&comparison["secs"], &comparison["tickets"], &comparison["fsync"]), (&1.into(), &2_000.into(), &"on".into()));
    let rows = comparison["rows"].as_array().unwrap();
    let ways: Vec<&str> = rows.iter().map(|row| row["way"].as_str().unwrap()).collect();
    assert_eq!(ways, WAYS.map(|(way, _)| way));
    for row in rows {
        assert_eq!((&row["clients"], &row["sold_twice"], &row["breaches"]), (&2.into(), &0.into(), &Value::Array(vec![])), "{row}");
        // Each client buys once before the clock starts.
        let sold = 2 * (row["purchases"].as_i64().unwrap() + 2);
        assert_eq!(row["stock_left"].as_i64().unwrap(), 2_000 - sold, "{row}");
        assert!(row["p99_ms"].as_f64() >= row["median_ms"].as_f64(), "{row}");
    }

    let svg = std::fs::read_to_string(&chart).unwrap();
    assert_well_formed(&svg);
    for (_, name) in WAYS {
        assert!(svg.contains(name), "{name} is in the chart");
    }
}

#[test]
fn a_comparison_that_is_interrupted_drops_its_database() {
    let database = Database::empty();
    let mut admin = database.connect();
    let child = Process::command()
        .args(["bench", "claim", "--database-url", database.url(), "--secs", "600", "--clients", "4", "--tickets", "2000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pid = child.id();
    wait_until("the clients have connected", || sessions(&mut admin, pid).is_some_and(|sessions| sessions > 4));
    signal(pid, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted, so there is no comparison"), "{output:?}");
    assert_eq!(sessions(&mut admin, pid), None);
}

#[test]
fn a_role_that_may_not_create_databases_is_told_how() {
    let database = Database::empty();
    let role = format!("it_{}_clerk", std::process::id());
    let mut admin = database.connect();
    admin.batch_execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN NOCREATEDB")).unwrap();
    let (_, output) = claim(&format!("{} user={role}", database.url()), &[]);
    admin.batch_execute(&format!("DROP ROLE {role}")).unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(&format!("ALTER ROLE \"{role}\" CREATEDB")), "{told}");
}

#[test]
fn every_job_is_done_once_and_in_order_whatever_else_is_in_the_queue() {
    let database = Database::empty();
    let arguments = ["--jobs", "300", "--ahead", "2000", "--finished", "500", "--rounds", "2", "--batch", "7", "--json"];
    let (pid, output) = bench("queue", database.url(), &arguments);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sessions(&mut database.connect(), pid), None, "the scratch database is gone");

    let measurement: Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = ["ahead", "finished", "rounds", "batch"].map(|name| measurement[name].as_i64().unwrap());
    assert_eq!((settings, &measurement["fsync"]), ([2_000, 500, 2, 7], &"on".into()));
    let rows = measurement["rows"].as_array().unwrap();
    let jobs: Vec<(&str, i64)> = rows.iter().map(|row| (row["situation"].as_str().unwrap(), row["jobs"].as_i64().unwrap())).collect();
    let expected = [
        ("alone", 300),
        ("small_groups", 300),
        ("large_group_ahead", 300),
        ("many_finished", 300),
        ("old_snapshot", 300),
        ("one_group", 6),
    ];
    assert_eq!(jobs, expected);
    for row in rows {
        assert_eq!(row["breaches"], Value::Array(vec![]), "{row}");
        assert_eq!(row["ratio"].is_null(), row["situation"] == "one_group", "{row}");
        assert_eq!(row["ratio_to_small_groups"].is_null(), row["situation"] != "large_group_ahead", "{row}");
        // The large group goes on beside the small ones, one job at a time.
        assert!(row["done_beside"].as_i64().unwrap() <= if row["situation"] == "large_group_ahead" { 4_000 } else { 0 }, "{row}");
    }
}

/// Every tag is closed in order, and every ampersand begins an entity.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("each tag ends");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        assert!(text.split('&').skip(1).all(|after| entities.iter().any(|entity| after.starts_with(entity))), "{text}");
    }
    assert!(xml.starts_with("<svg ") && open.is_empty(), "{open:?} are open");
}
