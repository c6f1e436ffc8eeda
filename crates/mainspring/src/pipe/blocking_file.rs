//! `BlockingFile`: a kind of connection for files that epoll does not support. The executor does the blocking calls.
//! Used for regular files, devices such as `/dev/null`, and shared fds that must stay blocking.
//!
//! # Rules
//!
//! - At most one call is in the executor at a time, so that bytes keep their order. Its result returns through the
//!   loop's inbox with the number of the file, because the file object is not `Send`.
//! - The loop keeps the file alive while a call is in progress.
//! - Closing the loop waits for the call in progress and writes the rest, so that a program that ends has written
//!   everything, as with `println!`.

use crate::event_loop::{Core, ExceptionContext, Retained, run_in_executor, wake_call};
use crate::host::{Call, Failure, Inbound, RustHost, Source};
use crate::net::Transport;
use crate::net::connection::{ProtocolRef, ProtocolSlot, TransportImpl, WithFd};
use mainspring_engine::Host;
use mainspring_engine::memory;
use mainspring_engine::transport::{Cx, DeferredCall, FlowControl, ProtocolSink, WaterMarks};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes read by one call.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// The files of this thread by number. Numbers are not reused.
    static BLOCKING_FILES: RefCell<(u64, HashMap<u64, Weak<BlockingFile>>)> = RefCell::default();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileDirection {
    Reading,
    Writing,
}

/// See the module documentation.
pub(super) struct BlockingFile {
    core: Weak<Core>,
    protocol_slot: ProtocolSlot,
    number: u64,
    direction: FileDirection,
    fd: RawFd,
    file: RefCell<Option<Arc<SharedFile>>>,
    /// Data not passed to the executor yet, or read but not delivered because reading is paused.
    buffer: RefCell<Vec<u8>>,
    /// Number of bytes passed to the executor.
    in_flight: Cell<usize>,
    /// The key under which the loop keeps this file alive while a call is in progress.
    loop_key: Cell<Option<usize>>,
    flow: FlowControl,
    is_paused: Cell<bool>,
    is_closing: Cell<bool>,
    is_lost: Cell<bool>,
    failure: Cell<Option<Failure>>,
}

/// Shared with the call in progress.
struct SharedFile {
    file: File,
    /// The data to write. The first to lock it, the call or the closing loop, writes it under the lock.
    to_write: Mutex<Vec<u8>>,
}

impl BlockingFile {
    /// Attaches a protocol to a file for reading.
    pub(super) fn open_reading(
        core: &Rc<Core>,
        file: OwnedFd,
        protocol: impl Into<ProtocolRef>,
    ) -> Transport {
        Self::open(core, file, protocol, FileDirection::Reading)
    }

    /// Attaches a protocol to a file for writing.
    pub(super) fn open_writing(
        core: &Rc<Core>,
        file: OwnedFd,
        protocol: impl Into<ProtocolRef>,
    ) -> Transport {
        Self::open(core, file, protocol, FileDirection::Writing)
    }

    fn open(
        core: &Rc<Core>,
        file: OwnedFd,
        protocol: impl Into<ProtocolRef>,
        direction: FileDirection,
    ) -> Transport {
        let number = BLOCKING_FILES.with_borrow_mut(|(last_number, _)| {
            *last_number += 1;
            *last_number
        });
        let blocking_file = Rc::new(BlockingFile {
            core: Rc::downgrade(core),
            protocol_slot: ProtocolSlot::new(protocol, None),
            number,
            direction,
            fd: file.as_raw_fd(),
            file: RefCell::new(Some(Arc::new(SharedFile {
                file: File::from(file),
                to_write: Mutex::default(),
            }))),
            buffer: RefCell::default(),
            in_flight: Cell::new(0),
            loop_key: Cell::new(None),
            flow: FlowControl::default(),
            is_paused: Cell::new(false),
            is_closing: Cell::new(false),
            is_lost: Cell::new(false),
            failure: Cell::new(None),
        });
        BLOCKING_FILES.with_borrow_mut(|(_, files)| files.insert(number, Rc::downgrade(&blocking_file)));
        let this: Rc<dyn Source> = Rc::<BlockingFile>::clone(&blocking_file);
        core.call_soon(Call::Deferred(Rc::clone(&this), DeferredCall::ConnectionMade));
        core.call_soon(Call::Deferred(Rc::clone(&this), DeferredCall::StartReading));
        Transport::new(this)
    }

