//! The pages, over HTTP and without a browser: what a visitor's program is sent, read as a browser reads it.

mod admins;
mod again;
mod buying;
pub mod jobs;
mod loading;
mod markup;
mod programmes;
mod refused;
mod safety;
mod shortage;
pub mod visitor;
