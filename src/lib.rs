//! boxoffice sells tickets that exist as rows.
//!
//! This page is the map of the house; an arrow reads "may use".
//!
//! ```text
//! cli → web, worker, bench → orders → inventory → events
//!             bench → worker
//!                    accounts, every feature → queue → db → config, ids, money, clock
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | [`cli`] | the commands: what `boxoffice --help` lists |
//! | [`demo`] | the event of `serve --demo` |
//! | [`config`] | command line and environment, read once into validated structs |
//! | [`app`] | what a request handler is given: configuration, database, clock |
//! | [`clock`], [`when`], [`money`], [`ids`], [`email`], [`input`] | small value types |
//! | [`db`] | connections, transactions, error classes, migrations, the local PostgreSQL |
//! | [`events`] | events, ticket types, sale windows |
//! | [`inventory`] | the states of a ticket; loading, claiming, giving back and counting: the only writer of `tickets` |
//! | [`orders`] | the states of an order; the sale, holds, idempotency, limits, history, the audit |
//! | [`queue`] | the job queue: knows a kind and a JSON payload, no feature |
//! | [`webhooks`] | where partners are told of what happens, and what came of it |
//! | [`accounts`] | admins and their sessions, partners and their keys |
//! | [`worker`] | the periodic tasks of a server |
//! | [`web`] | every URL, the pages, the JSON API |
//! | [`bench`](mod@bench) | the claim comparison, the on-sale simulation, the speed of the job queue |

pub mod accounts;
pub mod app;
pub mod bench;
pub mod cli;
pub mod clock;
pub mod config;
pub mod db;
pub mod demo;
pub mod email;
pub mod events;
pub mod ids;
pub mod input;
pub mod inventory;
pub mod money;
pub mod orders;
pub mod queue;
pub mod web;
pub mod webhooks;
pub mod when;
pub mod worker;
