//! Processes that are killed, and a database that goes away: what was answered with 201 is kept, and the rest is told apart by key.

mod buyers;
mod counter;
mod data_dir;
mod database;
mod local;
mod rounds;
mod server;
