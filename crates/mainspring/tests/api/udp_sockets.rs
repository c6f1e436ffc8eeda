//! `UdpSocket`.

use crate::cancel_points::cancel_at_every_poll;
use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on, yield_times};
use mainspring::net::{DatagramOptions, Family, UdpSocket};
use mainspring::{EventLoop, spawn};
use std::cell::Cell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;

async fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Two sockets connected to each other.
async fn pair() -> (UdpSocket, UdpSocket) {
    let ((one, one_addr), (other, other_addr)) = (bound().await, bound().await);
    one.connect(other_addr).await.unwrap();
    other.connect(one_addr).await.unwrap();
    (one, other)
}

#[test]
fn datagrams_keep_their_boundaries_and_source_address() {
    on_every_backend(async |_| {
        let ((one, one_addr), (other, other_addr)) = (bound().await, bound().await);
        for data in [&b"first"[..], b"", b"third"] {
            assert_eq!(one.send_to(data, other_addr).await.unwrap(), data.len());
        }
        let mut buffer = [0; 10];
        for data in [&b"first"[..], b"", b"third"] {
            assert_eq!(other.recv_from(&mut buffer).await.unwrap(), (data.len(), one_addr));
            assert_eq!(&buffer[..data.len()], data);
        }
        other.send_to(b"answer", &one_addr.to_string()).await.unwrap();
        assert_eq!(one.recv_from(&mut buffer).await.unwrap(), (6, other_addr));
    });
}

#[test]
fn a_datagram_is_truncated_to_the_buffer() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        one.send(b"too long").await.unwrap();
        one.send(b"next").await.unwrap();
        let mut buffer = [0; 4];
        assert_eq!((other.recv(&mut buffer).await.unwrap(), &buffer), (4, b"too "));
        assert_eq!((other.recv(&mut buffer).await.unwrap(), &buffer), (4, b"next"));
    });
}

#[test]
fn a_connected_socket_receives_only_from_its_peer() {
    on_every_backend(async |_| {
        let ((one, one_addr), (other, other_addr), (stranger, _)) =
            (bound().await, bound().await, bound().await);
        assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        one.connect(other_addr).await.unwrap();
        assert_eq!(one.peer_addr().unwrap(), other_addr);
        stranger.send_to(b"stranger", one_addr).await.unwrap();
        other.send_to(b"peer", one_addr).await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(one.recv_from(&mut buffer).await.unwrap(), (4, other_addr));
        assert_eq!(one.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn peek_does_not_consume_the_datagram() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        one.send(b"hello").await.unwrap();
        let mut buffer = [0; 10];
        // More peeks than the datagrams that one event allows.
        for _ in 0..40 {
            assert_eq!(other.peek_from(&mut buffer).await.unwrap().0, 5);
        }
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 5);
        assert_eq!(other.try_recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn readable_waits_for_each_datagram() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        let other = Rc::new(other);
        let received = Rc::new(Cell::new(0));
        let reading = spawn({
            let (other, received) = (Rc::clone(&other), Rc::clone(&received));
            async move {
                let mut buffer = [0; 10];
                while received.get() < 3 {
                    other.readable().await.unwrap();
                    match other.try_recv(&mut buffer) {
                        Ok(_) => received.set(received.get() + 1),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                    }
                }
            }
        });
        yield_times(5).await;
        assert_eq!(received.get(), 0);
        for count in 1..=3 {
            one.writable().await.unwrap();
            one.try_send(b"x").unwrap();
            while received.get() < count {
                yield_times(1).await;
            }
        }
        reading.await.unwrap();
    });
}

#[test]
fn a_cancelled_recv_loses_no_datagram() {
    on_every_backend(async |event_loop| {
        let (one, other) = pair().await;
        let mut buffer = [0; 10];
        let timed_out = async || {
            let mut buffer = [0; 10];
            mainspring::timeout(std::time::Duration::from_millis(1), other.recv(&mut buffer)).await
        };
        cancel_at_every_poll(timed_out, async |_| {}).await.unwrap_err();
        one.send(b"kept").await.unwrap();
        let receive = async || {
            let mut buffer = [0; 10];
            other.recv_from(&mut buffer).await.map(|(length, _)| buffer[..length].to_vec())
        };
        assert_eq!(cancel_at_every_poll(receive, async |_| {}).await.unwrap(), b"kept");
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(other);
        yield_times(1).await;
        assert_eq!(event_loop.metrics().descriptors, 0);
    });
}

#[test]
fn interest_is_removed_after_an_event_without_a_waiter() {
    on_every_backend(async |event_loop| {
        let (one, other) = pair().await;
        one.send(b"one").await.unwrap();
        let mut buffer = [0; 10];
        other.recv(&mut buffer).await.unwrap();
        one.send(b"two").await.unwrap();
        // The loop need not poll in every iteration.
        while event_loop.metrics().descriptors != 0 {
            yield_times(1).await;
        }
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 3);
    });
}

