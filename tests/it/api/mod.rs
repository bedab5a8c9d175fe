//! The JSON API; the files mirror its URLs.

mod events;
mod inventory;
mod orders;
mod problems;
