//! The street door: arguments in, an exit code out.

// An accepted event is some hundred small allocations; the system's allocator takes a tenth more time for it.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    umbra::cli::run()
}