    fn is_busy(&self) -> bool {
        self.loop_key.get().is_some()
    }

    fn size(&self) -> usize {
        if self.direction == FileDirection::Writing {
            self.buffer.borrow().len() + self.in_flight.get()
        } else {
            0
        }
    }

    /// Runs `call` in the executor. It returns the bytes read, if it reads.
    fn submit(
        self: &Rc<Self>,
        core: &Core,
        to_write: Vec<u8>,
        call: fn(&SharedFile) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let Some(file) = self.file.borrow().clone() else { return Err(io::ErrorKind::NotConnected.into()) };
        // The lock is free because no call is in progress.
        *file.lock() = to_write;
        let (inbox, number) = (Arc::clone(core.inbox()), self.number);
        let job = move || {
            let result = call(&file);
            drop(file);
            // A closed loop ignores the result.
            let _ = wake_call(&inbox, Inbound::Once(Box::new(move || completed(number, result))));
        };
        // The result arrives through the inbox, not through this future.
        drop(run_in_executor(core, job)?);
        self.loop_key.set(Some(core.retain(Rc::<BlockingFile>::clone(self))));
        Ok(())
    }

    /// Delivers buffered data and starts the next read or write.
    fn advance(self: &Rc<Self>, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        let Some(core) = self.core.upgrade() else { return Ok(()) };
        if self.direction == FileDirection::Reading && self.is_reading() {
            let buffered = self.buffer.take();
            if !buffered.is_empty() {
                self.protocol_slot.data_received(cx, &buffered)?;
            }
        }
        if self.is_busy() || self.is_lost.get() {
            return Ok(());
        }
        let submitted = match self.direction {
            FileDirection::Reading if self.is_reading() => self.submit(&core, Vec::new(), read_some),
            FileDirection::Writing if !self.buffer.borrow().is_empty() => {
                let data = self.buffer.take();
                self.in_flight.set(data.len());
                self.submit(&core, data, |shared| shared.write(&[]).map(|()| Vec::new()))
            }
            FileDirection::Writing if self.is_closing.get() => return self.schedule_lost(cx, None),
            _ => return Ok(()),
        };
        submitted.or_else(|error| self.schedule_lost(cx, Some(Failure::Io(error))))
    }

    /// Handles the end of a call.
    fn completed(self: &Rc<Self>, cx: Cx<'_, RustHost>, result: io::Result<Vec<u8>>) -> Result<(), Failure> {
        self.in_flight.set(0);
        let outcome = match result {
            Err(error) => self.schedule_lost(cx, Some(Failure::Io(error))),
            Ok(_) if self.direction == FileDirection::Writing => {
                self.flow.shrunk(cx, self.size(), || self.protocol_slot.resume_writing(cx))
            }
            Ok(_) if self.is_closing.get() => Ok(()),
            Ok(data) if data.is_empty() => {
                let outcome = self.protocol_slot.eof_received(cx).map(drop);
                cx.host().merge_outcomes(outcome, self.schedule_lost(cx, None))
            }
            Ok(data) => {
                self.buffer.borrow_mut().extend(data);
                Ok(())
            }
        };
        cx.host().merge_outcomes(outcome, self.advance(cx))
    }

    /// Schedules `connection_lost`, once.
    fn schedule_lost(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.is_closing.set(true);
        if !self.is_lost.replace(true) {
            self.failure.set(failure);
            let dropped = self.buffer.take();
            drop(dropped);
            cx.engine.call_soon(Call::Deferred(Rc::clone(cx.this), DeferredCall::ConnectionLost));
        }
        Ok(())
    }
}