#[test]
fn a_flood_of_datagrams_does_not_starve_the_loop() {
    on_every_backend(async |event_loop| {
        const COUNT: usize = 160;
        let (one, other) = pair().await;
        other.set_recv_buffer_size(1 << 20).unwrap();
        for _ in 0..COUNT {
            one.send(b"x").await.unwrap();
        }
        let iterations = Rc::new(Cell::new(0));
        fn count_iterations(event_loop: &EventLoop, iterations: Rc<Cell<usize>>, left: usize) {
            iterations.set(iterations.get() + 1);
            if left > 0 {
                let again = event_loop.clone();
                let callback = move || count_iterations(&again, iterations, left - 1);
                event_loop.call_soon(callback).unwrap();
            }
        }
        count_iterations(&event_loop, Rc::clone(&iterations), 1000);
        let mut buffer = [0; 10];
        for _ in 0..COUNT {
            other.recv(&mut buffer).await.unwrap();
        }
        assert!(iterations.get() > COUNT / 16, "only {} iterations", iterations.get());
        while iterations.get() <= 1000 {
            yield_times(1).await;
        }
    });
}

#[test]
fn several_tasks_receiving_on_one_socket_get_a_datagram_each() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        let other = Rc::new(other);
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let other = Rc::clone(&other);
                spawn(async move {
                    let mut buffer = [0; 10];
                    other.recv(&mut buffer).await.unwrap();
                    buffer[0]
                })
            })
            .collect();
        yield_times(2).await;
        for number in 0..10 {
            one.send(&[number]).await.unwrap();
        }
        let mut numbers = Vec::new();
        for task in tasks {
            numbers.push(task.await.unwrap());
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn if_one_of_two_receivers_is_cancelled_the_other_gets_the_datagram() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        let other = Rc::new(other);
        let receive = || {
            let other = Rc::clone(&other);
            spawn(async move { other.recv(&mut [0; 10]).await.unwrap() })
        };
        let (first, second) = (receive(), receive());
        yield_times(2).await;
        one.send(b"hello").await.unwrap();
        first.cancel();
        assert_eq!(second.await.unwrap(), 5);
    });
}

#[test]
fn an_icmp_refusal_is_reported_once_and_the_socket_stays_usable() {
    on_every_backend(async |_| {
        let (one, one_addr) = bound().await;
        let (other, other_addr) = bound().await;
        drop(other);
        one.connect(other_addr).await.unwrap();
        one.send(b"refused").await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let again = UdpSocket::bind(other_addr).await.unwrap();
        again.send_to(b"yes", one_addr).await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap(), 3);
    });
}

#[test]
fn dropping_a_socket_frees_its_port_at_once() {
    on_every_backend(async |_| {
        let (socket, address) = bound().await;
        // The fd is registered when the socket is dropped.
        let timed_out = crate::polls::given_up_after(1, async { socket.recv(&mut [0; 1]).await });
        assert!(timed_out.await.is_none());
        drop(socket);
        UdpSocket::bind(address).await.unwrap();
    });
}

#[test]
fn a_socket_converts_from_and_into_std() {
    on_every_backend(async |event_loop| {
        let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        let socket = UdpSocket::from_std(plain).unwrap();
        socket.send_to(b"hello", address).await.unwrap();
        socket.readable().await.unwrap();
        let plain = socket.into_std().unwrap();
        assert_eq!(event_loop.metrics().descriptors, 0);
        assert_eq!(plain.recv(&mut [0; 10]).unwrap(), 5);
    });
}

#[test]
fn options_set_addresses_family_and_broadcast() {
    on_every_backend(async |_| {
        let (peer, other_addr) = bound().await;
        let remote = UdpSocket::with_options(DatagramOptions::new().remote_addr(other_addr)).await.unwrap();
        assert_eq!(remote.peer_addr().unwrap(), other_addr);
        remote.send(b"hello").await.unwrap();
        assert_eq!(peer.recv(&mut [0; 10]).await.unwrap(), 5);

        let both = DatagramOptions::new().local_addr("127.0.0.1:0").remote_addr(other_addr).broadcast(true);
        let both = UdpSocket::with_options(both).await.unwrap();
        assert!(both.broadcast().unwrap());
        assert_eq!(both.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);

        let v6 = DatagramOptions::new().local_addr("127.0.0.1:0").family(Family::V6);
        assert_eq!(UdpSocket::with_options(v6).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let mixed = DatagramOptions::new().local_addr("[::1]:0").remote_addr("127.0.0.1:9");
        assert_eq!(UdpSocket::with_options(mixed).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        for invalid in [DatagramOptions::new(), DatagramOptions::new().local_addr("no port")] {
            assert_eq!(UdpSocket::with_options(invalid).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let taken = UdpSocket::bind(other_addr).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(taken.to_string().contains(&other_addr.to_string()), "{taken}");
    });
}

#[test]
fn a_socket_that_outlives_its_loop_returns_errors() {
    let event_loop = new_loop();
    let (one, other_addr) = run_on(&event_loop, bound());
    let waiting = run_on(&event_loop, async {
        crate::polls::given_up_after(1, async { one.recv(&mut [0; 1]).await }).await
    });
    assert!(waiting.is_none());
    event_loop.close().unwrap();
    assert!(one.try_recv(&mut [0; 1]).is_err_and(|error| error.kind() != ErrorKind::WouldBlock));
    assert!(one.try_send_to(b"x", other_addr).is_err());
    let other = new_loop();
    assert!(run_on(&other, async { one.recv(&mut [0; 1]).await }).is_err());
    assert_eq!(one.into_std().unwrap().local_addr().unwrap(), other_addr);
    assert_leaves_nothing(&other);
}

#[test]
fn creating_a_socket_without_a_loop_is_an_error() {
    let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(UdpSocket::from_std(plain).is_err());
}
