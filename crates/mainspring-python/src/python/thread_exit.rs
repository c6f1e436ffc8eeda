//! Threads that are inside this module when the interpreter exits.
//!
//! A daemon thread can run a loop while the main thread exits. Before Python 3.14 the interpreter ends such a thread with
//! `pthread_exit()` when it next acquires the interpreter lock. Any call into Python can acquire it, and so can the drop
//! of any reference. glibc then unwinds the thread's stack, and a Rust frame that is unwound this way aborts the process.
//! From Python 3.14 on the interpreter lets the thread hang until the process exits.
//!
//! Here the thread hangs on every version. [`guard`] registers a cleanup handler with the C library, once per thread.
//! `pthread_exit()` calls the handler before it unwinds the first frame. If a frame of this module is on the stack, the
//! handler does not return. So one guard at the entry point covers all calls into Python below it.
//!
//! **Rule: every function that the interpreter calls begins with [`guard`]**, directly or through the functions of
//! `guard.rs` or `dealloc::bounded`; a `pyclass` stores Python objects in a `dealloc::ClassData`. A `traverse` function
//! needs no guard: it runs no Python code. `tests/test_interpreter_exit.py` checks the rule.
//!
//! Other C libraries (musl) do not unwind in `pthread_exit()`.

/// Guards the current thread from now on. Cheap after the first call.
#[inline]
pub fn guard() {
    #[cfg(target_env = "gnu")]
    glibc::guard();
}

#[cfg(target_env = "gnu")]
mod glibc {
    use std::cell::UnsafeCell;
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;

    type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
    type Routine = unsafe extern "C" fn(*mut c_void);

    /// `struct _pthread_cleanup_buffer`. glibc calls the routine when the stack is unwound past the address of the buffer.
    /// For a buffer on the heap that is the first frame.
    #[repr(C)]
    struct CleanupBuffer {
        routine: Option<Routine>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut CleanupBuffer,
    }

    // In the Linux Standard Base.
    unsafe extern "C" {
        fn _pthread_cleanup_push(buffer: *mut CleanupBuffer, routine: Routine, argument: *mut c_void);
        fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, execute: c_int);
    }

    // libgcc's unwinder, which `pthread_exit()` uses.
    unsafe extern "C" {
        fn _Unwind_Backtrace(visit: Visit, walk: *mut c_void) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    const URC_NO_REASON: c_int = 0;
    const URC_NORMAL_STOP: c_int = 4;

    /// The handler of one thread, registered for as long as the thread lives.
    struct Registration(Box<UnsafeCell<CleanupBuffer>>);

    impl Registration {
        fn new() -> Self {
            let buffer =
                CleanupBuffer { routine: None, argument: null_mut(), cancel_type: 0, previous: null_mut() };
            let buffer = Box::new(UnsafeCell::new(buffer));
            // SAFETY: the buffer does not move until `drop` unregisters it.
            unsafe { _pthread_cleanup_push(buffer.get(), at_thread_exit, null_mut()) };
            Registration(buffer)
        }
    }

    impl Drop for Registration {
        fn drop(&mut self) {
            // SAFETY: registered by `new` on this thread. Handlers that were registered later belong to frames that the
            // thread has left, so this is the last one; glibc restores the one before it.
            unsafe { _pthread_cleanup_pop(self.0.get(), 0) }
        }
    }

    thread_local! {
        static REGISTRATION: Registration = Registration::new();
    }

    #[inline]
    pub fn guard() {
        // An error means that the thread's destructors have run: it does not call `pthread_exit()` any more.
        let _ = REGISTRATION.try_with(|_| ());
    }

    /// Called by `pthread_exit()`, before the stack is unwound.
    unsafe extern "C" fn at_thread_exit(_: *mut c_void) {
        while is_this_library_on_the_stack() {
            // SAFETY: has no preconditions.
            unsafe { libc::pause() };
        }
    }

    /// A walk over the stack, from the innermost frame outwards.
    struct Walk {
        own_base: *mut c_void,
        has_left_handler: bool,
        found: bool,
    }

    /// Whether `pthread_exit()` was called below a frame of this library.
    fn is_this_library_on_the_stack() -> bool {
        let handler = at_thread_exit as Routine as usize;
        let mut walk = Walk { own_base: base_of(handler), has_left_handler: false, found: false };
        // SAFETY: the walk outlives the call.
        unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast::<c_void>()) };
        walk.found
    }

    unsafe extern "C" fn visit(context: *mut c_void, walk: *mut c_void) -> c_int {
        // SAFETY: a frame of `_Unwind_Backtrace`, and the walk that it was called with.
        let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
        let is_own = base_of(address) == walk.own_base;
        // The first frames are the handler's own.
        walk.has_left_handler |= !is_own;
        walk.found = walk.has_left_handler && is_own;
        if walk.found { URC_NORMAL_STOP } else { URC_NO_REASON }
    }

    /// The load address of the library that contains the address; null if there is none.
    fn base_of(address: usize) -> *mut c_void {
        let mut info = libc::Dl_info {
            dli_fname: std::ptr::null(),
            dli_fbase: null_mut(),
            dli_sname: std::ptr::null(),
            dli_saddr: null_mut(),
        };
        // SAFETY: accepts any address, and fills `info` if it finds a library.
        unsafe { libc::dladdr(address as *const c_void, &mut info) };
        info.dli_fbase
    }
}
