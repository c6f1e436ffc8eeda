//! Spurious events, events for another fd, and events for fds that were just closed.

use crate::connected_probes::{ConnectedProbes, count};
use crate::support::TestLoop;
use crate::support::polls::polled_every_iteration;
use crate::support::probe::{Probe, ProbeProtocol, ProtocolEvent};
use mainspring_engine::poller::{Interest, Key, Readiness};
use mainspring_engine::testing::{Call, FakeControl, Op};
use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use test_support::{TestBackend, isolated};

#[test]
fn an_event_with_an_unknown_key_is_dropped() {
    isolated(|| {
        let probes = ConnectedProbes::new("unknown keys");
        let control = probes.test_loop.control.clone();
        let known = control.key_of(probes.client_fd).unwrap();
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
            probes.test_loop.run_iterations(2);
            let log = control.take_log();
            assert_eq!((count(&log, Op::Recv), count(&log, Op::Send)), (0, 0), "{key:?} is a registered key");
        }
        probes.close_and_check();
    });
}

#[test]
fn the_loops_own_fds_tolerate_spurious_events() {
    isolated(|| {
        let probes = ConnectedProbes::new("spurious events of the loop's own fds");
        for slot in [0, 1] {
            probes.test_loop.control.inject(Key { slot, generation: 0 }, Readiness::BOTH);
        }
        probes.test_loop.run_iterations(2);
        probes.client.write(3);
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn an_event_of_an_earlier_registration_is_dropped() {
    isolated(|| {
        let probes = ConnectedProbes::new("a stale key of the same transport");
        let control = probes.test_loop.control.clone();
        let stale = control.key_of(probes.client_fd).unwrap();
        let transport = probes.client.transport().unwrap();
        transport.pause_reading();
        transport.resume_reading();
        assert_ne!(control.key_of(probes.client_fd), Some(stale));
        control.take_log();
        control.inject(stale, Readiness::BOTH);
        probes.test_loop.run_iterations(2);
        assert_eq!(count(&control.take_log(), Op::Recv), 0);
        probes.close_and_check();
    });
}

/// The peer calls `act` on the client in its `data_received`, while an event of the client is already pending.
fn assert_pending_event_is_dropped(name: &str, act: impl Fn(&Probe) + 'static, is_ended: bool) {
    let probes = ConnectedProbes::new(name);
    let control = probes.test_loop.control.clone();
    probes.client.write(1);
    probes.peer.write(1);
    let client = Rc::downgrade(&probes.client);
    let hook = move |event| {
        if event == ProtocolEvent::Data {
            act(&client.upgrade().unwrap());
        }
    };
    *probes.peer.hook.borrow_mut() = Some(Rc::new(hook));
    control.take_log();
    control.inject(control.key_of(probes.peer_fd).unwrap(), Readiness::INBOUND);
    control.inject(control.key_of(probes.client_fd).unwrap(), Readiness::INBOUND);
    probes.test_loop.run_once();
    assert_eq!(count(&control.take_log(), Op::Recv), 1, "{name}: only the first was served");
    probes.peer.hook.take();
    if !is_ended {
        probes.client.transport().unwrap().resume_reading();
        probes.run_until_received();
    }
    probes.close_and_check();
}

#[test]
fn a_transport_ended_in_an_iteration_gets_no_event_in_it() {
    isolated(|| {
        let with = |work: fn(&mainspring::Transport)| move |probe: &Probe| work(&probe.transport().unwrap());
        assert_pending_event_is_dropped(
            "closed in the same iteration",
            with(mainspring::Transport::close),
            true,
        );
        assert_pending_event_is_dropped(
            "aborted in the same iteration",
            with(mainspring::Transport::abort),
            true,
        );
        assert_pending_event_is_dropped(
            "paused in the same iteration",
            with(mainspring::Transport::pause_reading),
            false,
        );
    });
}

#[test]
fn a_reader_removed_in_an_iteration_is_not_called_in_it() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "readers that remove each other");
        let pairs: Rc<Vec<_>> = Rc::new((0..2).map(|_| UnixStream::pair().unwrap()).collect());
        let calls = Rc::new(Cell::new(0));
        for index in 0..2 {
            let (event_loop, inside) = (test_loop.event_loop.clone(), Rc::clone(&pairs));
            let calls = Rc::clone(&calls);
            let call = move || {
                calls.set(calls.get() + 1);
                assert!(event_loop.remove_reader(&inside[1 - index].0).unwrap());
            };
            test_loop.event_loop.add_reader(&pairs[index].0, call).unwrap();
        }
        for (a, _) in pairs.iter() {
            let key = test_loop.control.key_of(std::os::fd::AsRawFd::as_raw_fd(a)).unwrap();
            test_loop.control.inject(key, Readiness::BOTH);
        }
        test_loop.run_iterations(2);
        assert_eq!(calls.get(), 1);
        test_loop.assert_reports(&[]);
        assert!(test_loop.event_loop.remove_reader(&pairs[0].0).unwrap());
        test_loop.assert_idle();
    });
}

#[test]
fn a_spurious_event_does_not_complete_a_connect() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a false event while connecting");
        let (address, _listener, _fillers) = unanswering_address();
        let event_loop = test_loop.event_loop.clone();
        let connecting = test_loop
            .event_loop
            .spawn(async move {
                event_loop.create_connection(address, || ProbeProtocol(Probe::new("unused"))).await.map(drop)
            })
            .unwrap();
        test_loop.until("the connect is in progress", || test_loop.event_loop.metrics().descriptors == 1);
        for _ in 0..3 {
            let (_, key) = connecting_to(&test_loop.control);
            test_loop.control.inject(key, Readiness::BOTH);
            test_loop.run_iterations(4);
            assert!(!connecting.is_finished(), "the peer has not answered");
            assert_eq!(test_loop.event_loop.metrics().descriptors, 1, "the fd is still registered");
        }
        connecting.cancel();
        assert!(test_loop.run(connecting).unwrap_err().is_cancelled());
        test_loop.assert_idle();
    });
}

#[test]
fn create_connection_returns_after_connection_made_however_often_it_is_polled() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("create_connection with spurious polls on {on:?}"));
            let (server, _accepted) =
                test_loop.run(crate::support::probe::probe_server(&test_loop.event_loop)).unwrap();
            let probe = Probe::new("the client");
            let protocol = ProbeProtocol(Rc::clone(&probe));
            let connecting = async {
                let made = test_loop.event_loop.create_connection(server.local_addr(), || protocol).await;
                assert_eq!(probe.made.get(), 1, "{}", test_loop.name());
                made
            };
            let (transport, _) = test_loop.run(polled_every_iteration(connecting)).unwrap();
            transport.close();
            drop(server);
            test_loop.until("the connection is lost", || probe.lost.get() == 1);
            test_loop.assert_idle();
        }
    });
}

type Fillers = Vec<socket2::Socket>;

/// An address with a listener whose queue is full, so that nothing is accepted.
pub fn unanswering_address() -> (std::net::SocketAddr, socket2::Socket, Fillers) {
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
