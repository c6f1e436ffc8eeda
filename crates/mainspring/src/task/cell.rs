//! The cell of a task: one allocation with the task's future, its state, and what its wakers need.
//!
//! # Rules of the references
//!
//! - [`AnyTask`], [`TaskRef`] and [`Step`] are references of the loop's thread. They are counted without atomics, and
//!   the last one drops the state. They stay on their thread.
//! - Wakers may be on any thread. They are counted in [`WakerState`], in which all references of the loop's thread
//!   count as one. The last of these frees the memory. A waker uses [`TaskHead`] only, which is never dropped.
//! - The fields after the head are used and dropped on the loop's thread only.
//!
//! # Rules of the run state
//!
//! - `Unstarted` until the future is in the cell. From then until it is done, the loop lists the task.
//! - `Idle`: a wake or a cancellation schedules a step.
//! - `Scheduled`: a [`Step`] is in the ready queue. More wakes change nothing.
//! - `Running`: the future is polled. Only this step uses the future. A wake sets `RunningWoken`: the next step is
//!   scheduled when the poll has returned.
//! - `Done`: the future is dropped. This is final.
//!
//! All changes are on the loop's thread. A wake on another thread sends the task to the loop's inbox, and the loop
//! schedules the step when it receives the task.

use super::cell_pool::{self, CellLayout};
use super::current_task;
use super::join_error::JoinError;
use super::state::{Progress, TaskHeader, TaskOptions};
use super::waker::{borrowed_waker, release_memory, wake_task};
use super::waker_state::WakerState;
use crate::event_loop::Core;
use crate::host::Inbound;
use crate::panics::{catch, catch_payload};
use mainspring_engine::wakeup::Inbox;
use std::alloc::Layout;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};
use std::ops::Deref;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};

/// Receives the result of a task's future.
pub(super) trait ResultSink {
    /// The output of the future.
    type Output;
    /// The output of the task.
    type Value: 'static;

    /// Takes the result of `task`, once. Runs foreign code, and catches its panics.
    fn settle(&self, task: &TaskRef<Self::Value>, result: Result<Self::Output, JoinError>);
}

/// The output of the task is that of its future.
pub(super) struct DirectSink<T>(pub(super) PhantomData<T>);

impl<T: 'static> ResultSink for DirectSink<T> {
    type Output = T;
    type Value = T;

    #[inline(always)]
    fn settle(&self, task: &TaskRef<T>, result: Result<T, JoinError>) {
        task.settle(result);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    Unstarted,
    Idle,
    Scheduled,
    Running,
    RunningWoken,
    Done,
}

/// The first part of every cell. It has no destructor, so it is valid until the memory is freed.
pub(super) struct TaskHead {
    functions: &'static Functions,
    /// The inbox of the loop: the identity of the loop, and how other threads wake the task. Valid while the loop
    /// exists, and as long as the cell if `owns_inbox` is set.
    pub(super) inbox: *const Inbox<Inbound>,
    /// Whether the cell has a reference to the inbox. It gets one with its first waker: a step without wakers needs none,
    /// because its loop exists.
    pub(super) owns_inbox: AtomicBool,
    pub(super) waker_state: WakerState,
    /// Loop thread only.
    run_state: Cell<RunState>,
    /// The references of the loop's thread. Loop thread only.
    references: Cell<u32>,
}

// Every idle connection has a task: row `memory` of `bench/peers`.
#[cfg(not(loom))]
const _: () = assert!(size_of::<TaskHead>() == 4 * size_of::<usize>());

/// The functions that depend on the types of the future and its sink.
struct Functions {
    /// Polls the future. Returns `true` if it is done; the result is then settled.
    poll: unsafe fn(&AnyTask) -> bool,
    /// Drops the future and settles the task as cancelled.
    drop_future: unsafe fn(&AnyTask),
    /// Drops everything except the head.
    drop_state: unsafe fn(NonNull<TaskHead>),
    layout: CellLayout,
}

impl TaskHead {
    #[inline]
    pub(super) fn layout(&self) -> CellLayout {
        self.functions.layout
    }
}

/// A cell, as far as its type is known from the type of the result. `repr(C)`: a prefix of [`TaskCell`].
#[repr(C)]
pub(super) struct TaskState<T> {
    head: TaskHead,
    pub(super) header: TaskHeader,
    pub(super) progress: RefCell<Progress<T>>,
}

/// A cell without its type. `repr(C)`: a prefix of [`TaskState`].
#[repr(C)]
struct AnyState {
    head: TaskHead,
    header: TaskHeader,
}

