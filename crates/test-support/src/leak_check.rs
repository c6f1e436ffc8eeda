//! What a test leaves behind: nothing.
//!
//! Every test of a program that has this module and `#[macro_use] extern crate checked_test` runs in [`checked`].
//!
//! - **Memory.** A test has a thread of its own, and every allocation that this thread makes is marked with the test; so
//!   is every one of the threads it starts, and of those that they start. Whoever frees it, on whatever thread, takes it off
//!   the test's account; when the test's thread is gone, with its thread-locals, the account must come to nothing. So tests
//!   run side by side and cannot disturb each other.
//! - **Tasks, timers, connections** that a loop forgot are memory of the loop's thread.
//! - **Descriptors** belong to the whole process: when the program ends, none may be open that was not when its first
//!   test began. Tests that run alone say more: see `support::guarded`.
//!
//! Another thread may be about to free or close what it was given: so a test, and a program, has [`PATIENCE`] to come to
//! nothing. A leak never does.
//!
//! # Whose thread is it?
//!
//! Threads are started in many places, and none of them asks us. But the kernel gives a new thread the timer slack of the
//! one that makes it (see prctl(2)), and lets every thread set its own: so the number of an account is kept there, and a
//! thread looks when it first allocates. A few microseconds more of slack than usual is nothing to a test.

use mainspring_engine::signals::{SignalPipe, install};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU64;
use std::panic;
use std::process::{ExitCode, Termination};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// What is not freed or closed in so long never is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tests of one program, at most.
const MAX_TESTS: usize = 2048;

/// The account of what is nobody's.
const NOBODY: usize = 0;

/// How many allocations of each test live, by the test's number.
static ACCOUNTS: [Account; MAX_TESTS] = [const { Account::new() }; MAX_TESTS];

struct Account {
    blocks: AtomicIsize,
    bytes: AtomicIsize,
}

impl Account {
    const fn new() -> Self {
        Account { blocks: AtomicIsize::new(0), bytes: AtomicIsize::new(0) }
    }

    fn add(&self, blocks: isize, bytes: isize) {
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn is_even(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) == 0
    }
}

/// Of a thread that has not allocated yet.
const UNKNOWN: usize = usize::MAX;

/// The timer slack, in nanoseconds, of a thread that allocates on nobody's account; for the others their number is added.
const NOBODYS_SLACK: NonZeroU64 = NonZeroU64::new(60_000).unwrap();

thread_local! {
    /// On whose account this thread allocates.
    static CURRENT: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The account of this thread, and of those it starts.
fn current() -> usize {
    let known = CURRENT.get();
    if known != UNKNOWN {
        return known;
    }
    let slack = current_timer_slack().unwrap_or(0);
    let number = slack.checked_sub(NOBODYS_SLACK.get()).map_or(NOBODY, |number| number as usize);
    let inherited = if number < MAX_TESTS { number } else { NOBODY };
    CURRENT.set(inherited);
    inherited
}

/// From here on this thread, and those it starts, allocate on this account. Gives the one before.
fn allocate_on(account: usize) -> usize {
    let former = current();
    CURRENT.set(account);
    // The kernel refuses no slack that is not zero.
    let _ = set_current_timer_slack(Some(NOBODYS_SLACK.saturating_add(account as u64)));
    former
}

/// A process has the slack of the thread that started it, which may have been that of a test.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn begin_process() {
        allocate_on(NOBODY);
    }
    begin_process
};

#[global_allocator]
static MARKING: Marking = Marking;

/// The system's allocator, with the number of an account before every block.
struct Marking;

/// How far into its block the caller's part begins: a whole number of the caller's alignment, with room for the mark.
fn offset(layout: Layout) -> usize {
    layout.align().max(align_of::<usize>())
}

/// The whole block for the caller's part of it.
fn whole(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_add(offset(layout))?;
    Layout::from_size_align(size, offset(layout)).ok()
}

// SAFETY: a block is the system's, `offset` bytes longer than was asked for and aligned for both the mark and the caller;
// the caller gets what is behind the first `offset` bytes. The same layout gives the same offset when the block comes back.
unsafe impl GlobalAlloc for Marking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(whole) = whole(layout) else { return std::ptr::null_mut() };
        // SAFETY: its size is not zero, for the offset is not.
        let block = unsafe { System.alloc(whole) };
        if block.is_null() {
            return block;
        }
        let account = current();
        ACCOUNTS[account].add(1, layout.size() as isize);
        // SAFETY: the block begins with `offset` bytes for the mark, which are aligned for it.
        unsafe {
            block.cast::<usize>().write(account);
            block.add(offset(layout))
        }
    }

    unsafe fn dealloc(&self, part: *mut u8, layout: Layout) {
        // SAFETY: `part` came from `alloc` or `realloc` with this layout: its block begins `offset` before it, with the mark.
        unsafe {
            let block = part.sub(offset(layout));
            let account = block.cast::<usize>().read();
            ACCOUNTS[account].add(-1, -(layout.size() as isize));
            if let Some(whole) = whole(layout) {
                System.dealloc(block, whole);
            }
        }
    }

    unsafe fn realloc(&self, part: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(whole) = whole(layout) else { return std::ptr::null_mut() };
        let Some(new_whole) = new_size.checked_add(offset(layout)) else { return std::ptr::null_mut() };
        // SAFETY: as in `dealloc`. The mark moves with the block: it stays on the account of who made it.
        unsafe {
            let block = System.realloc(part.sub(offset(layout)), whole, new_whole);
            if block.is_null() {
                return block;
            }
            let account = block.cast::<usize>().read();
            ACCOUNTS[account].add(0, new_size as isize - layout.size() as isize);
            block.add(offset(layout))
        }
    }
}

