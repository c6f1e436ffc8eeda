//! What a measured process is given, and what the kernel tells of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

/// No measurement takes longer than this; one that hangs is ended.
const PATIENCE: u32 = 60;

/// Ends this process, with a word about why.
pub fn fail(why: &str) -> ! {
    eprintln!("peers: {why}");
    std::process::exit(1)
}

/// Gives the director descriptors enough, and those it starts.
pub fn prepare_director() {
    let limit = getrlimit(Resource::Nofile);
    // With too few the connections will say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Gives a measured process its processor, and an end.
pub fn prepare_measured() {
    pin(0);
    // SAFETY: asks for a signal that ends the process, and touches no memory.
    unsafe { libc::alarm(PATIENCE) };
}

/// Keeps the calling thread on one of the processors it may use: the measured on the first, its counterpart on the
/// second. Where there is only one, both stay where they are.
pub fn pin(place: usize) {
    // Asked for once, before the first thread is kept to one of them: its children inherit that.
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    let processors = PROCESSORS.get_or_init(|| {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
    });
    if let Some(&cpu) = processors.get(place) {
        let mut only = CpuSet::new();
        only.set(cpu);
        // Refused, it only measures less evenly.
        let _ = sched_setaffinity(None, &only);
    }
}

/// How long the threads of a process have run.
pub fn cpu_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let schedule = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedule.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// How many bytes of memory a process has of its own.
pub fn memory(process: u32) -> u64 {
    let map = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let kilobytes = map.lines().filter_map(|line| {
        let figure = line.strip_prefix("Private_Dirty:").or_else(|| line.strip_prefix("Private_Clean:"))?;
        figure.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    kilobytes.sum::<u64>() * 1024
}