#[repr(C)]
struct TaskCell<F, S: ResultSink> {
    head: TaskHead,
    header: TaskHeader,
    progress: RefCell<Progress<S::Value>>,
    /// Initialised from the start until the result is settled: unless `Unstarted` or `Done`.
    sink: UnsafeCell<MaybeUninit<S>>,
    /// Initialised as long as `sink`. Pinned: never moved, only dropped in place.
    future: UnsafeCell<MaybeUninit<F>>,
}

/// A reference to a task of any type, on the loop's thread.
pub(crate) struct AnyTask {
    /// From the allocation of the cell, so it may be used for all of it.
    head: NonNull<TaskHead>,
    // Not `Send`, and drops what a task has.
    _marker: PhantomData<Rc<TaskHeader>>,
}

/// A reference to a task with its result, on the loop's thread.
pub(super) struct TaskRef<T> {
    task: AnyTask,
    _marker: PhantomData<Rc<TaskState<T>>>,
}

/// A step of a task, in the ready queue. Dropping it instead of running it cancels the task.
pub(crate) struct Step(AnyTask);

/// Allocates the cell of a task that is not started.
///
/// Without a loop, it is never started.
#[inline(always)]
pub(super) fn allocate<F, S>(core: Option<&Rc<Core>>, options: TaskOptions) -> TaskRef<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink + 'static,
{
    let layout = const { CellLayout::new(Layout::new::<TaskCell<F, S>>()) };
    let cell = cell_pool::allocate(core.map(|core| &core.cell_pool), layout).cast::<TaskCell<F, S>>();
    let value = TaskCell {
        head: TaskHead {
            functions: const {
                &Functions {
                    poll: poll::<F, S>,
                    drop_future: drop_future::<F, S>,
                    drop_state: drop_state::<F, S>,
                    layout: CellLayout::new(Layout::new::<TaskCell<F, S>>()),
                }
            },
            inbox: core.map_or(ptr::null(), |core| Arc::as_ptr(core.inbox())),
            owns_inbox: AtomicBool::new(false),
            waker_state: WakerState::new(),
            run_state: Cell::new(RunState::Unstarted),
            references: Cell::new(1),
        },
        header: TaskHeader::new(core, options),
        progress: RefCell::new(Progress::Running(None)),
        sink: UnsafeCell::new(MaybeUninit::uninit()),
        future: UnsafeCell::new(MaybeUninit::uninit()),
    };
    // SAFETY: the memory has the layout of a cell, and is not used otherwise.
    unsafe { cell.write(value) };
    TaskRef { task: AnyTask { head: cell.cast(), _marker: PhantomData }, _marker: PhantomData }
}

/// Makes the cell of a task, and its first step. Both functions are called with the task before it is started. If one
/// panics, the task does not exist.
#[inline]
pub(super) fn make_task<F, S>(
    core: &Rc<Core>,
    options: TaskOptions,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: impl FnOnce(&TaskRef<S::Value>) -> F,
) -> (TaskRef<S::Value>, Step)
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink + 'static,
{
    let task = allocate::<F, S>(Some(core), options);
    let sink = sink(&task);
    let future = future(&task);
    let cell = task.task.head.cast::<TaskCell<F, S>>();
    // SAFETY: the cell was allocated with these types. It is unstarted, so nothing else uses these fields, and they are
    // not initialised.
    unsafe {
        (*(*cell.as_ptr()).sink.get()).write(sink);
        (*(*cell.as_ptr()).future.get()).write(future);
    }
    task.task.head().run_state.set(RunState::Scheduled);
    let step = Step(task.task.clone());
    (task, step)
}

impl<T> TaskRef<T> {
    /// The task without its type.
    pub(super) fn any(&self) -> &AnyTask {
        &self.task
    }
}

impl<T> Deref for TaskRef<T> {
    type Target = TaskState<T>;

    fn deref(&self) -> &TaskState<T> {
        // SAFETY: `TaskState<T>` is a prefix of the cell. This reference keeps the state alive, and it is on the loop's
        // thread, which only shares it.
        unsafe { self.task.head.cast().as_ref() }
    }
}

impl<T> Clone for TaskRef<T> {
    fn clone(&self) -> Self {
        TaskRef { task: self.task.clone(), _marker: PhantomData }
    }
}

impl AnyTask {
    #[inline]
    pub(crate) fn header(&self) -> &TaskHeader {
        // SAFETY: `AnyState` is a prefix of the cell. This reference keeps the header alive, and it is on the loop's
        // thread, which only shares it.
        unsafe { &self.head.cast::<AnyState>().as_ref().header }
    }

    #[inline]
    fn head(&self) -> &TaskHead {
        // SAFETY: the head is valid until the memory is freed.
        unsafe { self.head.as_ref() }
    }

