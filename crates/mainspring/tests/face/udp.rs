//! UDP with `await`.

use crate::adversity::{given_up_at_every_poll, turns};
use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on};
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
    let ((one, here), (other, there)) = (bound().await, bound().await);
    one.connect(there).await.unwrap();
    other.connect(here).await.unwrap();
    (one, other)
}

#[test]
fn datagrams_keep_their_borders_and_tell_where_they_come_from() {
    on_every_backend(async |_| {
        let ((one, here), (other, there)) = (bound().await, bound().await);
        for data in [&b"first"[..], b"", b"third"] {
            assert_eq!(one.send_to(data, there).await.unwrap(), data.len());
        }
        let mut buffer = [0; 10];
        for data in [&b"first"[..], b"", b"third"] {
            assert_eq!(other.recv_from(&mut buffer).await.unwrap(), (data.len(), here));
            assert_eq!(&buffer[..data.len()], data);
        }
        other.send_to(b"answer", &here.to_string()).await.unwrap();
        assert_eq!(one.recv_from(&mut buffer).await.unwrap(), (6, there));
    });
}

#[test]
fn what_does_not_fit_into_the_buffer_is_lost_and_nothing_else() {
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
fn a_connected_socket_hears_its_peer_only() {
    on_every_backend(async |_| {
        let ((one, here), (other, there), (stranger, _)) = (bound().await, bound().await, bound().await);
        assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        one.connect(there).await.unwrap();
        assert_eq!(one.peer_addr().unwrap(), there);
        stranger.send_to(b"stranger", here).await.unwrap();
        other.send_to(b"peer", here).await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(one.recv_from(&mut buffer).await.unwrap(), (4, there));
        assert_eq!(one.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_datagram_that_is_peeked_at_stays() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        one.send(b"hello").await.unwrap();
        let mut buffer = [0; 10];
        // More datagrams than one event allows.
        for _ in 0..40 {
            assert_eq!(other.peek_from(&mut buffer).await.unwrap().0, 5);
        }
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 5);
        assert_eq!(other.try_recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn readable_waits_until_there_is_something_and_again_when_it_was_nothing() {
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
        turns(5).await;
        assert_eq!(received.get(), 0);
        for count in 1..=3 {
            one.writable().await.unwrap();
            one.try_send(b"x").unwrap();
            while received.get() < count {
                turns(1).await;
            }
        }
        reading.await.unwrap();
    });
}

#[test]
fn a_receiver_that_is_given_up_at_any_moment_loses_nothing() {
    on_every_backend(async |event_loop| {
        let (one, other) = pair().await;
        let mut buffer = [0; 10];
        let in_vain = async || {
            let mut buffer = [0; 10];
            mainspring::timeout(std::time::Duration::from_millis(1), other.recv(&mut buffer)).await
        };
        given_up_at_every_poll(in_vain, async |_| {}).await.unwrap_err();
        one.send(b"kept").await.unwrap();
        let receive = async || {
            let mut buffer = [0; 10];
            other.recv_from(&mut buffer).await.map(|(length, _)| buffer[..length].to_vec())
        };
        assert_eq!(given_up_at_every_poll(receive, async |_| {}).await.unwrap(), b"kept");
        assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(other);
        turns(1).await;
        assert_eq!(event_loop.metrics().descriptors, 0);
    });
}

#[test]
fn an_event_that_nobody_waits_for_is_not_asked_for_again() {
    on_every_backend(async |event_loop| {
        let (one, other) = pair().await;
        one.send(b"one").await.unwrap();
        let mut buffer = [0; 10];
        other.recv(&mut buffer).await.unwrap();
        one.send(b"two").await.unwrap();
        // The loop does not poll in every iteration.
        while event_loop.metrics().descriptors != 0 {
            turns(1).await;
        }
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 3);
    });
}

#[test]
fn a_peer_that_sends_without_end_does_not_keep_the_loop() {
    on_every_backend(async |event_loop| {
        const COUNT: usize = 160;
        let (one, other) = pair().await;
        other.set_recv_buffer_size(1 << 20).unwrap();
        for _ in 0..COUNT {
            one.send(b"x").await.unwrap();
        }
        let passes = Rc::new(Cell::new(0));
        fn count_passes(event_loop: &EventLoop, passes: Rc<Cell<usize>>, left: usize) {
            passes.set(passes.get() + 1);
            if left > 0 {
                let again = event_loop.clone();
                let callback = move || count_passes(&again, passes, left - 1);
                event_loop.call_soon(callback).unwrap();
            }
        }
        count_passes(&event_loop, Rc::clone(&passes), 1000);
        let mut buffer = [0; 10];
        for _ in 0..COUNT {
            other.recv(&mut buffer).await.unwrap();
        }
        assert!(passes.get() > COUNT / 16, "the loop had {} turns only", passes.get());
        while passes.get() <= 1000 {
            turns(1).await;
        }
    });
}

#[test]
fn several_tasks_that_wait_on_one_socket_get_a_datagram_each() {
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
        turns(2).await;
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
fn one_of_two_that_wait_is_given_up_and_the_other_gets_it() {
    on_every_backend(async |_| {
        let (one, other) = pair().await;
        let other = Rc::new(other);
        let receive = || {
            let other = Rc::clone(&other);
            spawn(async move { other.recv(&mut [0; 10]).await.unwrap() })
        };
        let (first, second) = (receive(), receive());
        turns(2).await;
        one.send(b"hello").await.unwrap();
        first.cancel();
        assert_eq!(second.await.unwrap(), 5);
    });
}

#[test]
fn a_datagram_that_comes_back_is_an_error_once_and_the_socket_goes_on() {
    on_every_backend(async |_| {
        let (one, here) = bound().await;
        let (other, there) = bound().await;
        drop(other);
        one.connect(there).await.unwrap();
        one.send(b"anybody?").await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let again = UdpSocket::bind(there).await.unwrap();
        again.send_to(b"yes", here).await.unwrap();
        assert_eq!(one.recv(&mut [0; 10]).await.unwrap(), 3);
    });
}

#[test]
fn dropping_a_socket_frees_its_port_at_once() {
    on_every_backend(async |_| {
        let (socket, address) = bound().await;
        // Registered with the kernel and the loop when it is dropped.
        let in_vain = crate::polls::given_up_after(1, async { socket.recv(&mut [0; 1]).await });
        assert!(in_vain.await.is_none());
        drop(socket);
        UdpSocket::bind(address).await.unwrap();
    });
}

#[test]
fn a_socket_comes_from_std_and_goes_back() {
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
fn options_say_what_a_socket_is() {
    on_every_backend(async |_| {
        let (peer, there) = bound().await;
        let remote = UdpSocket::with_options(DatagramOptions::new().remote_addr(there)).await.unwrap();
        assert_eq!(remote.peer_addr().unwrap(), there);
        remote.send(b"hello").await.unwrap();
        assert_eq!(peer.recv(&mut [0; 10]).await.unwrap(), 5);

        let both = DatagramOptions::new().local_addr("127.0.0.1:0").remote_addr(there).broadcast(true);
        let both = UdpSocket::with_options(both).await.unwrap();
        assert!(both.broadcast().unwrap());
        assert_eq!(both.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);

        let v6 = DatagramOptions::new().local_addr("127.0.0.1:0").family(Family::V6);
        assert_eq!(UdpSocket::with_options(v6).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let mixed = DatagramOptions::new().local_addr("[::1]:0").remote_addr("127.0.0.1:9");
        assert_eq!(UdpSocket::with_options(mixed).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        for nothing in [DatagramOptions::new(), DatagramOptions::new().local_addr("no port")] {
            assert_eq!(UdpSocket::with_options(nothing).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let taken = UdpSocket::bind(there).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(taken.to_string().contains(&there.to_string()), "{taken}");
    });
}

#[test]
fn a_socket_that_outlives_its_loop_refuses_and_can_be_dropped() {
    let event_loop = new_loop();
    let (one, there) = run_on(&event_loop, bound());
    let waiting = run_on(&event_loop, async {
        crate::polls::given_up_after(1, async { one.recv(&mut [0; 1]).await }).await
    });
    assert!(waiting.is_none());
    event_loop.close().unwrap();
    assert!(one.try_recv(&mut [0; 1]).is_err_and(|error| error.kind() != ErrorKind::WouldBlock));
    assert!(one.try_send_to(b"x", there).is_err());
    let other = new_loop();
    assert!(run_on(&other, async { one.recv(&mut [0; 1]).await }).is_err());
    assert_eq!(one.into_std().unwrap().local_addr().unwrap(), there);
    assert_leaves_nothing(&other);
}

#[test]
fn without_a_loop_there_is_an_error_and_no_panic() {
    let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(UdpSocket::from_std(plain).is_err());
}
