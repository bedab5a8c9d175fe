//! The map of the house in `src/lib.rs`, held by reading the source.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Which rooms each room may use: the arrows of the map. A room that is not here may use none.
const MAY_USE: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "accounts",
            "app",
            "bench",
            "clock",
            "config",
            "db",
            "demo",
            "email",
            "events",
            "ids",
            "input",
            "inventory",
            "money",
            "orders",
            "web",
            "worker",
        ],
    ),
    (
        "bench",
        &["accounts", "app", "clock", "config", "db", "email", "events", "ids", "input", "inventory", "money", "orders", "queue", "worker"],
    ),
    (
        "web",
        &[
            "accounts",
            "app",
            "clock",
            "config",
            "db",
            "email",
            "events",
            "ids",
            "input",
            "inventory",
            "money",
            "orders",
            "queue",
            "webhooks",
            "when",
        ],
    ),
    (
        "worker",
        &["app", "clock", "config", "db", "email", "events", "ids", "input", "inventory", "money", "orders", "queue", "webhooks", "when"],
    ),
    ("demo", &["db", "events", "ids", "input", "inventory", "money"]),
    ("app", &["accounts", "clock", "config", "db", "ids", "orders"]),
    // It gathers what the rooms below want to be told; they know nothing of it.
    ("config", &["db", "orders", "webhooks"]),
    ("orders", &["clock", "db", "email", "events", "ids", "input", "inventory", "money", "queue"]),
    ("webhooks", &["clock", "db", "ids", "input", "money", "queue"]),
    ("queue", &["clock", "db", "ids", "money"]),
    ("inventory", &["clock", "db", "email", "events", "ids", "input", "money"]),
    ("events", &["clock", "db", "email", "ids", "input", "money"]),
    ("accounts", &["clock", "db", "email", "ids", "input", "money"]),
];

/// A source file: its path below `src/`, and its text without comments.
struct Source {
    path: String,
    code: String,
}

impl Source {
    fn room(&self) -> &str {
        self.path.split('/').next().unwrap().trim_end_matches(".rs")
    }

    fn is_named(&self, name: &str) -> bool {
        self.path.ends_with(&format!("/{name}"))
    }

    /// A file of queries, or one of a folder of them.
    fn is_queries(&self) -> bool {
        self.is_named("queries.rs") || self.path.contains("/queries/")
    }

    /// The rooms that it names: after `crate::`, alone or in braces.
    fn uses(&self) -> BTreeSet<String> {
        self.code.split("crate::").skip(1).flat_map(rooms_named).filter(|room| room != self.room()).collect()
    }
}

/// The first names of a path or of a group of paths.
fn rooms_named(path: &str) -> Vec<String> {
    let first_name =
        |path: &str| path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![first_name(path)] };
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, letter) in group.char_indices() {
        match letter {
            ',' | '}' if depth == 0 => {
                names.push(first_name(&group[start..at]));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(source(&root, &entry));
            }
        }
    }
    assert!(found.len() > 40, "{} files", found.len());
    found
}

fn source(root: &Path, path: &PathBuf) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    Source { path: path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), code }
}

/// Files, out of those that `concerns` them, with one of these words in their code.
fn with_words(words: &[&str], concerns: impl Fn(&Source) -> bool) -> Vec<String> {
    let sources = sources();
    let of_concern: Vec<&Source> = sources.iter().filter(|source| concerns(source)).collect();
    assert!(!of_concern.is_empty());
    let found = |source: &&Source| {
        words.iter().filter(|word| source.code.contains(**word)).map(|word| format!("{}: {word}", source.path)).collect::<Vec<_>>()
    };
    of_concern.iter().flat_map(found).collect()
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn every_room_uses_only_the_rooms_that_the_map_allows() {
    let may_use: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut astray = Vec::new();
    for source in sources() {
        let allowed = may_use.get(source.room()).copied().unwrap_or_default();
        astray.extend(
            source.uses().into_iter().filter(|room| !allowed.contains(&room.as_str())).map(|room| format!("{} uses {room}", source.path)),
        );
    }
    assert_eq!(astray, NOTHING);
}

#[test]
fn the_map_names_every_room() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let rooms: BTreeSet<String> =
        sources().iter().map(|source| source.room().to_owned()).filter(|room| room != "lib" && room != "main").collect();
    let missing: Vec<String> = rooms.into_iter().filter(|room| !map.contains(&format!("[`{room}`]"))).collect();
    assert_eq!(missing, NOTHING);
}

#[test]
fn the_web_holds_no_sql() {
    let words = ["sql_query", "schema::", "diesel::", "SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "batch_execute"];
    assert_eq!(with_words(&words, |source| source.room() == "web"), NOTHING);
}

#[test]
fn queries_neither_open_nor_commit_a_transaction() {
    let words = ["transaction", "savepoint", "BEGIN", "COMMIT", "ROLLBACK"];
    assert_eq!(with_words(&words, Source::is_queries), NOTHING);
}

#[test]
fn rules_know_neither_the_database_nor_the_time_of_day() {
    let words = ["db::", "queries", "diesel", "PgConnection", "Utc::now", "Clock", "Instant::now", "SystemTime", "rand::"];
    assert_eq!(with_words(&words, |source| source.is_named("rules.rs")), NOTHING);
}

#[test]
fn only_the_inventory_writes_tickets() {
    let words = ["tickets::table", "INSERT INTO tickets", "UPDATE tickets", "DELETE FROM tickets", "COPY tickets", "TRUNCATE tickets"];
    // The bench fills and empties databases of its own.
    assert_eq!(with_words(&words, |source| source.room() != "inventory" && source.room() != "bench"), NOTHING);
}

#[test]
fn only_the_configuration_and_the_search_for_postgresql_read_the_environment() {
    let reads = |source: &Source| source.room() != "config" && !source.path.starts_with("db/local/");
    assert_eq!(with_words(&["env::var", "env::vars"], reads), NOTHING);
}

#[test]
fn only_the_transaction_opens_and_commits() {
    let words = ["AnsiTransactionManager", "begin_transaction", "commit_transaction", ".build_transaction(", "conn.transaction("];
    assert_eq!(with_words(&words, |source| source.path != "db/transaction.rs"), NOTHING);
}

#[test]
fn groups_of_paths_are_read_as_the_compiler_reads_them() {
    assert_eq!(rooms_named("ids::EventId;"), ["ids"]);
    assert_eq!(rooms_named("{\n  db::{DbError, schema::{a, b}},\n  events::{self, Event},\n  ids::X,\n};"), ["db", "events", "ids"]);
    assert_eq!(rooms_named("{orders, web};"), ["orders", "web"]);
}
