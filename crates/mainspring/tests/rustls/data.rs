//! Data in both directions, with flow control.

use crate::pair::{Pair, with_pairs};
use crate::support::probe::FULL;
use mainspring::{Protocol, Transport};
use mainspring_engine::testing::FaultPlan;
use std::cell::RefCell;
use std::rc::Rc;
use test_support::On;
use test_support::guarded;

const MUCH: usize = 1 << 20;

#[test]
fn a_mebibyte_goes_both_ways_at_once() {
    with_pairs(|pair| {
        pair.client.write(MUCH);
        pair.peer.write(MUCH);
        pair.let_arrive();
    });
}

#[test]
fn many_small_writes_arrive_in_order() {
    with_pairs(|pair| {
        for length in 0..500 {
            pair.client.write(length % 40);
            if length % 7 == 0 {
                pair.stage.pass();
            }
        }
        pair.let_arrive();
    });
}

#[test]
fn several_pieces_are_one_write() {
    with_pairs(|pair| {
        let transport = pair.client.transport().unwrap();
        transport.writelines(&[&[0], &[], &[1, 2], &[3]]);
        pair.client.sent.set(4);
        pair.let_arrive();
    });
}

#[test]
fn a_protocol_is_paused_when_the_peer_does_not_read_and_resumed_when_it_does() {
    with_pairs(|pair| {
        pair.peer.transport().unwrap().pause_reading();
        pair.stage.until("the client is paused", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        assert!(pair.client.transport().unwrap().get_write_buffer_size() >= FULL);
        let received = pair.peer.received.borrow().len();
        pair.stage.passes(10);
        assert_eq!(pair.peer.received.borrow().len(), received, "delivered during the pause");
        pair.peer.transport().unwrap().resume_reading();
        pair.let_arrive();
        assert!(!pair.client.paused.get());
    });
}

#[test]
fn what_arrives_in_a_pause_waits_in_bounded_memory() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        for _ in 0..100 {
            pair.client.write(64 * 1024);
            pair.stage.pass();
        }
        // The kernel's buffers hold the rest, and the client's write buffer what they do not accept.
        assert!(pair.client.paused.get());
        drop(transport);
        pair.peer.transport().unwrap().resume_reading();
        pair.let_arrive();
    });
}

#[test]
fn short_and_refused_writes_lose_nothing() {
    guarded(|| {
        let pair = Pair::new(On::Fake);
        for size in [1, 0, 7, 1000, 0, 3, 20_000] {
            pair.stage.control.plan(FaultPlan::short_send(size));
            pair.stage.control.plan(FaultPlan::short_recv(size + 1));
        }
        pair.client.write(300_000);
        pair.peer.write(300_000);
        pair.let_arrive();
        pair.end();
    });
}

#[test]
fn a_record_may_come_byte_by_byte() {
    guarded(|| {
        let pair = Pair::new(On::Fake);
        pair.stage.control.plan(FaultPlan::short_recv(1).times(3000));
        pair.client.write(1000);
        pair.peer.write(1000);
        pair.let_arrive();
        pair.stage.control.clear_faults();
        pair.end();
    });
}

#[test]
fn a_transport_that_nobody_keeps_but_its_loop_goes_on() {
    with_pairs(|pair| {
        let transport = pair.peer.transport.take();
        drop(transport);
        pair.client.write(1000);
        pair.let_arrive();
    });
}

#[test]
fn a_transport_that_is_kept_goes_on_after_a_long_pause_although_the_loop_has_let_go_of_it() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.stage.until("the transport below is paused too", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        pair.stage.passes(5);
        assert!(!transport.is_closing());
        transport.resume_reading();
        pair.let_arrive();
    });
}

/// Echoes every byte inside `data_received`.
#[derive(Default)]
struct Chatty(RefCell<Vec<u8>>);

impl Protocol for Chatty {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.0.borrow_mut().extend_from_slice(data);
        for byte in data {
            transport.write(&[*byte]);
        }
    }
}

#[test]
fn what_is_written_while_data_is_taken_is_sent() {
    with_pairs(|pair| {
        let chatty = Rc::new(Chatty::default());
        let transport = pair.peer.transport().unwrap();
        let before = transport.get_protocol().unwrap();
        transport.set_protocol(Rc::<Chatty>::clone(&chatty));
        pair.client.write(5000);
        pair.stage.until("the answers are here", || pair.client.received.borrow().len() == 5000);
        transport.set_protocol(before);
        assert_eq!(chatty.0.borrow().len(), 5000);
        pair.peer.received.replace(chatty.0.take());
        pair.peer.sent.set(5000);
    });
}
