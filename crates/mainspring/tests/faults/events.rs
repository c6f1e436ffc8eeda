//! Spurious events, events for another fd, and events for fds that were just closed.

use crate::conversation::{Conversation, count};
use crate::support::Stage;
use crate::support::polls::restless;
use crate::support::probe::{Face, Probe, Told};
use mainspring_engine::poller::{Interest, Key, Readiness};
use mainspring_engine::testing::{Call, FakeControl, Op};
use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use test_support::{On, guarded};

#[test]
fn an_event_for_nobody_is_dropped() {
    guarded(|| {
        let talk = Conversation::new("unknown keys");
        let control = talk.stage.control.clone();
        let known = control.key_of(talk.client_fd).unwrap();
        for key in [
            Key { slot: 9999, generation: 1 },
            Key { slot: u32::MAX, generation: u32::MAX },
            Key { slot: u32::MAX, generation: 0 },
            Key { slot: 2, generation: 0 },
            Key { slot: known.slot, generation: known.generation + 1 },
            Key { slot: known.slot, generation: known.generation - 1 },
        ] {
            control.take_log();
            control.inject(key, Readiness::BOTH);
            talk.stage.passes(2);
            let log = control.take_log();
            assert_eq!((count(&log, Op::Recv), count(&log, Op::Send)), (0, 0), "{key:?} is somebody");
        }
        talk.end();
    });
}

#[test]
fn the_loops_own_descriptors_put_up_with_false_events() {
    guarded(|| {
        let talk = Conversation::new("false events of the loop's own");
        for slot in [0, 1] {
            talk.stage.control.inject(Key { slot, generation: 0 }, Readiness::BOTH);
        }
        talk.stage.passes(2);
        talk.client.write(3);
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn an_event_of_an_earlier_registration_is_dropped() {
    guarded(|| {
        let talk = Conversation::new("a stale key of the same transport");
        let control = talk.stage.control.clone();
        let stale = control.key_of(talk.client_fd).unwrap();
        let transport = talk.client.transport().unwrap();
        transport.pause_reading();
        transport.resume_reading();
        assert_ne!(control.key_of(talk.client_fd), Some(stale));
        control.take_log();
        control.inject(stale, Readiness::BOTH);
        talk.stage.passes(2);
        assert_eq!(count(&control.take_log(), Op::Recv), 0);
        talk.end();
    });
}

/// `first` closes `second` in its `data_received`, while an event of `second` is already pending.
fn assert_hears_nothing(name: &str, act: impl Fn(&Probe) + 'static, is_ended: bool) {
    let talk = Conversation::new(name);
    let control = talk.stage.control.clone();
    talk.client.write(1);
    talk.peer.write(1);
    let client = Rc::downgrade(&talk.client);
    let hook = move |told| {
        if told == Told::Data {
            act(&client.upgrade().unwrap());
        }
    };
    *talk.peer.hook.borrow_mut() = Some(Rc::new(hook));
    control.take_log();
    control.inject(control.key_of(talk.peer_fd).unwrap(), Readiness::INBOUND);
    control.inject(control.key_of(talk.client_fd).unwrap(), Readiness::INBOUND);
    talk.stage.pass();
    assert_eq!(count(&control.take_log(), Op::Recv), 1, "{name}: only the first was served");
    talk.peer.hook.take();
    if !is_ended {
        talk.client.transport().unwrap().resume_reading();
        talk.let_arrive();
    }
    talk.end();
}

#[test]
fn who_was_ended_in_this_pass_hears_nothing_more_in_it() {
    guarded(|| {
        let with = |work: fn(&mainspring::Transport)| move |probe: &Probe| work(&probe.transport().unwrap());
        assert_hears_nothing("closed in the same pass", with(mainspring::Transport::close), true);
        assert_hears_nothing("aborted in the same pass", with(mainspring::Transport::abort), true);
        assert_hears_nothing("paused in the same pass", with(mainspring::Transport::pause_reading), false);
    });
}

#[test]
fn a_reader_that_was_removed_in_this_pass_is_not_called_in_it() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "readers that remove each other");
        let pairs: Rc<Vec<_>> = Rc::new((0..2).map(|_| UnixStream::pair().unwrap()).collect());
        let calls = Rc::new(Cell::new(0));
        for index in 0..2 {
            let (event_loop, inside) = (stage.event_loop.clone(), Rc::clone(&pairs));
            let calls = Rc::clone(&calls);
            let call = move || {
                calls.set(calls.get() + 1);
                assert!(event_loop.remove_reader(&inside[1 - index].0).unwrap());
            };
            stage.event_loop.add_reader(&pairs[index].0, call).unwrap();
        }
        for (a, _) in pairs.iter() {
            let key = stage.control.key_of(std::os::fd::AsRawFd::as_raw_fd(a)).unwrap();
            stage.control.inject(key, Readiness::BOTH);
        }
        stage.passes(2);
        assert_eq!(calls.get(), 1);
        stage.assert_reports(&[]);
        assert!(stage.event_loop.remove_reader(&pairs[0].0).unwrap());
        stage.assert_idle();
    });
}

