//! `umbra-hook HOST`: what `umbra hook HOST` does, as a program of its own, which starts in a millisecond.

fn main() -> std::process::ExitCode {
    umbra_shim::main(std::env::args_os())
}
