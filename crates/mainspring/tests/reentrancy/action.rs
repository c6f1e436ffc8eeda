//! The actions of callbacks: the columns of the table.

use crate::scenario::Scenario;
use mainspring::Error;
use std::rc::Rc;
use test_support::DELIBERATE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Close,
    Abort,
    CloseThenAbort,
    WriteSmall,
    WriteLarge,
    WriteLargeThenClose,
    WriteLargeThenAbort,
    WriteEof,
    WriteLargeThenEof,
    PauseReading,
    PauseAndResumeReading,
    ResumeReading,
    SetWriteBufferLimits,
    StopLoop,
    CloseLoop,
    DropEverything,
    Panic,
    CancelHandles,
    CancelOwnTimer,
    CancelOtherTimer,
    RemoveOwnReader,
    RemoveOtherReader,
    ReplaceOtherReader,
    RemoveWriters,
    WriteToOther,
    CloseOther,
    AbortOther,
    SpawnTask,
    RunInside,
    CloseServer,
}

impl Action {
    pub const ALL: [Action; 30] = [
        Action::Close,
        Action::Abort,
        Action::CloseThenAbort,
        Action::WriteSmall,
        Action::WriteLarge,
        Action::WriteLargeThenClose,
        Action::WriteLargeThenAbort,
        Action::WriteEof,
        Action::WriteLargeThenEof,
        Action::PauseReading,
        Action::PauseAndResumeReading,
        Action::ResumeReading,
        Action::SetWriteBufferLimits,
        Action::StopLoop,
        Action::CloseLoop,
        Action::DropEverything,
        Action::Panic,
        Action::CancelHandles,
        Action::CancelOwnTimer,
        Action::CancelOtherTimer,
        Action::RemoveOwnReader,
        Action::RemoveOtherReader,
        Action::ReplaceOtherReader,
        Action::RemoveWriters,
        Action::WriteToOther,
        Action::CloseOther,
        Action::AbortOther,
        Action::SpawnTask,
        Action::RunInside,
        Action::CloseServer,
    ];

    /// Whether the connection of the subject may lose data by this action.
    pub fn may_lose_data(self) -> bool {
        matches!(
            self,
            Action::Abort
                | Action::CloseThenAbort
                | Action::WriteLargeThenAbort
                | Action::Panic
                | Action::CloseServer
        )
    }

    /// Runs inside a callback.
    pub fn act(self, scenario: &Rc<Scenario>) {
        let (subject, other, event_loop) =
            (&scenario.subject, &scenario.other, &scenario.test_loop.event_loop);
        let transport = subject.transport();
        let transport = transport.as_ref();
        match self {
            Action::Close => transport.into_iter().for_each(|transport| {
                transport.close();
                transport.close();
                assert!(transport.is_closing());
            }),
            Action::Abort => transport.into_iter().for_each(|transport| {
                transport.abort();
                transport.abort();
                assert_eq!((transport.is_closing(), transport.get_write_buffer_size()), (true, 0));
            }),
            Action::CloseThenAbort => transport.into_iter().for_each(|transport| {
                transport.close();
                transport.abort();
                transport.close();
            }),
            Action::WriteSmall => subject.write(3),
            Action::WriteLarge => subject.fill(),
            Action::WriteLargeThenClose => {
                subject.fill();
                transport.into_iter().for_each(|transport| transport.close());
            }
            Action::WriteLargeThenAbort => {
                subject.fill();
                transport.into_iter().for_each(|transport| transport.abort());
            }
            Action::WriteEof => {
                subject.write_eof();
                subject.write_eof();
            }
            Action::WriteLargeThenEof => {
                subject.fill();
                subject.write_eof();
            }
            Action::PauseReading => transport.into_iter().for_each(|transport| {
                transport.pause_reading();
                transport.pause_reading();
                assert!(!transport.is_reading());
            }),
            Action::PauseAndResumeReading => transport.into_iter().for_each(|transport| {
                transport.pause_reading();
                transport.resume_reading();
            }),
            Action::ResumeReading => transport.into_iter().for_each(|transport| transport.resume_reading()),
            Action::SetWriteBufferLimits => transport.into_iter().for_each(|transport| {
                for (high, low) in [(Some(0), None), (None, Some(1 << 30)), (Some(1000), Some(10))] {
                    transport.set_write_buffer_limits(high, low).unwrap();
                }
            }),
            Action::StopLoop => event_loop.stop(),
            Action::CloseLoop => assert!(matches!(event_loop.close(), Err(Error::AlreadyRunning))),
            Action::DropEverything => scenario.drop_everything(),
            Action::Panic => std::panic::panic_any(DELIBERATE),
            Action::CancelHandles => scenario.pending_callbacks.cancel_handles(),
            Action::CancelOwnTimer => scenario.pending_callbacks.cancel_timer(0),
            Action::CancelOtherTimer => scenario.pending_callbacks.cancel_timer(1),
            Action::RemoveOwnReader => scenario.pending_callbacks.remove_reader(0),
            Action::RemoveOtherReader => scenario.pending_callbacks.remove_reader(1),
            Action::ReplaceOtherReader => scenario.pending_callbacks.replace_reader(scenario, 1),
            Action::RemoveWriters => scenario.pending_callbacks.remove_writers(),
            Action::WriteToOther => other.fill(),
            Action::CloseOther => other.transport().iter().for_each(|transport| transport.close()),
            Action::AbortOther => other.transport().iter().for_each(|transport| transport.abort()),
            Action::SpawnTask => {
                let runs = Rc::clone(&scenario.task_runs);
                drop(event_loop.spawn(async move { runs.set(runs.get() + 1) }).unwrap());
            }
            Action::RunInside => {
                assert!(matches!(event_loop.run_until_complete(async {}), Err(Error::AlreadyRunning)));
                assert!(matches!(event_loop.run_forever(), Err(Error::AlreadyRunning)));
            }
            Action::CloseServer => scenario.server.borrow().iter().for_each(|server| server.close()),
        }
    }
}
