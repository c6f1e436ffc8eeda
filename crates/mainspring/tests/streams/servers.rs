//! Servers: start, accept, close, and the end of their connections.

use crate::support::TestLoop;
use crate::{on_both, settle};
use mainspring::net::{ServerOptions, TcpListener, TcpStream, start_server};
use mainspring::{EventLoop, Protocol, Server, Transport, spawn, timeout};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use test_support::{TestBackend, isolated};

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

async fn echo_server() -> Server {
    start_server("127.0.0.1:0", |reader, writer| async move {
        loop {
            match reader.read_some(1000).await?.as_slice() {
                [] => return Ok::<(), io::Error>(()),
                some => writer.write_all(some).await?,
            }
        }
    })
    .await
    .unwrap()
}

async fn say(stream: &TcpStream, what: &[u8]) {
    stream.write_all(what).await.unwrap();
    assert_eq!(stream.read_exactly(what.len()).await.unwrap(), what);
}

#[test]
fn every_connection_gets_its_own_task() {
    on_both("start_server", |test_loop| {
        test_loop.run(async {
            let server = echo_server().await;
            let clients: Vec<_> = (0..30_u8)
                .map(|number| {
                    let address = server.local_addr();
                    spawn(async move {
                        let stream = TcpStream::connect(address).await.unwrap();
                        for _ in 0..3 {
                            say(&stream, &[number; 100]).await;
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            server.close();
            server.wait_closed().await;
        });
    });
}

#[test]
fn a_task_that_fails_or_panics_is_reported_and_closes_its_connection() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, "failing tasks");
            test_loop.run(async {
                let round = Cell::new(0);
                let server = start_server("127.0.0.1:0", move |_reader, _writer| {
                    round.set(round.get() + 1);
                    let round = round.get();
                    assert!(round != 1, "no future at all");
                    async move {
                        assert!(round != 2, "in its future");
                        match round {
                            3 => Err(io::Error::other("as an error")),
                            _ => Err(io::ErrorKind::ConnectionReset.into()),
                        }
                    }
                })
                .await
                .unwrap();
                for _ in 0..4 {
                    let stream = TcpStream::connect(server.local_addr()).await.unwrap();
                    assert_eq!(stream.read_to_end().await.unwrap_or_default(), b"");
                }
                server.close();
                server.wait_closed().await;
            });
            let reports = test_loop.reports.take();
            assert_eq!(reports.len(), 3, "a reset by the peer is not reported: {reports:?}");
            for (report, expected) in reports.iter().zip(["no future at all", "in its future", "as an error"])
            {
                assert!(report.contains(expected), "{report}");
            }
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_server_accepts_only_after_start_serving() {
    on_both("start_serving", |test_loop| {
        test_loop.run(async {
            let options = ServerOptions::new().start_serving(false);
            let server = options.create_server("127.0.0.1:0", || Echo).await.unwrap();
            assert!(!server.is_serving());
            let refused = TcpStream::connect(server.local_addr()).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            server.start_serving().unwrap();
            server.start_serving().unwrap();
            assert!(server.is_serving());
            say(&TcpStream::connect(server.local_addr()).await.unwrap(), b"hello").await;
            server.close();
            assert!(server.start_serving().is_err());
        });
    });
}

#[test]
fn serve_forever_ends_when_closed_and_closes_when_cancelled() {
    on_both("serve_forever", |test_loop| {
        test_loop.run(async {
            let options = ServerOptions::new().start_serving(false);
            let server = Rc::new(options.create_server("127.0.0.1:0", || Echo).await.unwrap());
            let serving = spawn({
                let server = Rc::clone(&server);
                async move { server.serve_forever().await }
            });
            settle().await;
            assert!(server.is_serving());
            server.close();
            serving.await.unwrap().unwrap();

            let server = echo_server().await;
            timeout(Duration::from_secs(1), server.serve_forever()).await.unwrap_err();
            assert!(!server.is_serving(), "cancelled, it closes the server");
        });
    });
}

#[test]
fn close_clients_closes_and_abort_clients_aborts() {
    on_both("close_clients", |test_loop| {
        test_loop.run(async {
            for is_abort in [false, true] {
                let server = echo_server().await;
                let mut streams = Vec::new();
                for _ in 0..5 {
                    let stream = TcpStream::connect(server.local_addr()).await.unwrap();
                    say(&stream, b"x").await;
                    streams.push(stream);
                }
                let gone = streams.pop().unwrap();
                gone.close().await.unwrap();
                server.close();
                assert!(timeout(Duration::ZERO, server.wait_closed()).await.is_err());
                if is_abort {
                    server.abort_clients();
                } else {
                    server.close_clients();
                }
                server.wait_closed().await;
                for stream in streams {
                    assert_eq!(stream.read_to_end().await.unwrap(), b"");
                }
            }
        });
    });
}

#[test]
fn a_client_that_does_not_read_delays_close_clients_but_not_abort_clients() {
    on_both("data queued at close", |test_loop| {
        test_loop.run(async {
            let server = start_server("127.0.0.1:0", |reader, writer| async move {
                writer.write(&vec![1; 20_000_000]);
                let _ = reader.read_to_end().await;
            })
            .await
            .unwrap();
            let stream = TcpStream::connect(server.local_addr()).await.unwrap();
            stream.read_exactly(1).await.unwrap();
            stream.transport().pause_reading();
            server.close();
            server.close_clients();
            settle().await;
            assert!(timeout(Duration::ZERO, server.wait_closed()).await.is_err());
            server.abort_clients();
            server.wait_closed().await;
        });
    });
}

#[test]
fn a_server_listens_on_every_address() {
    on_both("several addresses", |test_loop| {
        test_loop.run(async {
            let addresses: Vec<SocketAddr> =
                ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"].map(|address| address.parse().unwrap()).to_vec();
            let server = EventLoop::current().create_server(addresses, 10, || Echo).await.unwrap();
            assert_eq!(server.local_addrs().len(), 3);
            for &address in server.local_addrs() {
                say(&TcpStream::connect(address).await.unwrap(), b"hello").await;
            }
            let listener = TcpListener::bind(vec![server.local_addr(); 1]).await;
            assert_eq!(listener.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        });
    });
}

#[test]
fn an_unavailable_address_is_skipped_unless_it_is_the_only_one() {
    on_both("a missing address", |test_loop| {
        test_loop.run(async {
            let addresses: Vec<SocketAddr> =
                ["192.0.2.1:0", "127.0.0.1:0"].map(|address| address.parse().unwrap()).to_vec();
            let listener = TcpListener::bind(&addresses[..]).await.unwrap();
            assert_eq!(listener.local_addrs().len(), 1);
            let error = TcpListener::bind(addresses[0]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
            assert!(error.to_string().contains("192.0.2.1"), "{error}");
        });
    });
}

#[test]
fn options_reach_the_sockets() {
    on_both("server options", |test_loop| {
        test_loop.run(async {
            let options = ServerOptions::new().reuse_port(true).keep_alive(true).limit(77).only_v6(false);
            let first = options.bind("127.0.0.1:0").await.unwrap();
            let second = options.bind(first.local_addr()).await.unwrap();
            assert_eq!(first.local_addr(), second.local_addr());
            drop(second);
            let _client = TcpStream::connect(first.local_addr()).await.unwrap();
            let (accepted, _) = first.accept().await.unwrap();
            assert!(accepted.keep_alive().unwrap());
            assert_eq!(accepted.split().0.limit(), 77);

            let both = options.bind("[::]:0").await.unwrap();
            let port = both.local_addr().port();
            TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (mapped, _) = both.accept().await.unwrap();
            assert!(mapped.peer_addr().unwrap().is_ipv6());
        });
    });
}

#[test]
fn std_listeners_can_be_served() {
    on_both("from std", |test_loop| {
        test_loop.run(async {
            let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let server = ServerOptions::new().create_server_from(bound, || Echo).unwrap();
            say(&TcpStream::connect(server.local_addr()).await.unwrap(), b"hello").await;
            let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let listener = TcpListener::from_std(bound).unwrap();
            let _client = TcpStream::connect(listener.local_addr()).await.unwrap();
            listener.accept().await.unwrap();
        });
    });
}

#[test]
fn a_server_closed_by_its_factory_accepts_no_more() {
    on_both("closed by its factory", |test_loop| {
        test_loop.run(async {
            let server: Rc<Cell<Option<Server>>> = Rc::default();
            let closing = Rc::clone(&server);
            let made = start_server("127.0.0.1:0", move |_, _| {
                drop(closing.take());
                async {}
            });
            let made = made.await.unwrap();
            let address = made.local_addr();
            server.set(Some(made));
            // Both wait in the kernel when the first one is accepted.
            let made = [1, 2].map(|_| std::net::TcpStream::connect(address).unwrap());
            let streams = made.map(|stream| TcpStream::from_std(stream).unwrap());
            for stream in streams {
                let _ = stream.read_to_end().await;
            }
            assert!(server.take().is_none());
        });
    });
}

#[test]
fn a_cancelled_accept_leaves_the_connection_to_the_next() {
    on_both("cancelled accept", |test_loop| {
        test_loop.run(async {
            let listener = Rc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let listener = Rc::clone(&listener);
                    spawn(async move { listener.accept().await.map(drop) })
                })
                .collect();
            settle().await;
            let address = listener.local_addr();
            let clients: Vec<_> = (0..2).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            // The first listener is gone, so the others get all connections.
            waiting[0].cancel();
            let mut waiting = waiting.into_iter();
            assert!(waiting.next().unwrap().await.is_err());
            for task in waiting {
                task.await.unwrap().unwrap();
            }
            drop(clients);
        });
    });
}
