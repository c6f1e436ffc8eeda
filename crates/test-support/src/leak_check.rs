//! The leak check: a test must free all memory it allocates and close all fds it opens.
//!
//! [`checked`] runs every test of a program that has `#[macro_use] extern crate test_support`.
//!
//! - **Memory.** Each test runs on its own thread. Allocations of that thread, of the threads it starts, and of the
//!   threads they start, are charged to the test's account. Freeing a block credits the account that allocated it, on
//!   any thread. When the test's thread has ended, with its thread-locals, the account must be empty. So tests may run
//!   in parallel.
//! - **Tasks, timers and connections** that a loop forgets are memory of the loop's thread.
//! - **Fds** belong to the process: at exit, only the fds may be open that were open before the first test. Tests in
//!   [`isolated`](crate::isolated) check this one by one.
//!
//! Another thread may be about to free or close something, so a test and a program have [`GRACE_PERIOD`] to finish. A
//! leak never goes away.
//!
//! # Which account does a thread have?
//!
//! Threads are started in many places without our help. But the kernel copies the timer slack of the creating thread to
//! the new one (see prctl(2)), and each thread may set its own. So the account number is stored in the timer slack, and
//! a thread reads it at its first allocation. A few microseconds of additional slack do not matter to a test.

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

/// How long to wait for other threads before something counts as leaked.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// The maximum number of tests in one program.
const MAX_TESTS: usize = 2048;

/// The account of untracked allocations.
const UNTRACKED: usize = 0;

/// The live allocations of each test, by test number.
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

    fn is_empty(&self) -> bool {
        self.blocks.load(Ordering::Relaxed) == 0
    }
}

/// The account of a thread that has not allocated yet.
const UNKNOWN: usize = usize::MAX;

/// The timer slack, in nanoseconds, of a thread with the account [`UNTRACKED`]. Other threads add their account number.
const UNTRACKED_SLACK: NonZeroU64 = NonZeroU64::new(60_000).expect("the base timer slack should not be zero");

thread_local! {
    /// The account of this thread.
    static CURRENT: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The account of this thread and of the threads it starts.
fn current() -> usize {
    let known = CURRENT.get();
    if known != UNKNOWN {
        return known;
    }
    let slack = current_timer_slack().unwrap_or(0);
    let number = slack.checked_sub(UNTRACKED_SLACK.get()).map_or(UNTRACKED, |number| number as usize);
    let inherited = if number < MAX_TESTS { number } else { UNTRACKED };
    CURRENT.set(inherited);
    inherited
}

/// Sets the account of this thread and of the threads it starts from now on. Returns the previous account.
fn set_account(account: usize) -> usize {
    let former = current();
    CURRENT.set(account);
    // The kernel accepts every slack except zero.
    let _ = set_current_timer_slack(Some(UNTRACKED_SLACK.saturating_add(account as u64)));
    former
}

/// A process inherits the slack of the thread that started it, which may be the thread of a test.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn reset_account() {
        set_account(UNTRACKED);
    }
    reset_account
};

#[global_allocator]
static TRACKING: TrackingAllocator = TrackingAllocator;

/// The system allocator, with an account number in front of every block.
struct TrackingAllocator;

/// The offset of the caller's memory in its block: a multiple of the caller's alignment, large enough for the account
/// number.
fn offset(layout: Layout) -> usize {
    layout.align().max(align_of::<usize>())
}

/// The layout of the block for the caller's layout.
fn block_layout(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_add(offset(layout))?;
    Layout::from_size_align(size, offset(layout)).ok()
}