    /// The identity of the task's loop.
    #[inline]
    pub(super) fn inbox(&self) -> *const Inbox<Inbound> {
        self.head().inbox
    }

    pub(super) fn as_ptr(&self) -> NonNull<TaskHead> {
        self.head
    }

    /// # Safety
    ///
    /// `head` is of a cell whose state is not dropped, and this is the loop's thread.
    #[inline]
    pub(super) unsafe fn from_ptr(head: NonNull<TaskHead>) -> Self {
        // SAFETY: the head is valid, by the contract of this function.
        let references = unsafe { &head.as_ref().references };
        match references.get().checked_add(1) {
            Some(count) => references.set(count),
            // As for `Rc`: the program forgets references in a loop.
            None => std::process::abort(),
        }
        AnyTask { head, _marker: PhantomData }
    }

    /// A reference that is not counted, for a caller that does not drop it.
    ///
    /// # Safety
    ///
    /// As [`AnyTask::from_ptr`], while the result is used.
    #[inline]
    pub(super) unsafe fn borrowed(head: NonNull<TaskHead>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(AnyTask { head, _marker: PhantomData })
    }

    /// Cancels the task: its next step drops the future. Without a loop to run it, this is done here.
    pub(crate) fn cancel(&self) -> bool {
        let header = self.header();
        if !header.begin_cancel() {
            return false;
        }
        if let Some(core) = header.core() {
            header.promote(&core);
            if core.check_open().is_ok() {
                wake_task(self.head, self.head());
                return true;
            }
        }
        // A closed loop runs no step. A queued step drops the future.
        if self.head().run_state.get() == RunState::Idle {
            self.drop_future();
        }
        true
    }

    /// Drops the future, which is not running, and settles the task as cancelled.
    fn drop_future(&self) {
        // SAFETY: `functions` are of the types of this cell, and this is the loop's thread.
        unsafe { (self.head().functions.drop_future)(self) }
    }
}

impl Clone for AnyTask {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this reference keeps the state alive, on the loop's thread.
        unsafe { Self::from_ptr(self.head) }
    }
}

impl Drop for AnyTask {
    #[inline]
    fn drop(&mut self) {
        let references = self.head().references.get() - 1;
        self.head().references.set(references);
        if references == 0 {
            release(self.head);
        }
    }
}

/// Drops the state of a task, after the last reference of the loop's thread.
fn release(head: NonNull<TaskHead>) {
    // SAFETY: the head is valid: all references of this thread together have a reference to the memory, which is removed
    // below. The state was not dropped before, because the count has reached zero now and does not change any more.
    unsafe {
        (head.as_ref().functions.drop_state)(head);
        if head.as_ref().waker_state.remove_own() {
            release_memory(head);
        }
    }
}

/// Takes the right to schedule a step, for a wake on the loop's thread. `None` if the task is scheduled or done; if it
/// is running, the step follows. `before` runs first: it may schedule the task.
///
/// # Safety
///
/// `head` is valid, and this is the loop's thread.
#[inline(always)]
pub(super) unsafe fn step_of(head: NonNull<TaskHead>, before: impl FnOnce()) -> Option<Step> {
    // SAFETY: the head is valid, by the contract of this function.
    let run_state = unsafe { &head.as_ref().run_state };
    match run_state.get() {
        RunState::Idle => {}
        RunState::Running => {
            run_state.set(RunState::RunningWoken);
            return None;
        }
        RunState::Unstarted | RunState::Scheduled | RunState::RunningWoken | RunState::Done => return None,
    }
    before();
    if run_state.get() != RunState::Idle {
        return None;
    }
    run_state.set(RunState::Scheduled);
    // SAFETY: a task that is idle is in the list of the loop, so its state is not dropped.
    Some(Step(unsafe { AnyTask::from_ptr(head) }))
}

impl Step {
    #[inline]
    pub(crate) fn header(&self) -> &TaskHeader {
        self.0.header()
    }

    /// Polls the future once, or drops it if the task was cancelled.
    #[inline(always)]
    pub(crate) fn run(self) {
        if self.0.header().is_cancelling() {
            // Dropping the step drops the future.
            return;
        }
        let task = self.into_task();
        let (task, head) = (&task, task.head());
        head.run_state.set(RunState::Running);
        // SAFETY: `functions` are of the types of this cell. This is the loop's thread: a `Step` is not `Send`. Only a
        // `Step` changes the state to `Running`, there is one at a time, and nothing else uses the future in that state.
        if unsafe { (head.functions.poll)(task) } {
            return;
        }
        let is_woken = head.run_state.replace(RunState::Idle) == RunState::RunningWoken;
        if task.header().is_cancelling() {
            task.drop_future();
        } else if is_woken {
            wake_task(task.head, head);
        }
    }

