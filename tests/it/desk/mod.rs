//! The sale desk: many buyers, one commit, and each order still stands alone.

mod batches;
mod commit;
mod low_water;
