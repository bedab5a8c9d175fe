//! The tests that need a database: one crate, so that it is linked once; one cluster a run; one database a test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::as_conversions,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod api;
mod bench;
mod browser;
mod concurrency;
mod crash;
mod desk;
mod jobs;
mod model;
mod onsale;
mod pages;
mod schema;
mod support;
