//! The tables, their plans and the rules of the house: what a change can break without any request failing.

mod audit;
mod catalog;
mod map;
mod migrations;
mod plans;
mod queue_plans;
mod trap;
mod whole_schema;
