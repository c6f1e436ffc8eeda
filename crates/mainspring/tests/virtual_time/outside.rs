//! The clock does not run ahead of threads, peers and processes outside of the loop.

use crate::{HOUR, run, yield_thread_repeatedly};
use mainspring::net::{TcpStream, UdpSocket, UnixStream};
use mainspring::process::Command;
use mainspring::testing::{Options, RealIo};
use mainspring::{Error, EventLoop, sleep, spawn_named, time, timeout, to_thread};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::mpsc;
use std::time::Duration;

/// Real time that a test waits for.
const SHORT: Duration = Duration::from_millis(20);

/// Answers each byte on `stream`.
fn answer(mut stream: impl Read + Write + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            yield_thread_repeatedly();
            stream.write_all(&byte).unwrap();
        }
    })
}

#[test]
fn the_clock_waits_for_a_thread_that_answers_on_a_unix_socket() {
    let (here, there) = StdUnixStream::pair().unwrap();
    let thread = answer(there);
    run(&Options::new(), async {
        let stream = UnixStream::from_std(here).unwrap();
        for byte in 0..20 {
            stream.write_all(&[byte]).await.unwrap();
            assert_eq!(timeout(HOUR, stream.read_some(1)).await.unwrap().unwrap(), [byte]);
        }
        assert_eq!(time::now(), mainspring::Time::ZERO);
    });
    thread.join().unwrap();
}

#[test]
fn the_clock_waits_for_a_thread_that_answers_on_a_tcp_socket() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || answer(listener.accept().unwrap().0).join());
    run(&Options::new(), async {
        let stream = TcpStream::connect(address).await.unwrap();
        for byte in 0..20 {
            stream.write_all(&[byte]).await.unwrap();
            assert_eq!(timeout(HOUR, stream.read_some(1)).await.unwrap().unwrap(), [byte]);
        }
        assert_eq!(time::now(), mainspring::Time::ZERO);
    });
    thread.join().unwrap().unwrap();
}

#[test]
fn the_clock_waits_for_a_connected_udp_peer_outside() {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 10];
        let (len, client) = peer.recv_from(&mut buffer).unwrap();
        yield_thread_repeatedly();
        peer.send_to(&buffer[..len], client).unwrap();
    });
    run(&Options::new(), async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(address).await.unwrap();
        socket.send(b"ping").await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(timeout(HOUR, socket.recv(&mut buffer)).await.unwrap().unwrap(), 4);
    });
    thread.join().unwrap();
}

#[test]
fn the_clock_waits_for_a_child_process_and_its_pipes() {
    run(&Options::new(), async {
        let output = timeout(HOUR, Command::shell("read line; echo \"$line\"; exit 3").output());
        assert_eq!(output.await.unwrap().unwrap().status.code(), Some(3));
        let status = timeout(HOUR, async { Command::shell("exit 4").spawn()?.wait().await });
        assert_eq!(status.await.unwrap().unwrap().code(), Some(4));
        assert_eq!(time::now(), mainspring::Time::ZERO);
    });
}

#[test]
fn the_clock_waits_for_a_job_in_the_executor() {
    run(&Options::new(), async {
        timeout(HOUR, to_thread(yield_thread_repeatedly)).await.unwrap().unwrap();
        assert_eq!(time::now(), mainspring::Time::ZERO);
    });
}

#[test]
fn a_timeout_around_a_job_that_takes_longer_expires() {
    run(&Options::new(), async {
        let (release, blocked) = mpsc::channel::<()>();
        let mut job = to_thread(move || blocked.recv().unwrap());
        timeout(SHORT, &mut job).await.unwrap_err();
        assert_eq!(time::now(), mainspring::Time::ZERO + SHORT, "exact at the deadline");
        release.send(()).unwrap();
        job.await.unwrap();
        assert_eq!(time::now(), mainspring::Time::ZERO + SHORT);
    });
}

