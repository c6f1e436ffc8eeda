//! A cell of the table: what there is in it, how its callback comes about, and what holds in the end.

use crate::Callback;
use crate::action::Action;
use crate::bystanders::Bystanders;
use crate::support::Stage;
use crate::support::probe::{Accepted, Face, Probe, Told, connect, probe_server};
use mainspring::Server;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use test_support::{DELIBERATE, On};

pub struct World {
    pub stage: Stage,
    pub subject: Rc<Probe>,
    pub other: Rc<Probe>,
    pub server: RefCell<Option<Server>>,
    pub bystanders: Bystanders,
    pub task_runs: Rc<Cell<u32>>,
    other_peer: Rc<Probe>,
    accepted: Accepted,
    callback: Callback,
    action: Action,
    /// Whether the callback may act from now on.
    is_armed: Cell<bool>,
    acted: Cell<u32>,
}

const SIGNAL: i32 = libc::SIGUSR1;

impl World {
    pub fn new(on: On, callback: Callback, action: Action) -> Rc<Self> {
        let stage = Stage::new(on, format!("{action:?} in {callback:?} on {on:?}"));
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let (other, other_peer) = connect(&stage, &server, &accepted, "the other connection");
        Rc::new(World {
            stage,
            subject: Probe::new("the subject"),
            other,
            server: RefCell::new(Some(server)),
            bystanders: Bystanders::default(),
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
    pub fn happened(self: &Rc<Self>, callback: Callback) {
        if callback == self.callback && self.is_armed.replace(false) {
            self.acted.set(self.acted.get() + 1);
            self.action.act(self);
        }
    }

    /// Lets go of every reference but those of the loop.
    pub fn drop_everything(&self) {
        let held = (self.subject.transport.take(), self.other.transport.take(), self.server.take());
        drop(held);
        self.bystanders.drop_handles();
    }

    /// The server's end of the subject's connection.
    fn peer(&self) -> Option<Rc<Probe>> {
        self.accepted.borrow().get(1).cloned()
    }

    /// Brings the callback about, winds everything down, and checks what is left.
    pub fn play(self: Rc<Self>) {
        self.listen();
        self.is_armed.set(self.callback == Callback::ConnectionMade);
        self.connect_subject();
        self.is_armed.set(self.callback != Callback::ConnectionMade);
        self.bystanders.start(&self);
        self.bring_about();
        self.stage.until("the callback acts", || self.acted.get() == 1);
        self.stage.until("the bystanders run", || self.bystanders.are_done());
        self.wind_down();
        self.check();
    }

    /// Has the probes and the loop tell what happens.
    fn listen(self: &Rc<Self>) {
        let world = Rc::downgrade(self);
        *self.subject.hook.borrow_mut() = Some(Rc::new(move |told| {
            let Some(world) = world.upgrade() else { return };
            world.happened(match told {
                Told::Made => Callback::ConnectionMade,
                Told::Data => Callback::DataReceived,
                Told::Eof if world.subject.keeps_open.get() => Callback::EofReceivedKeepingOpen,
                Told::Eof => Callback::EofReceived,
                Told::Lost => Callback::ConnectionLost,
                Told::Pause => Callback::PauseWriting,
                Told::Resume => Callback::ResumeWriting,
            });
        }));
        let (world, reports) = (Rc::downgrade(self), Rc::clone(&self.stage.reports));
        self.stage.event_loop.set_exception_handler(move |context| {
            reports.borrow_mut().push(context.to_string());
            if let Some(world) = world.upgrade() {
                world.happened(Callback::ExceptionHandler);
            }
        });
        self.subject.keeps_open.set(self.callback == Callback::EofReceivedKeepingOpen);
    }

    fn connect_subject(&self) {
        let address = self.server.borrow().as_ref().unwrap().local_addr();
        let (event_loop, face) = (self.stage.event_loop.clone(), Face(Rc::clone(&self.subject)));
        let connecting = self
            .stage
            .event_loop
            .spawn(async move { event_loop.create_connection(address, || face).await.map(drop) });
        let connecting = connecting.unwrap();
        self.stage.until("the subject is connected", || connecting.is_finished());
        self.stage.run(connecting).unwrap().unwrap();
        assert_eq!(self.subject.made.get(), 1, "{}: connected without being told", self.stage.name());
        // In a world whose server was closed meanwhile, there may be no peer.
        let is_met = || self.peer().is_some_and(|peer| peer.made.get() == 1);
        if self.action == Action::CloseServer || self.action == Action::DropEverything {
            self.stage.passes(3);
        } else {
            self.stage.until("the subject is accepted", is_met);
        }
    }

    fn bring_about(self: &Rc<Self>) {
        let event_loop = &self.stage.event_loop;
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
                self.stage.passes(2);
                if self.callback == Callback::ResumeWriting {
                    peer_transport.iter().for_each(|transport| transport.resume_reading());
                }
            }
            Callback::SignalHandler => {
                let world = Rc::downgrade(self);
                let handler = move || {
                    if let Some(world) = world.upgrade() {
                        world.happened(Callback::SignalHandler);
                    }
                };
                event_loop.add_signal_handler(SIGNAL, handler).unwrap();
                // SAFETY: the signal has a handler, which only writes to a pipe.
                assert_eq!(unsafe { libc::raise(SIGNAL) }, 0);
            }
            Callback::DoneCallback => {
                let (future, world) = (event_loop.create_future(), Rc::downgrade(self));
                future.add_done_callback(move |_| {
                    if let Some(world) = world.upgrade() {
                        world.happened(Callback::DoneCallback);
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

    /// Lets both connections finish what they have begun, then closes all.
    fn wind_down(&self) {
        self.is_armed.set(false);
        self.subject.keeps_open.set(false);
        self.finish(&self.subject, self.peer().as_deref());
        self.finish(&self.other, Some(&self.other_peer));
        let server = self.server.take();
        drop(server);
        self.stage.event_loop.remove_signal_handler(SIGNAL);
        self.stage.until("the bystanders run", || self.bystanders.are_done());
        self.bystanders.end();
    }

    fn finish(&self, near: &Rc<Probe>, far: Option<&Probe>) {
        let each = [Some(&**near), far];
        for probe in each.into_iter().flatten() {
            probe.transport().iter().for_each(|transport| transport.resume_reading());
        }
        // One that was dropped, or has seen the end of its stream, ends when its peer does; one that is ending needs
        // its peer to go on reading.
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
            self.stage.until("everything has arrived", is_through);
        }
        if is_gone {
            far.and_then(Probe::transport).iter().for_each(|transport| transport.close());
        }
        near.transport().iter().for_each(|transport| transport.close());
        if let Some(far) = far {
            self.stage.until("the far end is lost", || far.lost.get() == 1);
        }
        let is_over = || near.lost.get() == 1 || is_gone && Rc::strong_count(near) == 1;
        self.stage.until("the near end is lost", is_over);
    }

    fn check(self: Rc<Self>) {
        let at = self.stage.name().to_owned();
        assert_eq!(self.acted.get(), 1, "{at}: the action was done so often");
        let peer = self.peer();
        let peer = peer.as_deref();
        self.subject.assert_in_order(peer, &at);
        self.other.assert_in_order(Some(&self.other_peer), &at);
        self.other_peer.assert_in_order(Some(&self.other), &at);
        if let Some(peer) = peer {
            peer.assert_in_order(Some(&self.subject), &at);
            // What is written after the end is nobody's.
            let is_late = self.callback == Callback::ConnectionLost;
            if !self.action.is_violent() && !is_late {
                let received = peer.received.borrow().len();
                assert_eq!(received, self.subject.sent.get(), "{at}: not all has arrived");
            }
        }
        if self.action != Action::AbortOther {
            let received = self.other_peer.received.borrow().len();
            assert_eq!(received, self.other.sent.get(), "{at}: not all has arrived on the other connection");
        }
        self.bystanders.assert(&at);
        assert_eq!(
            self.task_runs.get(),
            u32::from(self.action == Action::SpawnTask),
            "{at}: runs of the task"
        );
        let panics = usize::from(self.callback == Callback::ExceptionHandler || self.action == Action::Panic);
        let reports = self.stage.reports.take();
        assert_eq!(reports.len(), panics, "{at}: other reports than expected: {reports:?}");
        self.subject.hook.take();
        self.stage.event_loop.reset_exception_handler();
        self.stage.assert_idle();
        assert_eq!(Rc::strong_count(&self), 1, "{at}: something holds the world");
    }
}
