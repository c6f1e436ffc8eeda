//! A transport owns its fd from creation to close, even without registered interest: other readers, writers and waiters
//! are refused, and earlier ones are cancelled.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod ownership;
mod takeover;

use mainspring::net::{DatagramProtocol, DatagramTransport};
use mainspring::{Error, EventLoop, Protocol, Transport};
use std::cell::RefCell;
use std::future::Future;
use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Logs its events; optionally pauses reading.
#[derive(Default)]
struct Recorder {
    is_paused: bool,
    received: RefCell<Vec<u8>>,
}

impl Recorder {
    fn paused() -> Self {
        Recorder { is_paused: true, ..Recorder::default() }
    }
}

impl Protocol for Recorder {
    fn connection_made(&self, transport: &Transport) {
        if self.is_paused {
            transport.pause_reading();
        }
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.received.borrow_mut().extend_from_slice(data);
    }
}

impl DatagramProtocol<std::os::unix::net::SocketAddr> for Recorder {
    fn connection_made(&self, transport: &DatagramTransport<std::os::unix::net::SocketAddr>) {
        transport.pause_reading();
    }
}

#[track_caller]
fn assert_busy<R: std::fmt::Debug>(what: Result<R, Error>, called: &str) {
    match what {
        Err(Error::Io(error)) if error.kind() == ErrorKind::ResourceBusy => {}
        other => panic!("{called}: {other:?}"),
    }
}

/// The fd can be neither registered nor unregistered.
#[track_caller]
fn assert_owned(event_loop: &EventLoop, number: i32) {
    let before = event_loop.metrics().descriptors;
    assert_busy(event_loop.add_reader(&number, || panic!("a reader")), "add_reader");
    assert_busy(event_loop.add_writer(&number, || panic!("a writer")), "add_writer");
    assert_busy(event_loop.remove_reader(&number), "remove_reader");
    assert_busy(event_loop.remove_writer(&number), "remove_writer");
    assert_eq!(event_loop.metrics().descriptors, before);
}

/// The fd can be registered.
#[track_caller]
fn assert_free(event_loop: &EventLoop, number: i32) {
    event_loop.add_reader(&number, || ()).unwrap();
    event_loop.add_writer(&number, || ()).unwrap();
    assert!(event_loop.remove_reader(&number).unwrap() && event_loop.remove_writer(&number).unwrap());
    assert!(!event_loop.remove_reader(&number).unwrap() && !event_loop.remove_writer(&number).unwrap());
}

/// Polls once.
fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
