//! The program `boxoffice`. Everything it does is in the library; see `cli.rs` for the commands.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A request is a hundred small allocations, made on one thread and freed on another, which the system's allocator pays dearly for. Without
/// huge pages (`no_thp`): they would back the buffers of ten thousand idle connections in full, 230 MiB instead of 135.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    boxoffice::cli::main()
}
