//! A cell of the table: its objects, the trigger of its callback, and the final checks.

use crate::Callback;
use crate::action::Action;
use crate::pending_callbacks::PendingCallbacks;
use crate::support::TestLoop;
use crate::support::probe::{Accepted, Probe, ProbeProtocol, ProtocolEvent, connect, probe_server};
use mainspring::Server;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use test_support::{DELIBERATE, TestBackend};

pub struct Scenario {
    pub test_loop: TestLoop,
    pub subject: Rc<Probe>,
    pub other: Rc<Probe>,
    pub server: RefCell<Option<Server>>,
    pub pending_callbacks: PendingCallbacks,
    pub task_runs: Rc<Cell<u32>>,
    other_peer: Rc<Probe>,
    accepted: Accepted,
    callback: Callback,
    action: Action,
    /// Whether the callback performs the action when it is called.
    is_armed: Cell<bool>,
    acted: Cell<u32>,
}

const SIGNAL: i32 = libc::SIGUSR1;

impl Scenario {
    pub fn new(on: TestBackend, callback: Callback, action: Action) -> Rc<Self> {
        let test_loop = TestLoop::new(on, format!("{action:?} in {callback:?} on {on:?}"));
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let (other, other_peer) = connect(&test_loop, &server, &accepted, "the other connection");
        Rc::new(Scenario {
            test_loop,
            subject: Probe::new("the subject"),
            other,
            server: RefCell::new(Some(server)),
            pending_callbacks: PendingCallbacks::default(),
            task_runs: Rc::default(),
            other_peer,
            accepted,
            callback,
            action,
            is_armed: Cell::new(false),
            acted: Cell::new(0),
        })
    }

    /// A callback was called.
    pub fn callback_called(self: &Rc<Self>, callback: Callback) {
        if callback == self.callback && self.is_armed.replace(false) {
            self.acted.set(self.acted.get() + 1);
            self.action.act(self);
        }
    }

    /// Drops every reference except those of the loop.
    pub fn drop_everything(&self) {
        let held = (self.subject.transport.take(), self.other.transport.take(), self.server.take());
        drop(held);
        self.pending_callbacks.drop_handles();
    }

    /// The server's end of the subject's connection.
    fn peer(&self) -> Option<Rc<Probe>> {
        self.accepted.borrow().get(1).cloned()
    }

    /// Triggers the callback, closes everything, and checks the outcome.
    pub fn run(self: Rc<Self>) {
        self.install_hooks();
        self.is_armed.set(self.callback == Callback::ConnectionMade);
        self.connect_subject();
        self.is_armed.set(self.callback != Callback::ConnectionMade);
        self.pending_callbacks.start(&self);
        self.trigger();
        self.test_loop.until("the action is performed", || self.acted.get() == 1);
        self.test_loop.until("the pending callbacks run", || self.pending_callbacks.are_done());
        self.close_everything();
        self.check();
    }

    /// Installs hooks that record the callbacks.
    fn install_hooks(self: &Rc<Self>) {
        let scenario = Rc::downgrade(self);
        *self.subject.hook.borrow_mut() = Some(Rc::new(move |event| {
            let Some(scenario) = scenario.upgrade() else { return };
            scenario.callback_called(match event {
                ProtocolEvent::Made => Callback::ConnectionMade,
                ProtocolEvent::Data => Callback::DataReceived,
                ProtocolEvent::Eof if scenario.subject.keeps_open.get() => Callback::EofReceivedKeepingOpen,
                ProtocolEvent::Eof => Callback::EofReceived,
                ProtocolEvent::Lost => Callback::ConnectionLost,
                ProtocolEvent::Pause => Callback::PauseWriting,
                ProtocolEvent::Resume => Callback::ResumeWriting,
            });
        }));
        let (scenario, reports) = (Rc::downgrade(self), Rc::clone(&self.test_loop.reports));
        self.test_loop.event_loop.set_exception_handler(move |context| {
            reports.borrow_mut().push(context.to_string());
            if let Some(scenario) = scenario.upgrade() {
                scenario.callback_called(Callback::ExceptionHandler);
            }
        });
        self.subject.keeps_open.set(self.callback == Callback::EofReceivedKeepingOpen);
    }

    fn connect_subject(&self) {
        let address = self.server.borrow().as_ref().unwrap().local_addr();
        let (event_loop, protocol) =
            (self.test_loop.event_loop.clone(), ProbeProtocol(Rc::clone(&self.subject)));
        let connecting = self
            .test_loop
            .event_loop
            .spawn(async move { event_loop.create_connection(address, || protocol).await.map(drop) });
        let connecting = connecting.unwrap();
        self.test_loop.until("the subject is connected", || connecting.is_finished());
        self.test_loop.run(connecting).unwrap().unwrap();
        assert_eq!(
            self.subject.made.get(),
            1,
            "{}: connected without connection_made",
            self.test_loop.name()
        );
        // If the server was closed meanwhile, there may be no peer.
        let is_met = || self.peer().is_some_and(|peer| peer.made.get() == 1);
        if self.action == Action::CloseServer || self.action == Action::DropEverything {
            self.test_loop.run_iterations(3);
        } else {
            self.test_loop.until("the subject is accepted", is_met);
        }
    }