    /// The task, without dropping the step.
    fn into_task(self) -> AnyTask {
        let step = ManuallyDrop::new(self);
        // SAFETY: the step is not used again.
        unsafe { ptr::read(&step.0) }
    }
}

impl Drop for Step {
    #[inline]
    fn drop(&mut self) {
        if self.0.head().run_state.get() == RunState::Scheduled {
            drop_unused(self);
        }
    }
}

/// The step was not run: its task was cancelled, or its loop is closed.
#[cold]
#[inline(never)]
fn drop_unused(step: &Step) {
    step.0.header().begin_cancel();
    step.0.drop_future();
}

/// # Safety
///
/// As [`Functions::poll`]: the types are those of the cell, the state is `Running`, and the caller is its only step.
unsafe fn poll<F, S>(task: &AnyTask) -> bool
where
    F: Future<Output = S::Output>,
    S: ResultSink,
{
    let cell = task.head.cast::<TaskCell<F, S>>();
    // SAFETY: the type is right. The state is `Running`, so the future is initialised, and only this function uses it. It
    // is pinned: it is in the allocation, and dropped in place.
    let future = unsafe { Pin::new_unchecked((*(*cell.as_ptr()).future.get()).assume_init_mut()) };
    let waker = borrowed_waker(task);
    let polled = current_task::run_as_current(task, || {
        catch_payload(|| future.poll(&mut Context::from_waker(&waker)))
    });
    let result = match polled {
        Ok(Poll::Pending) => return false,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(payload) => Err(JoinError::panicked(Some(task.header().task_name()), payload)),
    };
    // SAFETY: the types are right, and the poll has returned.
    unsafe { settle::<F, S>(task, result) };
    true
}

/// # Safety
///
/// The types are those of the cell, this is the loop's thread, and the future is present and not being polled.
#[cold]
unsafe fn drop_future<F, S>(task: &AnyTask)
where
    F: Future<Output = S::Output>,
    S: ResultSink,
{
    let error = JoinError::cancelled(Some(task.header().task_name()));
    // SAFETY: as this function requires.
    unsafe { settle::<F, S>(task, Err(error)) };
}

/// Drops the future and passes the result to the sink. If the destructor panics, that panic is the result.
///
/// # Safety
///
/// As [`drop_future`].
#[inline(always)]
unsafe fn settle<F, S>(task: &AnyTask, result: Result<S::Output, JoinError>)
where
    F: Future<Output = S::Output>,
    S: ResultSink,
{
    let cell = task.head.cast::<TaskCell<F, S>>();
    // From here on no other code uses the future.
    task.head().run_state.set(RunState::Done);
    let result = if needs_drop::<F>() {
        // SAFETY: the type is right. The future is initialised, as this function requires. It is not used again: this
        // function is called once, because the state is `Done`.
        let drop_in_place = || unsafe { (*(*cell.as_ptr()).future.get()).assume_init_drop() };
        let dropped = current_task::run_as_current(task, || catch_payload(drop_in_place));
        match dropped {
            Ok(()) => result,
            Err(payload) => {
                // The output is also a user value.
                let _ = catch(|| drop(result));
                Err(JoinError::panicked(Some(task.header().task_name()), payload))
            }
        }
    } else {
        result
    };
    // SAFETY: the type is right. A task that has a future has a sink, and this function is called once: the state was not
    // `Done`.
    let sink = unsafe { (*(*cell.as_ptr()).sink.get()).assume_init_read() };
    // Borrows the reference of the caller.
    let task = AnyTask { head: task.head, _marker: PhantomData };
    let task = ManuallyDrop::new(TaskRef { task, _marker: PhantomData });
    sink.settle(&task, result);
    if needs_drop::<S>() {
        task.header.catch(|| drop(sink));
    }
    // Drops the context variables with the future, not with the last handle.
    if let Some(variables) = task.header.context.take() {
        task.header.catch(|| drop(variables));
    }
}

/// # Safety
///
/// The types are those of the cell, this is the loop's thread, and no reference of this thread is left.
unsafe fn drop_state<F, S: ResultSink>(head: NonNull<TaskHead>) {
    let cell = head.cast::<TaskCell<F, S>>().as_ptr();
    // SAFETY: no reference to these fields is left, and they are not used again. The head, which other threads may use,
    // is not part of them. The future and the sink are gone: a task that is not done is in the list of its loop, or has a
    // step, and each is a reference.
    unsafe {
        ptr::drop_in_place(&raw mut (*cell).header);
        ptr::drop_in_place(&raw mut (*cell).progress);
    }
}
