//! The street door: arguments in, an exit code out.

fn main() -> std::process::ExitCode {
    umbra::cli::run()
}
