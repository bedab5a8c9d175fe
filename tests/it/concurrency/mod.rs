//! Many at once: never twice, all or a clear error, and "too few" only when it is true.

mod holds;
mod limits;
mod locks;
mod processes;
mod rush;
