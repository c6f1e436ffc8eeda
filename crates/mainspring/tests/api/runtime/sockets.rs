//! `connect`, `accept`, `read`, `read_to_end`, `read_from` and `write_all` of a runtime.

use mainspring::Runtime;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

#[test]
fn connect_accept_read_and_write_run_on_the_loop_thread() {
    let runtime = Runtime::start().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = runtime.accept(listener);
    let handle = runtime.handle();
    let greeting = runtime.connect(address).and_then(move |connection| {
        let connection = Arc::new(connection);
        let (reading, asking) = (Arc::clone(&connection), handle.clone());
        handle
            .write_all(connection, b"hello")
            .and_then(move |()| asking.read(reading, 100))
            .map(|answer| String::from_utf8(answer).unwrap())
    });
    let (mut server, _) = accepted.wait().unwrap();
    server.set_nonblocking(false).unwrap();
    let mut received = [0; 5];
    server.read_exact(&mut received).unwrap();
    server.write_all(b"welcome").unwrap();
    assert_eq!((&received, greeting.wait().unwrap().as_str()), (b"hello", "welcome"));
}

#[test]
fn write_all_sends_more_than_the_socket_buffer_holds() {
    let runtime = Runtime::start().unwrap();
    let (local, mut peer) = UnixStream::pair().unwrap();
    let message: Vec<u8> = (0..=250).cycle().take(4 << 20).collect();
    let sent = runtime.write_all(local, message.clone());
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    sent.wait().unwrap();
    assert!(received == message);
}

#[test]
fn socket_errors_are_errors_of_the_result() {
    let runtime = Runtime::start().unwrap();
    let (local, peer) = UnixStream::pair().unwrap();
    drop(peer);
    assert_eq!(runtime.read(local.try_clone().unwrap(), 100).wait().unwrap(), b"");
    assert_eq!(runtime.write_all(local, "x").wait().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let (pipe, _other) = io::pipe().unwrap();
    assert_eq!(runtime.read(pipe, 1).wait().unwrap_err().raw_os_error(), Some(88), "not a socket");
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = runtime.connect(unused_address).wait().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let invalid = runtime.connect("no-port").wait().unwrap_err();
    assert_eq!(invalid.kind(), io::ErrorKind::InvalidInput);
    drop(TcpStream::connect(unused_address));
}

#[test]
fn read_to_end_and_read_from_return_everything_until_the_peer_closes() {
    let runtime = Runtime::start().unwrap();
    let message: Vec<u8> = (0..=250).cycle().take(4 << 20).collect();
    let (local, mut peer) = UnixStream::pair().unwrap();
    let local = Arc::new(local);
    let received = runtime.read_to_end(Arc::clone(&local));
    peer.write_all(&message).unwrap();
    drop(peer);
    assert!(received.wait().unwrap() == message);
    local.peer_addr().expect("the caller keeps the socket");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let received = runtime.read_from(listener.local_addr().unwrap());
    let (mut connection, _) = listener.accept().unwrap();
    connection.write_all(&message).unwrap();
    drop(connection);
    assert!(received.wait().unwrap() == message);
}

#[test]
fn errors_while_reading_to_the_end_are_errors_of_the_result() {
    let runtime = Runtime::start().unwrap();
    let (pipe, _other) = io::pipe().unwrap();
    assert_eq!(runtime.read_to_end(pipe).wait().unwrap_err().raw_os_error(), Some(88), "not a socket");
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = runtime.read_from(unused_address).wait().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_cancelled_read_to_the_end_closes_its_socket() {
    let runtime = Runtime::start().unwrap();
    let (local, mut peer) = UnixStream::pair().unwrap();
    let reading = runtime.read_to_end(local);
    assert!(reading.cancel());
    let mut nothing = Vec::new();
    peer.read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty());
}
