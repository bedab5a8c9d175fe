//! Migrations: up, down and up again; twice; two at once; and a database from the future.

use std::{
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use boxoffice::db::migrate::{self, MIGRATIONS};
use diesel::{PgConnection, connection::SimpleConnection};
use diesel_migrations::MigrationHarness;

use super::catalog::{dump, lines};
use crate::support::{Database, Process, wait_until};

/// The advisory lock of `db/migrate.rs`.
const LOCK: i64 = 0x626f_786f_6666_6963;

fn pending(conn: &mut PgConnection) -> usize {
    conn.pending_migrations(MIGRATIONS).unwrap().len()
}

#[test]
fn every_migration_goes_up_and_down_and_up_and_leaves_the_same_schema() {
    let database = Database::empty();
    let mut conn = database.connect();
    let count = pending(&mut conn);
    assert!(count >= 3);
    for _ in 0..count {
        let before = dump(&mut conn);
        let name = conn.run_next_migration(MIGRATIONS).unwrap().to_string();
        let after = dump(&mut conn);
        assert_ne!(before, after, "{name} changes something");
        conn.revert_last_migration(MIGRATIONS).unwrap();
        assert_eq!(dump(&mut conn), before, "{name} goes down");
        conn.run_next_migration(MIGRATIONS).unwrap();
        assert_eq!(dump(&mut conn), after, "{name} goes up again");
    }
    assert_eq!(dump(&mut conn), dump(&mut Database::new().connect()), "one by one as all at once");
    conn.revert_all_migrations(MIGRATIONS).unwrap();
    assert_eq!(dump(&mut conn), Vec::<String>::new(), "all the way down");
}

#[test]
fn migrating_again_changes_nothing() {
    let database = Database::new();
    let mut conn = database.connect();
    let before = dump(&mut conn);
    assert_eq!(migrate::run(&mut conn).unwrap(), Vec::<String>::new());
    assert_eq!(dump(&mut conn), before);
}

fn migrate(database: &Database) -> Command {
    let mut command = Process::command();
    command.args(["migrate", "--database-url", database.url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn two_processes_that_migrate_at_once_both_succeed() {
    let database = Database::empty();
    let mut conn = database.connect();
    // Both are let go at one moment: when both have been seen waiting.
    conn.batch_execute(&format!("SELECT pg_advisory_lock({LOCK})")).unwrap();
    let processes: Vec<Child> = (0..2).map(|_| migrate(&database).spawn().unwrap()).collect();
    let waiting = "SELECT pid::text AS line FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_try_advisory_lock%'";
    wait_until("both ask for the lock", || lines(&mut conn, waiting).len() == 2);
    conn.batch_execute(&format!("SELECT pg_advisory_unlock({LOCK})")).unwrap();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(dump(&mut conn), dump(&mut Database::new().connect()));
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn from_the_future() -> Database {
    let database = Database::new();
    database.connect().batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('29991231000000')").unwrap();
    database
}

#[test]
fn a_database_of_a_later_version_is_not_migrated() {
    let database = from_the_future();
    let output = migrate(&database).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "the database has migrations that this version does not know (29991231000000): run the later version of boxoffice";
    assert!(said(&output).contains(expected), "{}", said(&output));
}

/// What a process said that ends by itself; one that does not is killed, and fails the test.
fn ended(mut process: Child) -> Output {
    let deadline = Instant::now() + Duration::from_secs(30);
    while process.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            process.kill().unwrap();
            process.wait().unwrap();
            panic!("it did not end in 30 s");
        }
        thread::sleep(Duration::from_millis(10));
    }
    process.wait_with_output().unwrap()
}

#[test]
fn a_server_on_a_database_of_a_later_version_ends_and_says_why() {
    let database = from_the_future();
    let mut command = Process::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", database.url()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = ended(command.spawn().unwrap());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("run the later version of boxoffice"), "{}", said(&output));
}