// SAFETY: a block comes from the system allocator. It is `offset` bytes longer than requested, and aligned for the
// account number and for the caller. The caller's memory starts after the first `offset` bytes. `offset` depends only
// on the layout, so `dealloc` computes the same value.
unsafe impl GlobalAlloc for TrackingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(block_layout) = block_layout(layout) else { return std::ptr::null_mut() };
        // SAFETY: the size is not zero, because the offset is not.
        let block = unsafe { System.alloc(block_layout) };
        if block.is_null() {
            return block;
        }
        let account = current();
        ACCOUNTS[account].add(1, layout.size() as isize);
        // SAFETY: the block starts with `offset` bytes, which are large enough and aligned for the account number.
        unsafe {
            block.cast::<usize>().write(account);
            block.add(offset(layout))
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` or `realloc` with this layout. Its block starts `offset` bytes earlier,
        // with the account number.
        unsafe {
            let block = pointer.sub(offset(layout));
            let account = block.cast::<usize>().read();
            ACCOUNTS[account].add(-1, -(layout.size() as isize));
            if let Some(block_layout) = block_layout(layout) {
                System.dealloc(block, block_layout);
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(block_layout) = block_layout(layout) else { return std::ptr::null_mut() };
        let Some(new_block_size) = new_size.checked_add(offset(layout)) else { return std::ptr::null_mut() };
        // SAFETY: as in `dealloc`. The account number moves with the block, so the account does not change.
        unsafe {
            let block = System.realloc(pointer.sub(offset(layout)), block_layout, new_block_size);
            if block.is_null() {
                return block;
            }
            let account = block.cast::<usize>().read();
            ACCOUNTS[account].add(0, new_size as isize - layout.size() as isize);
            block.add(offset(layout))
        }
    }
}

/// Runs a test and checks that it leaks no memory.
pub fn checked<R: Termination>(test: impl FnOnce() -> R + Send + 'static) {
    checked_within(GRACE_PERIOD, test);
}

/// Runs a test and checks that it has freed its memory `grace_period` after its end.
pub fn checked_within<R: Termination>(grace_period: Duration, test: impl FnOnce() -> R + Send + 'static) {
    static TESTS: AtomicUsize = AtomicUsize::new(1);
    start_program();
    let number = TESTS.fetch_add(1, Ordering::Relaxed);
    assert!(number < MAX_TESTS, "the program has more than {MAX_TESTS} tests: raise MAX_TESTS");
    if !is_output_shown() {
        // The harness captures printed output in memory. This allocates its buffer untracked.
        println!();
    }
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        set_account(number);
        // Prints an error that the test returns, and drops the returned value on this thread.
        test().report()
    });
    match thread.expect("the thread of the test should start").join() {
        Ok(code) => {
            assert!(code == ExitCode::SUCCESS, "the test returned a failure");
            assert_empty(number, grace_period);
        }
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Whether the harness does not capture output.
fn is_output_shown() -> bool {
    let is_no_capture = |argument: String| argument == "--nocapture" || argument == "--no-capture";
    std::env::args().any(is_no_capture) || std::env::var_os("RUST_TEST_NOCAPTURE").is_some()
}

/// Runs `make` untracked, for values that live as long as the program.
pub fn untracked<R>(make: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_account(self.0);
        }
    }
    let _restore = Restore(set_account(UNTRACKED));
    make()
}

/// Stops tracking on this thread: the test leaks deliberately.
pub fn meant_from_here() {
    set_account(UNTRACKED);
}

#[track_caller]
fn assert_empty(number: usize, grace_period: Duration) {
    let account = &ACCOUNTS[number];
    let start = Instant::now();
    while !account.is_empty() && start.elapsed() < grace_period {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(
        account.is_empty(),
        "the test leaks {} allocations, {} bytes",
        account.blocks.load(Ordering::Relaxed),
        account.bytes.load(Ordering::Relaxed),
    );
}

/// Runs once, before the first test.
fn start_program() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A backtrace caches its symbols for the next one.
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| untracked(|| default_hook(info))));
        create_program_wide_values();
        let open = FDS_AT_START.get_or_init(|| (std::process::id(), open_fds()));
        // SAFETY: the function is static and does not unwind.
        assert_eq!(unsafe { libc::atexit(check_fds_at_exit) }, 0, "{open:?}");
    });
}

/// Creates values that are created once per program, so that they are not charged to the first test that needs them.
fn create_program_wide_values() {
    // The buffers of the standard streams.
    let _ = (std::io::stdin(), std::io::stdout());
    // Settings from the environment.
    let _ = proptest::test_runner::Config::default();
    // The tables of signals and their listeners only grow. Grow them to every signal that can be caught, then restore
    // the dispositions.
    let pipe = SignalPipe::new().expect("a signal pipe should open");
    let listeners: Vec<_> = (1..=64).filter_map(|signum| install(signum, &pipe).ok()).collect();
    drop(listeners);
}

/// The process id, and the fds that were open before the first test.
static FDS_AT_START: OnceLock<(u32, BTreeMap<i32, String>)> = OnceLock::new();

extern "C" fn check_fds_at_exit() {
    let Some((process, at_start)) = FDS_AT_START.get() else { return };
    if std::process::id() != *process {
        return;
    }
    let start = Instant::now();
    loop {
        let mut open = open_fds();
        open.retain(|number, _| !at_start.contains_key(number));
        if open.is_empty() {
            return;
        }
        if start.elapsed() >= GRACE_PERIOD {
            let _ = writeln!(std::io::stderr(), "\nthe tests leave fds open: {open:?}");
            // SAFETY: ends the process during exit, without running the remaining exit handlers.
            unsafe { libc::_exit(101) };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The open fds of this process, each with its target in `/proc/self/fd`.
pub fn open_fds() -> BTreeMap<i32, String> {
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else { return BTreeMap::new() };
    let listed: Vec<_> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The fd of the directory itself was open during the listing and is closed now.
    let open = listed.iter().filter_map(|path| {
        let number = path.file_name()?.to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(path).ok()?.display().to_string()))
    });
    // The C library reads this file, on any thread, when it returns memory to the system.
    let open = open.filter(|(_, file)| file != "/proc/sys/vm/overcommit_memory");
    open.collect()
}