/// Runs a test, and checks that it leaves nothing behind.
pub fn checked<R: Termination>(test: impl FnOnce() -> R + Send + 'static) {
    checked_within(PATIENCE, test);
}

/// Runs a test, and checks that it has left nothing behind when so much time has passed.
pub fn checked_within<R: Termination>(patience: Duration, test: impl FnOnce() -> R + Send + 'static) {
    static TESTS: AtomicUsize = AtomicUsize::new(1);
    begin_program();
    let number = TESTS.fetch_add(1, Ordering::Relaxed);
    assert!(number < MAX_TESTS, "more tests than accounts");
    if !is_output_shown() {
        // What is printed is kept by the harness, in memory that is nobody's from here on.
        println!();
    }
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let run = thread::Builder::new().name(name).spawn(move || {
        allocate_on(number);
        // What a test gives back is dropped here, with a word about the error if it is one.
        test().report()
    });
    match run.unwrap().join() {
        Ok(code) => {
            assert!(code == ExitCode::SUCCESS, "the test gave back a failure");
            assert_even(number, patience);
        }
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether the harness lets what is printed through.
fn is_output_shown() -> bool {
    let is_asked_for = |argument: String| argument == "--nocapture" || argument == "--no-capture";
    std::env::args().any(is_asked_for) || std::env::var_os("RUST_TEST_NOCAPTURE").is_some()
}

/// Runs what is made once for the whole program: it is on nobody's account.
#[allow(dead_code, reason = "each program uses its share")]
pub fn for_good<R>(make: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            allocate_on(self.0);
        }
    }
    let _restore = Restore(allocate_on(NOBODY));
    make()
}

/// From here on this test is not checked: something is leaked on purpose.
#[allow(dead_code, reason = "each program uses its share")]
pub fn meant_from_here() {
    allocate_on(NOBODY);
}

#[track_caller]
fn assert_even(number: usize, patience: Duration) {
    let account = &ACCOUNTS[number];
    let begun = Instant::now();
    while !account.is_even() && begun.elapsed() < patience {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(
        account.is_even(),
        "the test leaks {} allocations, {} bytes",
        account.blocks.load(Ordering::Relaxed),
        account.bytes.load(Ordering::Relaxed),
    );
}

/// Once, before the first test.
fn begin_program() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // What the symbols of a backtrace are read into is kept for the next one.
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| for_good(|| usual(info))));
        make_what_is_kept();
        let open = OPEN_AT_FIRST.get_or_init(|| (std::process::id(), open_descriptors()));
        // SAFETY: the function lives as long as the program, and does not unwind.
        assert_eq!(unsafe { libc::atexit(end_program) }, 0, "{open:?}");
    });
}

/// Makes what is made once for the whole program, by whoever comes first.
fn make_what_is_kept() {
    // The buffers of the standard streams.
    let _ = (std::io::stdin(), std::io::stdout());
    // Settings from the environment.
    let _ = proptest::test_runner::Config::default();
    // The lists of signals, and of who listens for them, only grow: here to all that can be caught. Those that are not
    // refused are put back as they were at once.
    let pipe = SignalPipe::new().unwrap();
    let listeners: Vec<_> = (1..=64).filter_map(|signum| install(signum, &pipe).ok()).collect();
    drop(listeners);
}

/// The process, and what it had open when its first test began.
static OPEN_AT_FIRST: OnceLock<(u32, BTreeMap<i32, String>)> = OnceLock::new();

extern "C" fn end_program() {
    let Some((process, at_first)) = OPEN_AT_FIRST.get() else { return };
    if std::process::id() != *process {
        return;
    }
    let begun = Instant::now();
    loop {
        let mut open = open_descriptors();
        open.retain(|number, _| !at_first.contains_key(number));
        if open.is_empty() {
            return;
        }
        if begun.elapsed() >= PATIENCE {
            let _ = writeln!(std::io::stderr(), "\nthe tests leave descriptors open: {open:?}");
            // SAFETY: ends the process, in the middle of its end.
            unsafe { libc::_exit(101) };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Every open descriptor of this process, and what it is.
pub fn open_descriptors() -> BTreeMap<i32, String> {
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else { return BTreeMap::new() };
    let listed: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The directory was open while it was listed, and is gone now.
    let open = listed.iter().filter_map(|path| {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(path).ok()?.display().to_string()))
    });
    // The C library reads this file, on whatever thread, when it gives memory back to the system.
    let open = open.filter(|(_, file)| file != "/proc/sys/vm/overcommit_memory");
    open.collect()
}