impl SharedFile {
    /// Writes the data of the call, unless it is written already, and `more`.
    fn write(&self, more: &[u8]) -> io::Result<()> {
        let mut to_write = self.lock();
        let data = std::mem::take(&mut *to_write);
        let mut file = &self.file;
        file.write_all(&data)?;
        file.write_all(more)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // Nothing panics under the lock, so poisoning can be ignored.
        self.to_write.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_some(shared: &SharedFile) -> io::Result<Vec<u8>> {
    let mut data = vec![0; READ_BYTES];
    loop {
        match (&shared.file).read(&mut data) {
            Ok(count) => {
                data.truncate(count);
                return Ok(data);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The file with this number, if it still exists.
fn find(number: u64) -> Option<Rc<BlockingFile>> {
    BLOCKING_FILES.with_borrow(|(_, files)| files.get(&number).and_then(Weak::upgrade))
}

/// Called on the loop's thread when a call of the file `number` has ended.
fn completed(number: u64, result: io::Result<Vec<u8>>) {
    let Some((blocking_file, core)) =
        find(number).and_then(|blocking_file| blocking_file.core.upgrade().map(|core| (blocking_file, core)))
    else {
        return;
    };
    let retained = blocking_file.loop_key.take().and_then(|key| core.release(key));
    let this: Rc<dyn Source> = Rc::<BlockingFile>::clone(&blocking_file);
    if let Err(failure) = blocking_file.completed(Cx { engine: &core.engine, this: &this }, result) {
        core.call_exception_handler(&ExceptionContext::from_failure("A protocol's callback failed", failure));
    }
    drop(retained);
}

impl Retained for BlockingFile {
    fn detach_from_loop(&self) {
        if self.direction == FileDirection::Reading {
            return;
        }
        let file = self.file.borrow().clone();
        let rest = self.buffer.take();
        let written = file.map_or(Ok(()), |file| file.write(&rest));
        if let (Err(error), Some(core)) = (written, self.core.upgrade()) {
            let message = "Data for a file could not be written when the loop was closed";
            core.call_exception_handler(&ExceptionContext::new(message).with_error(error));
        }
    }
}

impl Drop for BlockingFile {
    fn drop(&mut self) {
        // The list may be destroyed already when the thread ends.
        let _ = BLOCKING_FILES.try_with(|files| files.borrow_mut().1.remove(&self.number));
    }
}

impl TransportImpl for BlockingFile {
    fn core(&self) -> &Weak<Core> {
        &self.core
    }

    fn protocol_slot(&self) -> &ProtocolSlot {
        &self.protocol_slot
    }

    fn run_deferred(&self, cx: Cx<'_, RustHost>, deferred: DeferredCall) -> Result<(), Failure> {
        match deferred {
            DeferredCall::ConnectionMade => self.protocol_slot.connection_made(cx),
            DeferredCall::StartReading => find(self.number).map_or(Ok(()), |this| this.advance(cx)),
            DeferredCall::ConnectionLost => {
                let outcome = self.protocol_slot.connection_lost(cx, self.failure.take());
                let file = self.file.take();
                drop(file);
                cx.host().merge_outcomes(outcome, self.protocol_slot.detach(cx))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        if self.direction == FileDirection::Reading {
            let text = format!("file descriptor {} is open for reading only", self.fd);
            return Err(Failure::Io(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        if self.is_closing.get() || data.is_empty() {
            return Ok(());
        }
        memory::append(&mut self.buffer.borrow_mut(), data).map_err(Failure::Io)?;
        // Submit at once, so that a program that ends now has written it.
        if let Some(this) = find(self.number) {
            this.advance(cx)?;
        }
        self.flow.grown(cx, self.size(), || self.protocol_slot.pause_writing(cx))
    }

    fn can_write_eof(&self) -> bool {
        self.direction == FileDirection::Writing
    }

    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.close(cx)
    }

    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        if self.is_closing.replace(true) {
            return Ok(());
        }
        if self.size() == 0 { self.schedule_lost(cx, None) } else { Ok(()) }
    }

    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.schedule_lost(cx, failure)
    }

    fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    fn pause_reading(&self, _: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let changes = self.is_reading();
        self.is_paused.set(self.is_paused.get() || changes);
        Ok(changes)
    }

    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let changes = !self.is_closing.get() && self.is_paused.replace(false);
        if changes {
            // In the next iteration, so that callbacks do not nest.
            cx.engine.call_soon(Call::Deferred(Rc::clone(cx.this), DeferredCall::StartReading));
        }
        Ok(changes)
    }

    fn is_reading(&self) -> bool {
        self.direction == FileDirection::Reading && !self.is_closing.get() && !self.is_paused.get()
    }

    fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    fn write_buffer_size(&self, _: Cx<'_, RustHost>) -> Result<usize, Failure> {
        Ok(self.size())
    }

    fn water_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        self.flow.set_marks(marks);
        self.flow.grown(cx, self.size(), || self.protocol_slot.pause_writing(cx))
    }

    fn fd(&self) -> RawFd {
        self.fd
    }

    fn with_fd(&self, f: WithFd<'_>) -> io::Result<()> {
        let file = self.file.borrow().clone().ok_or(io::ErrorKind::NotConnected)?;
        f(file.file.as_fd())
    }
}
