//! The README's contract for consumers in other languages is what ours run.

use std::{collections::BTreeSet, fs, path::Path};

use diesel::connection::SimpleConnection;

use crate::support::Database;
use boxoffice::queue::statements::{CLAIM, COMPLETE, GIVE_UP, OVERDUE, PROMOTE, READY, RETRY, SETTINGS, TAKE};

/// A statement with one space for any white, and none inside parentheses.
fn normal(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")")
}

/// The statements of the README's section, but for those that begin and end transactions.
fn told() -> BTreeSet<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let section = readme.split("\n## ").find(|section| section.starts_with("Jobs, and consumers in other languages")).unwrap();
    let blocks = section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
    let statements = blocks.flat_map(|block| block.split(';')).map(normal);
    statements.filter(|statement| !matches!(statement.as_str(), "" | "BEGIN" | "COMMIT")).collect()
}

/// Many drivers leave it to the server to find out what a parameter's type is.
#[test]
fn every_statement_says_itself_what_types_it_takes() {
    let mut conn = Database::new().connect();
    for (number, statement) in [CLAIM, TAKE, COMPLETE, PROMOTE, RETRY, GIVE_UP, OVERDUE, READY].into_iter().enumerate() {
        conn.batch_execute(&format!("PREPARE s{number} AS {statement}")).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

#[test]
fn the_readme_has_the_statements_that_the_queue_runs_and_no_others() {
    let run = [CLAIM, TAKE, COMPLETE, PROMOTE, RETRY, GIVE_UP, OVERDUE, READY].into_iter().chain(SETTINGS.split(';'));
    assert_eq!(told(), run.map(normal).collect());
}
