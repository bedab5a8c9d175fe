//! The JSON API; the files mirror its URLs.

mod events;
mod holds;
mod inventory;
mod orders;
mod problems;
mod returns;
mod windows;
