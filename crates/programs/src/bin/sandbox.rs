//! Applies the sandbox and becomes the interpreter: what the hidden subcommand of the server does,
//! as a binary of its own for the tests and benchmarks of this crate.

fn main() -> std::process::ExitCode {
    programs::sandbox::main(std::env::args_os().skip(1))
}
