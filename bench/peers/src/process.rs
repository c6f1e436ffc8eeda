//! Limits and CPU affinity of a measured process, and its kernel statistics.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// A measured process that runs longer is killed.
const TIMEOUT_SECONDS: u32 = 60;

/// Prints the reason and exits.
pub fn fail(reason: &str) -> ! {
    eprintln!("peers: {reason}");
    std::process::exit(1)
}

/// Raises the fd limit of the runner and its children.
pub fn prepare_runner() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, opening connections may fail later.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Pins a measured process to its CPU and sets its timeout.
pub fn prepare_measured() {
    pin(0);
    // SAFETY: schedules a signal that ends the process; accesses no memory.
    unsafe { libc::alarm(TIMEOUT_SECONDS) };
}

/// Pins the calling thread to one of its allowed CPUs: 0 is for the measured process, 1 for its counterpart. If only one
/// CPU is allowed, the counterpart is not pinned.
pub fn pin(index: usize) {
    // Read once, before the first thread is pinned: new threads inherit the affinity.
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    let cpus = CPUS.get_or_init(|| {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
    });
    if let Some(&cpu) = cpus.get(index) {
        let mut only = CpuSet::new();
        only.set(cpu);
        // If this fails, the figures only vary more.
        let _ = sched_setaffinity(None, &only);
    }
}

/// The CPU time of all threads of a process.
pub fn cpu_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let schedule = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedule.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The private memory of a process in bytes.
pub fn memory(process: u32) -> u64 {
    let map = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let kilobytes = map.lines().filter_map(|line| {
        let figure = line.strip_prefix("Private_Dirty:").or_else(|| line.strip_prefix("Private_Clean:"))?;
        figure.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>() * 1024
}
