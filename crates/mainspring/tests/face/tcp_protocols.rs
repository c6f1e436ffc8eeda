//! TCP with protocols and transports.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, on_every_backend, run_on};
use mainspring::net::TcpStream;
use mainspring::{Error, EventLoop, Future, Protocol, Server, Transport, sleep};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

/// Logs its callbacks.
struct Recorder {
    log: Log<String>,
    data: RefCell<Vec<u8>>,
    lost: Future<Option<io::ErrorKind>>,
    keeps_open: Cell<bool>,
}

impl Recorder {
    fn new() -> Self {
        let lost = EventLoop::current().create_future();
        Recorder { log: Log::new(), data: RefCell::default(), lost, keeps_open: Cell::new(false) }
    }

    async fn lost(&self) -> Option<io::ErrorKind> {
        self.lost.clone().await.unwrap()
    }
}

impl Protocol for Recorder {
    fn connection_made(&self, transport: &Transport) {
        assert!(transport.peer_addr().is_some() && transport.local_addr().is_some());
        self.log.add("made");
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.data.borrow_mut().extend_from_slice(data);
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.log.add("eof");
        self.keeps_open.get()
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        assert!(transport.is_closing());
        self.log.add("lost");
        self.lost.set_result(error.map(|error| error.kind())).unwrap();
    }

    fn pause_writing(&self, _: &Transport) {
        self.log.add("pause");
    }

    fn resume_writing(&self, _: &Transport) {
        self.log.add("resume");
    }
}

/// A server that publishes the recorders it creates.
async fn recording_server(event_loop: &EventLoop) -> (Server, Rc<RefCell<Vec<Rc<Recorder>>>>) {
    struct Shared(Rc<Recorder>);
    impl Protocol for Shared {
        fn connection_made(&self, transport: &Transport) {
            self.0.connection_made(transport);
        }
        fn data_received(&self, transport: &Transport, data: &[u8]) {
            self.0.data_received(transport, data);
        }
        fn eof_received(&self, transport: &Transport) -> bool {
            self.0.eof_received(transport)
        }
        fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
            self.0.connection_lost(transport, error);
        }
    }
    let made = Rc::new(RefCell::new(Vec::new()));
    let making = Rc::clone(&made);
    let factory = move || {
        let recorder = Rc::new(Recorder::new());
        making.borrow_mut().push(Rc::clone(&recorder));
        Shared(recorder)
    };
    (event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap(), made)
}

/// Runs the loop until a condition holds.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(Duration::from_micros(100)).await;
    }
}