#[test]
fn a_timeout_around_a_silent_peer_expires_at_its_deadline() {
    let (here, _there) = StdUnixStream::pair().unwrap();
    run(&Options::new(), async {
        let stream = UnixStream::from_std(here).unwrap();
        timeout(SHORT, stream.read_some(1)).await.unwrap_err();
        assert_eq!(time::now(), mainspring::Time::ZERO + SHORT);
        timeout(SHORT, stream.read_some(1)).await.unwrap_err();
        assert_eq!(time::now(), mainspring::Time::ZERO + 2 * SHORT);
    });
}

#[test]
fn a_job_that_waits_for_a_timer_of_the_loop_ends() {
    run(&Options::new(), async {
        let (release, blocked) = mpsc::channel::<()>();
        EventLoop::current().call_later(SHORT, move || release.send(()).unwrap()).unwrap();
        to_thread(move || blocked.recv().unwrap()).await.unwrap();
        assert_eq!(time::now(), mainspring::Time::ZERO + SHORT);
    });
}

#[test]
fn an_hour_passes_at_once_when_the_peer_outside_is_gone() {
    let (here, there) = StdUnixStream::pair().unwrap();
    let thread = answer(there);
    run(&Options::new(), async {
        let stream = UnixStream::from_std(here).unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.read_some(1).await.unwrap();
        drop(stream);
        sleep(HOUR).await;
        assert_eq!(time::now(), mainspring::Time::ZERO + HOUR);
    });
    thread.join().unwrap();
}

#[test]
fn refused_io_ends_the_run_and_names_the_socket_and_the_task() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _watchdog = test_support::watchdog("refused_io");
    let waited = Options::new().real_io(RealIo::Refuse).run(async {
        let client = spawn_named("client", async move {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.read_some(1).await
        });
        timeout(HOUR, client).await.is_ok()
    });
    let Err(Error::RealIo(refused)) = waited else { panic!("{waited:?}") };
    let text = refused.to_string();
    assert!(refused.descriptors()[0].ends_with(&format!(" to {address})")), "{text}");
    assert!(text.contains("client, spawned at ") && text.contains("outside.rs"), "{text}");
    assert!(text.contains("waits for StreamReader::read"), "{text}");
}

#[test]
fn a_lookup_with_the_resolver_of_the_system_is_refused() {
    run(&Options::new().real_io(RealIo::Refuse), async {
        let error = TcpStream::connect("example.invalid:80").await.unwrap_err();
        let text = "real I/O is refused, but the program looks up \"example.invalid\": set Builder::resolver";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unsupported, text));
    });
}

#[test]
fn a_listener_with_nothing_else_to_wait_for_is_refused() {
    let _watchdog = test_support::watchdog("refused_listener");
    let waited = Options::new().real_io(RealIo::Refuse).run(async {
        let listener = mainspring::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        sleep(HOUR).await;
        listener.accept().await.is_ok()
    });
    let Err(Error::RealIo(refused)) = waited else { panic!("{waited:?}") };
    assert!(refused.descriptors()[0].contains("(a socket at 127.0.0.1:"), "{refused}");
    assert_eq!(refused.tasks()[0].waits_for.as_deref(), Some("accept"));
}

#[test]
fn io_within_the_loop_and_jobs_are_not_refused() {
    run(&Options::new().real_io(RealIo::Refuse), async {
        let (here, there) = UnixStream::pair().unwrap();
        there.write_all(b"x").await.unwrap();
        assert_eq!(here.read_some(1).await.unwrap(), b"x");
        let server = EventLoop::current().create_server("127.0.0.1:0", 10, || crate::Echo).await.unwrap();
        let client = TcpStream::connect(server.local_addr()).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        assert_eq!(client.read_exactly(4).await.unwrap(), b"ping");
        to_thread(yield_thread_repeatedly).await.unwrap();
        sleep(HOUR).await;
        server.close();
    });
}
