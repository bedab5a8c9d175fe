//! What diesel hides inside transactions, and how failures of a real PostgreSQL are told apart.

use std::{sync::Barrier, thread};

use boxoffice::db::{DbError, savepoint, transaction};
use diesel::{PgConnection, RunQueryDsl, connection::SimpleConnection, sql_query};

use super::catalog::lines;
use crate::support::Database;

fn run(conn: &mut PgConnection, sql: &str) -> Result<usize, DbError> {
    sql_query(sql).execute(conn).map_err(DbError::from)
}

const TABLE: &str = "CREATE TABLE numbers (number integer CONSTRAINT numbers_key PRIMARY KEY, tries integer NOT NULL DEFAULT 0)";
const ONE: &str = "INSERT INTO numbers VALUES (1)";
const TWO: &str = "INSERT INTO numbers VALUES (2)";

fn with_numbers() -> Database {
    let database = Database::empty();
    database.connect().batch_execute(&format!("{TABLE}; {ONE}")).unwrap();
    database
}

fn numbers(database: &Database) -> Vec<String> {
    lines(&mut database.connect(), "SELECT number::text AS line FROM numbers ORDER BY number")
}

#[test]
fn a_failed_statement_that_is_ignored_fails_the_transaction() {
    let database = with_numbers();
    let result = database.pool().run_here(|conn| {
        transaction(conn, |conn| {
            run(conn, TWO)?;
            // The trap: without our watch, COMMIT is answered with ROLLBACK and diesel says Ok.
            let _ = run(conn, ONE);
            Ok::<_, DbError>(())
        })
    });
    assert!(matches!(result, Err(DbError::SwallowedError)), "{result:?}");
    assert_eq!(numbers(&database), ["1"]);
}

#[test]
fn a_transaction_after_the_ignored_failure_is_stored() {
    let database = with_numbers();
    database
        .pool()
        .run_here(|conn| {
            let _ = transaction(conn, |conn| Ok::<_, DbError>(run(conn, ONE).is_ok()));
            transaction(conn, |conn| run(conn, TWO))
        })
        .unwrap();
    assert_eq!(numbers(&database), ["1", "2"]);
}

#[test]
fn a_failure_inside_a_savepoint_undoes_only_the_savepoint() {
    let database = with_numbers();
    let result = database.pool().run_here(|conn| {
        transaction(conn, |conn| {
            run(conn, TWO)?;
            let refused = savepoint(conn, |conn| {
                run(conn, "INSERT INTO numbers VALUES (3)")?;
                run(conn, ONE)
            });
            assert!(refused.is_err_and(|error| error.is_constraint("numbers_key")));
            run(conn, "INSERT INTO numbers VALUES (4)")
        })
    });
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(numbers(&database), ["1", "2", "4"]);
}

#[test]
fn a_failure_that_is_ignored_inside_a_savepoint_does_not_pass_for_success() {
    let database = with_numbers();
    let result = database.pool().run_here(|conn| {
        transaction(conn, |conn| {
            run(conn, TWO)?;
            savepoint(conn, |conn| Ok::<_, DbError>(run(conn, ONE).is_ok()))
        })
    });
    assert!(result.is_err(), "{result:?}");
    assert_eq!(numbers(&database), ["1"]);
}

#[test]
fn two_transactions_that_deadlock_both_succeed() {
    let database = with_numbers();
    run(&mut database.connect(), TWO).unwrap();
    let pool = database.pool();
    let both_hold_one = Barrier::new(2);
    let add = |first: i32, second: i32| {
        let (mut attempts, both_hold_one) = (0, &both_hold_one);
        pool.run_here(|conn| {
            transaction(conn, |conn| {
                attempts += 1;
                let add = |number: i32| format!("UPDATE numbers SET tries = tries + 1 WHERE number = {number}");
                run(conn, &add(first))?;
                if attempts == 1 {
                    both_hold_one.wait();
                }
                run(conn, &add(second))
            })
        })
        .map(|_| attempts)
    };
    let (one, other) = thread::scope(|scope| {
        let (one, other) = (scope.spawn(|| add(1, 2)), scope.spawn(|| add(2, 1)));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(one.unwrap() + other.unwrap(), 3, "one of them was tried again");
    let tries = lines(&mut database.connect(), "SELECT tries::text AS line FROM numbers ORDER BY number");
    assert_eq!(tries, ["2", "2"]);
}

/// What a statement's failure is classified as, after `before` on its session.
fn failure(database: &Database, before: &str, statement: &str) -> DbError {
    database
        .pool()
        .run_here(|conn| {
            run(conn, before)?;
            run(conn, statement)
        })
        .unwrap_err()
}

#[test]
fn a_lock_that_is_waited_for_in_vain_is_busy() {
    let database = with_numbers();
    let mut holder = database.connect();
    holder.batch_execute("BEGIN; UPDATE numbers SET tries = 1").unwrap();
    let error = failure(&database, "SET lock_timeout = 20", "UPDATE numbers SET tries = 2");
    assert!(matches!(error, DbError::Busy(_)), "{error:?}");
    let error = failure(&database, "SELECT 1", "SELECT FROM numbers FOR UPDATE NOWAIT");
    assert!(matches!(error, DbError::Busy(_)), "{error:?}");
}

#[test]
fn a_statement_that_takes_too_long_is_busy() {
    let error = failure(&with_numbers(), "SET statement_timeout = 20", "SELECT pg_sleep(10)");
    assert!(matches!(error, DbError::Busy(_)), "{error:?}");
}

#[test]
fn a_session_that_an_administrator_ended_is_unavailable() {
    let database = with_numbers();
    let error = failure(&database, "SELECT 1", "SELECT pg_terminate_backend(pg_backend_pid())");
    assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
}

#[test]
fn a_session_that_ended_between_two_statements_is_unavailable() {
    let database = with_numbers();
    let result = database.pool().run_here(|conn| {
        run(conn, "SELECT 1")?;
        database.end_sessions();
        run(conn, "SELECT 1")
    });
    assert!(matches!(result, Err(DbError::Unavailable(_))), "{result:?}");
}

#[test]
fn the_next_request_after_a_broken_connection_gets_a_whole_one() {
    let database = with_numbers();
    let pool = database.pool();
    let broken = pool.run_here(|conn| transaction(conn, |conn| run(conn, "SELECT pg_terminate_backend(pg_backend_pid())")));
    assert!(matches!(broken, Err(DbError::Unavailable(_))), "{broken:?}");
    for _ in 0..3 {
        pool.run_here(|conn| run(conn, "SELECT 1")).unwrap();
    }
}

#[test]
fn a_commit_whose_answer_was_lost_is_of_unknown_outcome() {
    let database = with_numbers();
    let result = database.pool().run_here(|conn| {
        transaction(conn, |conn| {
            run(conn, TWO)?;
            database.end_sessions();
            Ok::<_, DbError>(())
        })
    });
    assert!(matches!(result, Err(DbError::CommitUnknown(_))), "{result:?}");
}

#[test]
fn a_commit_that_a_constraint_refuses_is_refused_and_not_unknown() {
    let database = with_numbers();
    let deferred = "CREATE TABLE later (number integer CONSTRAINT later_key UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    database.connect().batch_execute(deferred).unwrap();
    let result = database.pool().run_here(|conn| transaction(conn, |conn| run(conn, "INSERT INTO later VALUES (1), (1)")));
    assert!(result.as_ref().is_err_and(|error| error.is_constraint("later_key")), "{result:?}");
}