#[test]
fn a_connection_is_made_only_when_the_peer_answers() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a false event while connecting");
        let (address, _listener, _fillers) = unanswering();
        let event_loop = stage.event_loop.clone();
        let connecting = stage
            .event_loop
            .spawn(async move {
                event_loop.create_connection(address, || Face(Probe::new("nobody's"))).await.map(drop)
            })
            .unwrap();
        stage.until("it connects", || stage.event_loop.metrics().descriptors == 1);
        for _ in 0..3 {
            let (_, key) = connecting_to(&stage.control);
            stage.control.inject(key, Readiness::BOTH);
            stage.passes(4);
            assert!(!connecting.is_finished(), "nobody has answered");
            assert_eq!(stage.event_loop.metrics().descriptors, 1, "it is watched still");
        }
        connecting.cancel();
        assert!(stage.run(connecting).unwrap_err().is_cancelled());
        stage.assert_idle();
    });
}

#[test]
fn a_connection_is_handed_out_after_connection_made_however_often_it_is_polled() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("restless create_connection on {on:?}"));
            let (server, _accepted) =
                stage.run(crate::support::probe::probe_server(&stage.event_loop)).unwrap();
            let probe = Probe::new("the client");
            let face = Face(Rc::clone(&probe));
            let connecting = async {
                let made = stage.event_loop.create_connection(server.local_addr(), || face).await;
                assert_eq!(probe.made.get(), 1, "{}", stage.name());
                made
            };
            let (transport, _) = stage.run(restless(connecting)).unwrap();
            transport.close();
            drop(server);
            stage.until("it is lost", || probe.lost.get() == 1);
            stage.assert_idle();
        }
    });
}

type Fillers = Vec<socket2::Socket>;

/// An address with a listener whose queue is full, so that nothing is accepted.
pub fn unanswering() -> (std::net::SocketAddr, socket2::Socket, Fillers) {
    let new = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let listener = new();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut fillers = Vec::new();
    loop {
        let filler = new();
        filler.set_nonblocking(true).unwrap();
        let _ = filler.connect(&address);
        fillers.push(filler);
        // Over loopback the kernel answers before `connect` returns, or not at all.
        if fillers.last().is_some_and(|filler| filler.peer_addr().is_err()) {
            return (address.as_socket().unwrap(), listener, fillers);
        }
    }
}

/// The fd with a connect in progress, and its key.
fn connecting_to(control: &FakeControl) -> (i32, Key) {
    let log = control.log();
    let watched = log.iter().rev().find_map(|entry| match entry.call {
        Call::Update { fd, key, new: Interest::WRITE, .. } => Some((fd, key)),
        _ => None,
    });
    watched.unwrap()
}
