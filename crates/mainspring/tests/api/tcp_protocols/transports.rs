//! Transports: writing, flow control, closing.

use super::{Echo, Recorder, recording_server, until};
use crate::support::{collect_reports, new_loop, on_every_backend, run_on};
use mainspring::net::TcpStream;
use mainspring::{Error, EventLoop, Protocol, Server, Transport};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

#[test]
fn an_echo_server_returns_written_data() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        protocol.log.assert(["made".to_owned()]);
        assert_eq!(transport.peer_addr(), Some(server.local_addr()));
        transport.write(b"hello ");
        transport.writelines(&[b"wor", b"", b"ld"]);
        until(|| protocol.data.borrow().len() == 11).await;
        assert_eq!(*protocol.data.borrow(), b"hello world");
        transport.close();
        assert_eq!(protocol.lost().await, None);
        protocol.log.assert(["made", "lost"].map(str::to_owned));
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn close_sends_queued_data_first() {
    on_every_backend(async |event_loop| {
        let (server, recorders) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        let data: Vec<u8> = (0..8_000_000_u32).map(|number| number as u8).collect();
        transport.write(&data);
        assert!(transport.get_write_buffer_size() > 0);
        transport.close();
        assert!(transport.is_closing());
        transport.close();
        assert_eq!(protocol.lost().await, None);
        let peer = Rc::clone(&recorders.borrow()[0]);
        assert_eq!(peer.lost().await, None);
        assert!(*peer.data.borrow() == data);
        peer.log.assert(["made", "eof", "lost"].map(str::to_owned));
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn writing_pauses_above_the_high_water_mark_and_resumes_at_the_low_one() {
    on_every_backend(async |event_loop| {
        let (server, recorders) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.set_write_buffer_limits(Some(1000), Some(10)).unwrap();
        assert_eq!(transport.get_write_buffer_limits(), (10, 1000));
        let error = transport.set_write_buffer_limits(Some(1), Some(2)).unwrap_err();
        assert!(matches!(error, Error::InvalidLimits { high: 1, low: 2 }));
        transport.write(&vec![0; 8_000_000]);
        assert!(transport.get_write_buffer_size() > 1000);
        protocol.log.assert(["made", "pause"].map(str::to_owned));
        until(|| protocol.log.entries().len() == 3).await;
        protocol.log.assert(["made", "pause", "resume"].map(str::to_owned));
        assert!(transport.get_write_buffer_size() <= 10);
        until(|| recorders.borrow()[0].data.borrow().len() == 8_000_000).await;
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn pause_reading_stops_data_until_resume_reading() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        assert!(transport.is_reading());
        transport.pause_reading();
        transport.pause_reading();
        assert!(!transport.is_reading());
        transport.write(b"hello");
        // A later connection has its answer, so this one's has arrived, too.
        let other = TcpStream::connect(server.local_addr()).await.unwrap();
        other.write_all(b"x").await.unwrap();
        other.read_exact(&mut [0]).await.unwrap();
        assert_eq!(*protocol.data.borrow(), b"");
        transport.resume_reading();
        until(|| protocol.data.borrow().len() == 5).await;
        transport.close();
        protocol.lost().await;
        other.close().await.unwrap();
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn a_half_closed_connection_can_still_receive() {
    /// Answers at EOF.
    struct AnswerAtEof(RefCell<Vec<u8>>, Cell<Option<Transport>>);
    impl Protocol for AnswerAtEof {
        fn connection_made(&self, transport: &Transport) {
            self.1.set(Some(transport.clone()));
        }
        fn data_received(&self, _: &Transport, data: &[u8]) {
            self.0.borrow_mut().extend(data);
        }
        fn eof_received(&self, transport: &Transport) -> bool {
            let transport = transport.clone();
            let mut answer = self.0.take();
            EventLoop::current()
                .call_soon(move || {
                    answer.reverse();
                    transport.write(&answer);
                    transport.close();
                })
                .unwrap();
            true
        }
        fn connection_lost(&self, _: &Transport, _: Option<io::Error>) {
            self.1.set(None);
        }
    }
    on_every_backend(async |event_loop| {
        let factory = || AnswerAtEof(RefCell::default(), Cell::default());
        let server = event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap();
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.write(b"abc");
        transport.write_eof();
        assert!(!transport.is_closing());
        assert_eq!(protocol.lost().await, None);
        assert_eq!(*protocol.data.borrow(), b"cba");
        protocol.log.assert(["made", "eof", "lost"].map(str::to_owned));
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn abort_drops_queued_data_and_is_not_an_error() {
    on_every_backend(async |event_loop| {
        let (server, recorders) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.write(&vec![0; 8_000_000]);
        transport.abort();
        assert_eq!(transport.get_write_buffer_size(), 0);
        assert_eq!(protocol.lost().await, None);
        let peer = Rc::clone(&recorders.borrow()[0]);
        peer.lost().await;
        assert!(peer.data.borrow().len() < 8_000_000);
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn writing_after_write_eof_is_reported_and_sends_nothing() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let (server, recorders) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.write_eof();
        transport.write(b"too late");
        protocol.lost().await;
        let peer = Rc::clone(&recorders.borrow()[0]);
        assert_eq!(*peer.data.borrow(), b"");
    });
    reports.assert(["A transport failed: cannot write after write_eof()".to_owned()]);
}

#[test]
fn a_transport_that_outlives_its_loop_does_nothing() {
    let event_loop = new_loop();
    let (transport, protocol, server) = run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        (transport, protocol, server)
    });
    event_loop.close().unwrap();
    for _ in 0..2 {
        assert!(transport.is_closing());
        transport.write(b"ignored");
        transport.pause_reading();
        transport.resume_reading();
        transport.write_eof();
        transport.close();
        transport.abort();
    }
    server.close();
    assert_eq!(event_loop.metrics(), Default::default());
    drop(event_loop);
    transport.write(b"ignored");
    protocol.log.assert(["made".to_owned()]);
}

#[test]
fn a_callback_may_abort_its_transport_and_drop_its_server() {
    /// Closes the transport and the server inside the first `data_received`.
    struct ClosesEverything(Rc<RefCell<Option<Server>>>);
    impl Protocol for ClosesEverything {
        fn data_received(&self, transport: &Transport, _: &[u8]) {
            let server = self.0.borrow_mut().take();
            drop(server);
            transport.write(b"bye");
            transport.abort();
            transport.close();
            transport.write(b"never");
        }
    }
    on_every_backend(async |event_loop| {
        let slot = Rc::new(RefCell::new(None));
        let inside = Rc::clone(&slot);
        let factory = move || ClosesEverything(Rc::clone(&inside));
        let server = event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        *slot.borrow_mut() = Some(server);
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_to_end().await.unwrap(), b"bye");
    });
}
