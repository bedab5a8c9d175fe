//! The life of an order, at random: what people do is made up step by step, and what they are told is compared with what must hold.

mod alone;
mod book;
mod record;
mod runs;
mod steps;
mod together;
