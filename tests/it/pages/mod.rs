//! The pages, over HTTP and without a browser: what a visitor's program is sent, read as a browser reads it.

mod admin_orders;
mod admins;
mod again;
mod buying;
mod holding;
pub mod jobs;
mod loading;
mod markup;
mod programmes;
mod refused;
mod returning;
mod safety;
mod shortage;
pub mod visitor;
mod windows;
