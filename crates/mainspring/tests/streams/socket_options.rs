//! Socket options.

use crate::on_both;
use mainspring::net::{KeepAlive, TcpListener, TcpStream, UnixStream};
use std::time::Duration;

#[test]
fn socket_options_are_set_and_read_back() {
    on_both("options", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
            assert!(stream.nodelay().unwrap(), "TCP_NODELAY is on by default, as in asyncio");
            stream.set_nodelay(false).unwrap();
            assert!(!stream.transport().nodelay().unwrap());

            assert!(!stream.keep_alive().unwrap());
            let seconds = Some(Duration::from_secs(30));
            let wanted = KeepAlive { idle: seconds, interval: seconds, retries: Some(3) };
            stream.set_keep_alive(Some(wanted)).unwrap();
            assert!(stream.keep_alive().unwrap());
            let idle = stream.transport().with_fd(|fd| socket2::SockRef::from(&fd).tcp_keepalive_time());
            assert_eq!(idle.unwrap(), Duration::from_secs(30));
            stream.set_keep_alive(None).unwrap();
            assert!(!stream.keep_alive().unwrap());

            stream.set_linger(Some(Duration::ZERO)).unwrap();
            assert_eq!(stream.linger().unwrap(), Some(Duration::ZERO));
            stream.set_linger(None).unwrap();
            stream.set_ttl(17).unwrap();
            assert_eq!(stream.ttl().unwrap(), 17);
            stream.set_recv_buffer_size(20_000).unwrap();
            assert!(stream.recv_buffer_size().unwrap() >= 20_000);
            stream.set_send_buffer_size(20_000).unwrap();
            assert!(stream.send_buffer_size().unwrap() >= 20_000);
            listener.set_ttl(18).unwrap();
            assert_eq!(listener.ttl().unwrap(), 18);

            let transport = stream.transport().clone();
            stream.close().await.unwrap();
            assert_eq!(transport.nodelay().unwrap_err().kind(), std::io::ErrorKind::NotConnected);

            let (near, _far) = UnixStream::pair().unwrap();
            assert!(near.nodelay().is_err(), "a Unix socket has no TCP_NODELAY");
            assert!(near.send_buffer_size().unwrap() > 0);
        });
    });
}
