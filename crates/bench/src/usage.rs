//! Processor time and memory of processes, from Linux's `/proc`. In: a process id. Out: the figure, `None` where the
//! system does not give it.

use std::{fs, time::Duration};

/// The kernel counts processor time for programs in hundredths of a second on every architecture (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of one process, its threads included.
pub(super) fn of_process(pid: u32) -> Option<Duration> {
    let [user, system, _, _] = Stat::read(pid)?.times;
    Some(TICK * u32::try_from(user + system).ok()?)
}

/// Returns the processor time of a process and its children, ended ones included: a Postgres and its backends.
pub(super) fn of_family(parent: u32) -> Option<Duration> {
    let mut ticks: u64 = Stat::read(parent)?.times.iter().sum();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(child) = pid.and_then(Stat::read).filter(|child| child.parent == parent) {
            ticks += child.times.iter().take(2).sum::<u64>();
        }
    }
    Some(TICK * u32::try_from(ticks).ok()?)
}

/// Returns the peak memory of a process, in MiB.
pub(super) fn peak_memory_mib(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kib) / 1024.0)
}

/// Fields of `/proc/PID/stat` that are used here.
struct Stat {
    parent: u32,
    /// Ticks in user and system mode: of the process, then of its ended children.
    times: [u64; 4],
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold any character; the fields are counted from behind it (proc_pid_stat(5)).
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let time = |at: usize| fields.get(at)?.parse().ok();
        Some(Self { parent: fields.get(1)?.parse().ok()?, times: [time(11)?, time(12)?, time(13)?, time(14)?] })
    }
}