    fn trigger(self: &Rc<Self>) {
        let event_loop = &self.test_loop.event_loop;
        let peer = self.peer();
        let peer_transport = peer.as_ref().and_then(|peer| peer.transport());
        match self.callback {
            Callback::DataReceived => peer.iter().for_each(|peer| peer.write(5)),
            Callback::EofReceived | Callback::EofReceivedKeepingOpen => {
                peer_transport.iter().for_each(|transport| transport.write_eof());
            }
            Callback::ConnectionLost => {
                self.subject.transport().iter().for_each(|transport| transport.close())
            }
            Callback::PauseWriting | Callback::ResumeWriting => {
                peer_transport.iter().for_each(|transport| transport.pause_reading());
                let subject = Rc::clone(&self.subject);
                event_loop.call_soon(move || subject.fill()).unwrap();
                self.test_loop.run_iterations(2);
                if self.callback == Callback::ResumeWriting {
                    peer_transport.iter().for_each(|transport| transport.resume_reading());
                }
            }
            Callback::SignalHandler => {
                let scenario = Rc::downgrade(self);
                let handler = move || {
                    if let Some(scenario) = scenario.upgrade() {
                        scenario.callback_called(Callback::SignalHandler);
                    }
                };
                event_loop.add_signal_handler(SIGNAL, handler).unwrap();
                // SAFETY: the signal has a handler, which only writes to a pipe.
                assert_eq!(unsafe { libc::raise(SIGNAL) }, 0);
            }
            Callback::DoneCallback => {
                let (future, scenario) = (event_loop.create_future(), Rc::downgrade(self));
                future.add_done_callback(move |_| {
                    if let Some(scenario) = scenario.upgrade() {
                        scenario.callback_called(Callback::DoneCallback);
                    }
                });
                future.set_result(()).unwrap();
            }
            Callback::ExceptionHandler => {
                event_loop.call_soon(|| std::panic::panic_any(DELIBERATE)).unwrap();
            }
            Callback::ConnectionMade
            | Callback::Reader
            | Callback::Writer
            | Callback::Timer
            | Callback::CallSoon => {}
        }
    }

    /// Lets both connections finish, then closes everything.
    fn close_everything(&self) {
        self.is_armed.set(false);
        self.subject.keeps_open.set(false);
        self.finish(&self.subject, self.peer().as_deref());
        self.finish(&self.other, Some(&self.other_peer));
        let server = self.server.take();
        drop(server);
        self.test_loop.event_loop.remove_signal_handler(SIGNAL);
        self.test_loop.until("the pending callbacks run", || self.pending_callbacks.are_done());
        self.pending_callbacks.end();
    }

    fn finish(&self, near: &Rc<Probe>, far: Option<&Probe>) {
        let each = [Some(&**near), far];
        for probe in each.into_iter().flatten() {
            probe.transport().iter().for_each(|transport| transport.resume_reading());
        }
        // A dropped transport, or one that has received EOF, ends when its peer does. A closing transport needs its
        // peer to keep reading.
        let is_gone = near.transport().is_none() && near.lost.get() == 0;
        if let Some(far) = far
            && !near.is_closing()
            && !far.is_closing()
        {
            let is_through = || {
                let all_arrived = far.received.borrow().len() == near.sent.get()
                    && near.received.borrow().len() == far.sent.get();
                all_arrived || near.is_closing() || far.is_closing()
            };
            self.test_loop.until("everything has arrived", is_through);
        }
        if is_gone {
            far.and_then(Probe::transport).iter().for_each(|transport| transport.close());
        }
        near.transport().iter().for_each(|transport| transport.close());
        if let Some(far) = far {
            self.test_loop.until("the far end is lost", || far.lost.get() == 1);
        }
        let is_over = || near.lost.get() == 1 || is_gone && Rc::strong_count(near) == 1;
        self.test_loop.until("the near end is lost", is_over);
    }

    fn check(self: Rc<Self>) {
        let at = self.test_loop.name().to_owned();
        assert_eq!(self.acted.get(), 1, "{at}: number of actions");
        let peer = self.peer();
        let peer = peer.as_deref();
        self.subject.assert_in_order(peer, &at);
        self.other.assert_in_order(Some(&self.other_peer), &at);
        self.other_peer.assert_in_order(Some(&self.other), &at);
        if let Some(peer) = peer {
            peer.assert_in_order(Some(&self.subject), &at);
            // Data written after `connection_lost` is not sent.
            let is_late = self.callback == Callback::ConnectionLost;
            if !self.action.may_lose_data() && !is_late {
                let received = peer.received.borrow().len();
                assert_eq!(received, self.subject.sent.get(), "{at}: not all has arrived");
            }
        }
        if self.action != Action::AbortOther {
            let received = self.other_peer.received.borrow().len();
            assert_eq!(received, self.other.sent.get(), "{at}: not all has arrived on the other connection");
        }
        self.pending_callbacks.assert(&at);
        assert_eq!(
            self.task_runs.get(),
            u32::from(self.action == Action::SpawnTask),
            "{at}: runs of the spawned task"
        );
        let panics = usize::from(self.callback == Callback::ExceptionHandler || self.action == Action::Panic);
        let reports = self.test_loop.reports.take();
        assert_eq!(reports.len(), panics, "{at}: unexpected reports: {reports:?}");
        self.subject.hook.take();
        self.test_loop.event_loop.reset_exception_handler();
        self.test_loop.assert_idle();
        assert_eq!(Rc::strong_count(&self), 1, "{at}: the scenario is still referenced");
    }
}
