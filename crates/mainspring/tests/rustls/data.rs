//! Data in both directions, with flow control.

use crate::pair::{Pair, with_pairs};
use crate::support::probe::FULL;
use mainspring::{Protocol, Transport};
use mainspring_engine::testing::FaultPlan;
use std::cell::RefCell;
use std::rc::Rc;
use test_support::TestBackend;
use test_support::isolated;

const LARGE: usize = 1 << 20;

#[test]
fn a_mebibyte_can_be_sent_in_both_directions_at_once() {
    with_pairs(|pair| {
        pair.client.write(LARGE);
        pair.peer.write(LARGE);
        pair.run_until_received();
    });
}

#[test]
fn many_small_writes_arrive_in_order() {
    with_pairs(|pair| {
        for length in 0..500 {
            pair.client.write(length % 40);
            if length % 7 == 0 {
                pair.test_loop.run_once();
            }
        }
        pair.run_until_received();
    });
}

#[test]
fn writelines_sends_all_pieces() {
    with_pairs(|pair| {
        let transport = pair.client.transport().unwrap();
        transport.writelines(&[&[0], &[], &[1, 2], &[3]]);
        pair.client.sent.set(4);
        pair.run_until_received();
    });
}

#[test]
fn a_protocol_is_paused_when_the_peer_does_not_read_and_resumed_when_it_does() {
    with_pairs(|pair| {
        pair.peer.transport().unwrap().pause_reading();
        pair.test_loop.until("the client is paused", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        assert!(pair.client.transport().unwrap().get_write_buffer_size() >= FULL);
        let received = pair.peer.received.borrow().len();
        pair.test_loop.run_iterations(10);
        assert_eq!(pair.peer.received.borrow().len(), received, "delivered during the pause");
        pair.peer.transport().unwrap().resume_reading();
        pair.run_until_received();
        assert!(!pair.client.paused.get());
    });
}

#[test]
fn data_received_during_a_pause_is_bounded() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        for _ in 0..100 {
            pair.client.write(64 * 1024);
            pair.test_loop.run_once();
        }
        // The kernel's buffers hold one part, and the client's write buffer holds the remainder.
        assert!(pair.client.paused.get());
        drop(transport);
        pair.peer.transport().unwrap().resume_reading();
        pair.run_until_received();
    });
}

#[test]
fn short_and_failed_writes_lose_nothing() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Fake);
        for size in [1, 0, 7, 1000, 0, 3, 20_000] {
            pair.test_loop.control.plan(FaultPlan::short_send(size));
            pair.test_loop.control.plan(FaultPlan::short_recv(size + 1));
        }
        pair.client.write(300_000);
        pair.peer.write(300_000);
        pair.run_until_received();
        pair.close_and_check();
    });
}

#[test]
fn a_record_may_arrive_byte_by_byte() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Fake);
        pair.test_loop.control.plan(FaultPlan::short_recv(1).times(3000));
        pair.client.write(1000);
        pair.peer.write(1000);
        pair.run_until_received();
        pair.test_loop.control.clear_faults();
        pair.close_and_check();
    });
}

#[test]
fn the_loop_keeps_a_transport_alive() {
    with_pairs(|pair| {
        let transport = pair.peer.transport.take();
        drop(transport);
        pair.client.write(1000);
        pair.run_until_received();
    });
}

#[test]
fn a_handle_keeps_a_paused_transport_alive() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.test_loop.until("the lower transport is paused too", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        pair.test_loop.run_iterations(5);
        assert!(!transport.is_closing());
        transport.resume_reading();
        pair.run_until_received();
    });
}

/// Echoes every byte inside `data_received`.
#[derive(Default)]
struct EchoBytes(RefCell<Vec<u8>>);

impl Protocol for EchoBytes {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.0.borrow_mut().extend_from_slice(data);
        for byte in data {
            transport.write(&[*byte]);
        }
    }
}

#[test]
fn writes_inside_data_received_are_sent() {
    with_pairs(|pair| {
        let chatty = Rc::new(EchoBytes::default());
        let transport = pair.peer.transport().unwrap();
        let before = transport.get_protocol().unwrap();
        transport.set_protocol(Rc::<EchoBytes>::clone(&chatty));
        pair.client.write(5000);
        pair.test_loop.until("the answers have arrived", || pair.client.received.borrow().len() == 5000);
        transport.set_protocol(before);
        assert_eq!(chatty.0.borrow().len(), 5000);
        pair.peer.received.replace(chatty.0.take());
        pair.peer.sent.set(5000);
    });
}