#[test]
fn what_is_written_comes_back_from_an_echo() {
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
fn close_sends_what_is_queued_and_the_peer_sees_all_of_it() {
    on_every_backend(async |event_loop| {
        let (server, made) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        let data: Vec<u8> = (0..8_000_000_u32).map(|number| number as u8).collect();
        transport.write(&data);
        assert!(transport.get_write_buffer_size() > 0);
        transport.close();
        assert!(transport.is_closing());
        transport.close();
        assert_eq!(protocol.lost().await, None);
        let peer = Rc::clone(&made.borrow()[0]);
        assert_eq!(peer.lost().await, None);
        assert!(*peer.data.borrow() == data);
        peer.log.assert(["made", "eof", "lost"].map(str::to_owned));
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn a_protocol_is_paused_above_the_high_mark_and_resumed_at_the_low_one() {
    on_every_backend(async |event_loop| {
        let (server, made) = recording_server(&event_loop).await;
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
        until(|| made.borrow()[0].data.borrow().len() == 8_000_000).await;
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn a_transport_that_pauses_reading_receives_nothing_until_it_resumes() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        assert!(transport.is_reading());
        transport.pause_reading();
        transport.pause_reading();
        assert!(!transport.is_reading());
        transport.write(b"hello");
        // The answer of a connection made later has arrived, so ours would have, too.
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
    /// Answers when everything has arrived.
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
fn abort_drops_what_is_queued_and_is_no_error() {
    on_every_backend(async |event_loop| {
        let (server, made) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.write(&vec![0; 8_000_000]);
        transport.abort();
        assert_eq!(transport.get_write_buffer_size(), 0);
        assert_eq!(protocol.lost().await, None);
        let peer = Rc::clone(&made.borrow()[0]);
        peer.lost().await;
        assert!(peer.data.borrow().len() < 8_000_000);
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn a_server_that_is_closed_refuses_connections_and_keeps_those_it_has() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        stream.write_all(b"1").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        assert!(server.is_serving());
        server.close();
        assert!(!server.is_serving());
        assert!(server.serve_forever().await.is_err(), "it is closed");
        let refused = event_loop.create_connection(server.local_addr(), || Echo).await;
        assert_eq!(refused.map(drop).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        stream.write_all(b"2").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        let closed = mainspring::timeout(Duration::ZERO, server.wait_closed()).await;
        assert!(closed.is_err(), "a connection is left");
        stream.close().await.unwrap();
        server.wait_closed().await;
    });
}

#[test]
fn a_refused_connection_says_which_address_and_leaves_nothing() {
    on_every_backend(async |event_loop| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = event_loop.create_connection(free, || Echo).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(&free.to_string()), "{error}");
    });
}

#[test]
fn every_address_is_tried_until_one_answers() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let addresses = vec![free, server.local_addr()];
        let (transport, protocol) = event_loop.create_connection(addresses, Recorder::new).await.unwrap();
        assert_eq!(transport.peer_addr(), Some(server.local_addr()));
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn a_name_is_looked_up() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server(("localhost", 0), 10, || Echo).await.unwrap();
        let port = server.local_addr().port();
        let (transport, protocol) =
            event_loop.create_connection(format!("localhost:{port}"), Recorder::new).await.unwrap();
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn an_address_without_a_port_is_an_error() {
    let event_loop = new_loop();
    for wrong in ["localhost", ":80", "localhost:http", ""] {
        let error = run_on(&event_loop, event_loop.create_connection(wrong, || Echo)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
    }
}

#[test]
fn a_connection_that_is_given_up_leaves_no_watcher() {
    on_every_backend(async |event_loop| {
        // A listener with a full queue makes further connections wait.
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut fillers = Vec::new();
        while event_loop.metrics().descriptors == 0 {
            let inner = event_loop.clone();
            fillers.push(mainspring::spawn(async move {
                inner.create_connection(address, || Echo).await.map(|(transport, _)| transport)
            }));
            sleep(Duration::from_millis(1)).await;
            fillers.retain(|task| !task.is_finished());
        }
        for task in fillers {
            task.cancel();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(event_loop.metrics().timers, 1, "the test's own patience");
    });
}

#[test]
fn a_connection_that_is_given_up_at_any_step_is_closed() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let address = server.local_addr();
        for steps in 0..8 {
            let inner = event_loop.clone();
            let task = mainspring::spawn(async move {
                let connected = inner.create_connection(address, || Echo).await;
                connected.map(|(transport, _)| transport.close())
            });
            for _ in 0..steps {
                sleep(Duration::ZERO).await;
            }
            task.cancel();
            drop(task.await);
        }
        server.close();
        let closed = mainspring::timeout(Duration::from_secs(10), server.wait_closed()).await;
        assert!(closed.is_ok(), "{server:?}");
    });
}

#[test]
fn a_protocol_that_panics_loses_its_connection_and_nothing_else() {
    struct Fragile;
    impl Protocol for Fragile {
        fn data_received(&self, _: &Transport, data: &[u8]) {
            panic!("cannot take {}", data.len());
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let server = event_loop.create_server("127.0.0.1:0", 10, || Fragile).await.unwrap();
        for _ in 0..2 {
            let stream = TcpStream::connect(server.local_addr()).await.unwrap();
            stream.write_all(b"abc").await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
        server.close();
        server.wait_closed().await;
    });
    assert_leaves_nothing(&event_loop);
    let report = "Fatal error: protocol.data_received() call failed.: panic: cannot take 3";
    reports.assert(vec![report.to_owned(); 2]);
}

#[test]
fn a_protocol_that_panics_twice_at_the_end_is_reported_twice() {
    struct Fragile;
    impl Protocol for Fragile {
        fn connection_made(&self, transport: &Transport) {
            transport.close();
        }

        fn connection_lost(&self, _: &Transport, _: Option<io::Error>) {
            panic!("when it was lost");
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("when it was dropped");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let server = event_loop.create_server("127.0.0.1:0", 10, || Fragile).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        server.close();
        server.wait_closed().await;
    });
    assert_eq!(reports.entries().join("\n").matches("when it was").count(), 2);
}

#[test]
fn a_factory_that_panics_refuses_its_connection_and_nothing_else() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let tries = Cell::new(0);
        let factory = move || {
            tries.set(tries.get() + 1);
            assert!(tries.get() > 1, "not yet");
            Echo
        };
        let server = event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap();
        let first = TcpStream::connect(server.local_addr()).await.unwrap();
        assert_eq!(first.read(&mut [0]).await.unwrap(), 0);
        let second = TcpStream::connect(server.local_addr()).await.unwrap();
        second.write_all(b"x").await.unwrap();
        second.read_exact(&mut [0]).await.unwrap();
    });
    reports.assert(["The protocol factory of a server panicked: panic: not yet".to_owned()]);
}

#[test]
fn writing_after_write_eof_is_reported_and_sends_nothing() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let (server, made) = recording_server(&event_loop).await;
        let (transport, protocol) =
            event_loop.create_connection(server.local_addr(), Recorder::new).await.unwrap();
        transport.write_eof();
        transport.write(b"too late");
        protocol.lost().await;
        let peer = Rc::clone(&made.borrow()[0]);
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
        transport.write(b"nowhere");
        transport.pause_reading();
        transport.resume_reading();
        transport.write_eof();
        transport.close();
        transport.abort();
    }
    server.close();
    assert_eq!(event_loop.metrics(), Default::default());
    drop(event_loop);
    transport.write(b"nowhere");
    protocol.log.assert(["made".to_owned()]);
}

#[test]
fn callbacks_may_close_and_drop_everything_they_are_called_from() {
    /// Closes the transport and the server inside the first `data_received`.
    struct Saboteur(Rc<RefCell<Option<Server>>>);
    impl Protocol for Saboteur {
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
        let factory = move || Saboteur(Rc::clone(&inside));
        let server = event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        *slot.borrow_mut() = Some(server);
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_to_end().await.unwrap(), b"bye");
    });
}
