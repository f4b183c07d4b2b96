//! The `ralph` binary.

fn main() -> std::process::ExitCode {
    ralph::cli::main()
}
