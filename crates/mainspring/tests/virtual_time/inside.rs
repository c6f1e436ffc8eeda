//! The clock jumps while sockets and pipes are open whose two ends are in the loop.

use crate::{Echo, HOUR, run};
use mainspring::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use mainspring::testing::Options;
use mainspring::{EventLoop, Protocol, sleep, spawn, time, timeout};

/// Runs `future` and checks that it takes an hour of virtual time.
fn takes_an_hour<F: Future>(future: F) {
    run(&Options::new(), async {
        let start = time::now();
        future.await;
        assert_eq!(time::now() - start, HOUR);
    });
}

#[test]
fn a_listening_socket_does_not_hold_the_clock() {
    takes_an_hour(async {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let unix = UnixListener::bind(format!("\0mainspring-virtual-{}", std::process::id())).unwrap();
        let accepting = spawn(async move { (tcp.accept().await.is_ok(), unix.accept().await.is_ok()) });
        sleep(HOUR).await;
        assert!(!accepting.is_finished());
        accepting.cancel();
    });
}

#[test]
fn a_tcp_connection_within_the_loop_does_not_hold_the_clock() {
    for host in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        takes_an_hour(async {
            let listener = TcpListener::bind(host).await.unwrap();
            let address = format!("localhost:{}", listener.local_addr().port());
            let address = if host.starts_with('[') { listener.local_addr().to_string() } else { address };
            let client = TcpStream::connect(address.as_str()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            timeout(HOUR, client.read_some(1)).await.unwrap_err();
            server.write_all(b"x").await.unwrap();
            assert_eq!(client.read_some(1).await.unwrap(), b"x");
        });
    }
}

#[test]
fn a_server_and_its_client_do_not_hold_the_clock() {
    takes_an_hour(async {
        let server = EventLoop::current().create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let client = TcpStream::connect(server.local_addr()).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        assert_eq!(client.read_exactly(4).await.unwrap(), b"ping");
        sleep(HOUR).await;
        client.write_all(b"pong").await.unwrap();
        assert_eq!(client.read_exactly(4).await.unwrap(), b"pong");
        server.close();
    });
}

#[test]
fn a_client_that_is_not_accepted_yet_does_not_hold_the_clock() {
    takes_an_hour(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let client = TcpStream::connect(listener.local_addr()).await.unwrap();
        timeout(HOUR, client.read_some(1)).await.unwrap_err();
    });
}

#[test]
fn a_unix_pair_within_the_loop_does_not_hold_the_clock() {
    takes_an_hour(async {
        let (here, there) = UnixStream::pair().unwrap();
        timeout(HOUR, here.read_some(1)).await.unwrap_err();
        there.write_all(b"x").await.unwrap();
        assert_eq!(here.read_some(1).await.unwrap(), b"x");
    });
}

#[test]
fn datagram_sockets_do_not_hold_the_clock() {
    takes_an_hour(async {
        let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut buffer = [0; 10];
        timeout(HOUR / 4, one.recv_from(&mut buffer)).await.unwrap_err();
        one.connect(other.local_addr().unwrap()).await.unwrap();
        other.connect(one.local_addr().unwrap()).await.unwrap();
        timeout(HOUR / 4, one.recv(&mut buffer)).await.unwrap_err();
        other.send(b"answer").await.unwrap();
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 6);

        let (here, there) = UnixDatagram::pair().unwrap();
        timeout(HOUR / 2, here.recv(&mut buffer)).await.unwrap_err();
        there.send(b"answer").await.unwrap();
        assert_eq!(here.recv(&mut buffer).await.unwrap(), 6);
    });
}

#[test]
fn a_pipe_within_the_loop_does_not_hold_the_clock() {
    struct Silent;
    impl Protocol for Silent {}
    takes_an_hour(async {
        let event_loop = EventLoop::current();
        let (reader, writer) = std::io::pipe().unwrap();
        let (read_end, _) = event_loop.connect_read_pipe(reader, || Silent).await.unwrap();
        let (write_end, _) = event_loop.connect_write_pipe(writer, || Silent).await.unwrap();
        sleep(HOUR).await;
        write_end.close();
        read_end.close();
    });
}
