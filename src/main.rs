//! The program `boxoffice`. Everything it does is in the library; see `cli.rs` for the commands.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    boxoffice::cli::main()
}
