//! A loop on a thread of its own.

use mainspring::testing::{FakePoller, Op, VirtualClock};
use mainspring::{Error, EventLoop, JoinError, Runtime, RuntimeHandle, sleep, spawn};
use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn a_runtime_and_its_handle_go_to_any_thread() {
    is_send_and_sync::<Runtime>();
    is_send_and_sync::<RuntimeHandle>();
}

#[test]
fn calls_and_futures_run_on_the_loops_thread() {
    let runtime = Runtime::builder().name("elsewhere").start().unwrap();
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(runtime.call(name).wait().unwrap().as_deref(), Some("elsewhere"));
    assert_eq!(runtime.spawn(move || async move { name() }).wait().unwrap().as_deref(), Some("elsewhere"));
    assert_eq!(runtime.call(|| EventLoop::current().name().to_owned()).wait().unwrap(), "elsewhere");
    assert_eq!(runtime.name(), "elsewhere");
}

#[test]
fn panics_are_errors_of_the_result_and_the_loop_goes_on() {
    let runtime = Runtime::start().unwrap();
    let text = |result: Result<(), JoinError>| result.unwrap_err().to_string();
    assert!(text(runtime.call(|| panic!("a call")).wait()).contains("a call"));
    assert!(text(runtime.spawn(|| async { panic!("a future") }).wait()).contains("a future"));
    let make = || -> std::future::Ready<()> { panic!("what makes it") };
    assert!(text(runtime.spawn(make).wait()).contains("what makes it"));
    assert_eq!(runtime.call(|| 1).wait(), Ok(1));
}

#[test]
fn a_shutdown_lets_everything_come_to_its_end() {
    let runtime = Runtime::builder().configure(|b| b.clock(VirtualClock::default())).start().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let done = Arc::clone(&done);
        let spawned = runtime.spawn(move || async move {
            sleep(Duration::from_secs(3600)).await;
            let inner = Arc::clone(&done);
            spawn(async move {
                sleep(Duration::from_secs(3600)).await;
                inner.fetch_add(1, Ordering::SeqCst);
            });
            EventLoop::current().run_in_executor(|| ()).unwrap().await.unwrap();
            done.fetch_add(1, Ordering::SeqCst);
        });
        drop(spawned);
    }
    runtime.shutdown().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 20);
}

/// A channel of another library, as far as the loop knows: all that it has of a task is the waker.
mod foreign {
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};
    use std::task::{Poll, Waker};

    #[derive(Clone, Default)]
    pub struct Channel(Arc<Mutex<(Vec<u32>, Option<Waker>)>>);

    impl Channel {
        pub fn send(&self, number: u32) {
            let mut state = self.0.lock().unwrap();
            state.0.insert(0, number);
            let waker = state.1.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        pub async fn recv(&self) -> u32 {
            poll_fn(|cx| {
                let mut state = self.0.lock().unwrap();
                match state.0.pop() {
                    Some(number) => Poll::Ready(number),
                    None => {
                        state.1 = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await
        }
    }
}

/// A task that takes 1,000 numbers from a thread, which begins when the runtime is being ended and sends each when the one
/// before was received. Between them the loop has nothing to do that it can see.
fn task_fed_by_a_thread(runtime: &Runtime, begin: mpsc::Receiver<()>) -> Arc<AtomicUsize> {
    const COUNT: u32 = 1000;
    let (channel, received) = (foreign::Channel::default(), Arc::new(AtomicUsize::new(0)));
    let (taking, counting) = (channel.clone(), Arc::clone(&received));
    let (tell, told) = mpsc::channel();
    drop(runtime.spawn(move || async move {
        for number in 0..COUNT {
            assert_eq!(taking.recv().await, number);
            counting.fetch_add(1, Ordering::SeqCst);
            // The thread is gone if its test has failed.
            let _ = tell.send(());
        }
        // What a task begins is waited for as well.
        spawn(async move {
            assert_eq!(taking.recv().await, COUNT);
            counting.fetch_add(1, Ordering::SeqCst);
        });
    }));
    std::thread::spawn(move || {
        begin.recv().unwrap();
        for number in 0..COUNT {
            channel.send(number);
            if told.recv().is_err() {
                return;
            }
        }
        channel.send(COUNT);
    });
    received
}

#[test]
fn a_shutdown_waits_for_tasks_that_await_what_the_loop_cannot_see() {
    type End = fn(Runtime) -> Result<(), Error>;
    let ends: [End; 3] = [Runtime::shutdown, Runtime::join, |runtime| {
        runtime.shutdown_timeout(Duration::from_secs(3600)).map(|cancelled| assert_eq!(cancelled, 0))
    }];
    for end in ends {
        let runtime = Runtime::start().unwrap();
        let (tell, begin) = mpsc::channel();
        let received = task_fed_by_a_thread(&runtime, begin);
        let ending = std::thread::spawn(move || end(runtime));
        tell.send(()).unwrap();
        ending.join().unwrap().unwrap();
        assert_eq!(received.load(Ordering::SeqCst), 1001);
    }
}

#[test]
fn a_shutdown_waits_for_many_such_tasks_of_many_threads() {
    let runtime = Runtime::start().unwrap();
    let mut begins = Vec::new();
    let counts = [(); 5].map(|()| {
        let (tell, begin) = mpsc::channel();
        begins.push(tell);
        task_fed_by_a_thread(&runtime, begin)
    });
    let handle = runtime.handle();
    let beginning = std::thread::spawn(move || {
        while !handle.is_shut_down() {
            std::thread::yield_now();
        }
        begins.iter().for_each(|begin| begin.send(()).unwrap());
    });
    runtime.shutdown().unwrap();
    beginning.join().unwrap();
    assert_eq!(counts.map(|count| count.load(Ordering::SeqCst)), [1001; 5]);
}

/// Tells that it was dropped, and on which thread.
struct Tells(mpsc::Sender<Option<String>>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.send(std::thread::current().name().map(str::to_owned)).unwrap();
    }
}

#[test]
fn dropping_it_cancels_its_tasks_and_waits_for_their_destructors() {
    let runtime = Runtime::builder().name("dropped").start().unwrap();
    let (tell, told) = mpsc::channel();
    let tells = Tells(tell);
    let channel = foreign::Channel::default();
    let never = runtime.spawn(move || async move {
        let _tells = tells;
        channel.recv().await
    });
    let sleeping = runtime.delay(Duration::from_secs(3600));
    runtime.call(|| ()).wait().unwrap();
    drop(runtime);
    assert_eq!(told.try_recv().unwrap().as_deref(), Some("dropped"));
    assert!(never.wait().unwrap_err().is_cancelled());
    assert!(sleeping.wait().unwrap_err().is_cancelled());
}

#[test]
fn dropping_it_ends_servers_that_listen() {
    let runtime = Runtime::start().unwrap();
    let server = runtime.spawn(|| async {
        let server = mainspring::net::start_server("127.0.0.1:0", |_, _| pending::<()>()).await.unwrap();
        let address = server.local_addr();
        spawn(async move { server.serve_forever().await });
        let listener = mainspring::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let second = listener.local_addr();
        spawn(async move { while listener.accept().await.is_ok() {} });
        [address, second]
    });
    let addresses = server.wait().unwrap();
    let clients = addresses.map(|address| TcpStream::connect(address).unwrap());
    drop(runtime);
    for (mut client, address) in clients.into_iter().zip(addresses) {
        // The end, or a reset: in any case no wait.
        let _ = client.read(&mut [0]);
        TcpStream::connect(address).unwrap_err();
    }
}

#[test]
fn a_listener_that_no_task_waits_at_does_not_hold_up_the_drop() {
    let runtime = Runtime::start().unwrap();
    let (tell, told) = mpsc::channel();
    runtime
        .call_soon_threadsafe(move || {
            let (here, there) = UnixStream::pair().unwrap();
            EventLoop::current().add_reader(&here, || unreachable!()).unwrap();
            tell.send((here, there)).unwrap();
        })
        .unwrap();
    let _watched = told.recv().unwrap();
    drop(runtime);
}

#[test]
fn shut_down_in_the_background_it_waits_for_nothing() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let never = runtime.spawn(pending::<()>);
    let (release, blocked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let blocking = runtime.call(move || {
        tell.send(()).unwrap();
        blocked.recv().unwrap();
    });
    told.recv().unwrap();
    runtime.shutdown_background();
    assert!(handle.is_shut_down());
    release.send(()).unwrap();
    blocking.wait().unwrap();
    assert!(never.wait().unwrap_err().is_cancelled());
}

#[test]
fn tasks_that_never_end_are_counted_when_the_time_is_over() {
    let runtime = Runtime::start().unwrap();
    let stuck = runtime.spawn(pending::<()>);
    let also = runtime.spawn({
        let handle = runtime.handle();
        move || async move { handle.spawn(pending::<()>).await }
    });
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)).unwrap(), 3);
    assert!(stuck.wait().unwrap_err().is_cancelled());
    also.wait().unwrap_err();
}

#[test]
fn a_runtime_that_is_shut_down_refuses_and_says_so() {
    let runtime = Runtime::start().unwrap();
    let (handle, remote) = (runtime.handle(), runtime.remote());
    assert!(!handle.is_shut_down());
    runtime.shutdown().unwrap();
    assert!(handle.is_shut_down());
    assert!(matches!(handle.call_soon_threadsafe(|| ()), Err(Error::ShutDown)));
    assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
    assert!(handle.spawn(|| async {}).wait().unwrap_err().is_refused());
    assert!(handle.delay(Duration::ZERO).wait().unwrap_err().is_refused());
    let error = handle.connect("127.0.0.1:1").wait().unwrap_err();
    assert_eq!(error.to_string(), "refused: what was to run it is shut down");
    assert!(remote.call_soon_threadsafe(|| ()).is_err());
}

#[test]
fn while_it_drains_others_are_refused_and_its_own_are_not() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let (release, blocked) = mpsc::channel::<()>();
    let (inside, last) = (runtime.handle(), runtime.handle());
    let chained = runtime
        .call(move || blocked.recv().unwrap())
        .and_then(move |()| inside.delay(Duration::from_millis(1)))
        .and_then(move |()| last.spawn(|| async { 42 }));
    let ending = std::thread::spawn(move || runtime.shutdown());
    while !handle.is_shut_down() {
        std::thread::yield_now();
    }
    assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
    release.send(()).unwrap();
    assert_eq!(chained.wait(), Ok(42));
    ending.join().unwrap().unwrap();
}

#[test]
fn work_is_refused_or_done_whoever_wins_the_race_with_the_shutdown() {
    const THREADS: usize = 3;
    for round in 0..60 {
        let runtime = Runtime::start().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(THREADS + 1));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (handle, done, start) = (runtime.handle(), Arc::clone(&done), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    let mut accepted = 0;
                    let mut results = Vec::new();
                    loop {
                        let (one, two) = (Arc::clone(&done), Arc::clone(&done));
                        match handle.call_soon_threadsafe(move || {
                            one.fetch_add(1, Ordering::SeqCst);
                        }) {
                            Ok(()) => accepted += 1,
                            Err(error) => {
                                assert!(matches!(error, Error::ShutDown));
                                return (accepted, results);
                            }
                        }
                        results.push(handle.spawn(move || async move {
                            sleep(Duration::ZERO).await;
                            two.fetch_add(1, Ordering::SeqCst);
                        }));
                    }
                })
            })
            .collect();
        start.wait();
        if round % 2 == 0 {
            runtime.shutdown().unwrap();
        } else {
            assert_eq!(runtime.shutdown_timeout(Duration::from_secs(3600)).unwrap(), 0);
        }
        let mut accepted = 0;
        for thread in threads {
            let (calls, results) = thread.join().unwrap();
            accepted += calls;
            for result in results {
                match result.wait() {
                    Ok(()) => accepted += 1,
                    Err(error) => assert!(error.is_refused(), "{error}"),
                }
            }
        }
        assert_eq!(done.load(Ordering::SeqCst), accepted);
    }
}

#[test]
fn a_runtime_that_is_joined_takes_work_until_nothing_is_pending() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let (release, blocked) = mpsc::channel::<()>();
    let first = runtime.spawn(move || EventLoop::current().run_in_executor(move || blocked.recv()).unwrap());
    let joining = std::thread::spawn(move || runtime.join());
    assert_eq!(handle.call(|| 1).wait(), Ok(1), "not refused");
    release.send(()).unwrap();
    first.wait().unwrap().unwrap().unwrap();
    joining.join().unwrap().unwrap();
    assert!(handle.is_shut_down());
}

#[test]
fn shutting_down_now_cancels_what_runs_and_tells_whoever_waits() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let sleeping = runtime.delay(Duration::from_secs(3600));
    let (release, blocked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let blocking = runtime.call(move || {
        tell.send(()).unwrap();
        blocked.recv().unwrap();
    });
    told.recv().unwrap();
    let behind = runtime.call(|| unreachable!());
    let ending = std::thread::spawn(move || runtime.shutdown_now());
    while !handle.is_shut_down() {
        std::thread::yield_now();
    }
    release.send(()).unwrap();
    ending.join().unwrap().unwrap();
    blocking.wait().unwrap();
    assert!(sleeping.wait().unwrap_err().is_cancelled());
    let behind: Result<(), _> = behind.wait();
    behind.unwrap_err();
}

#[test]
fn a_drain_that_takes_too_long_is_cut_short() {
    let runtime = Runtime::start().unwrap();
    let sleeping = runtime.delay(Duration::from_secs(3600));
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)).unwrap(), 1);
    assert!(sleeping.wait().unwrap_err().is_cancelled());
    let runtime = Runtime::start().unwrap();
    let short = runtime.delay(Duration::from_millis(1));
    assert_eq!(runtime.shutdown_timeout(Duration::from_secs(3600)).unwrap(), 0);
    assert_eq!(short.wait(), Ok(()));
}

#[test]
fn a_stop_of_its_loop_does_not_end_a_runtime() {
    let runtime = Runtime::start().unwrap();
    runtime.call(|| EventLoop::current().stop()).wait().unwrap();
    runtime.remote().stop().unwrap();
    let stopping = runtime.spawn(|| async {
        sleep(Duration::from_millis(1)).await;
        EventLoop::current().stop();
        sleep(Duration::from_millis(1)).await;
    });
    runtime.shutdown().unwrap();
    assert_eq!(stopping.wait(), Ok(()));
}

#[test]
fn on_its_own_thread_it_is_asked_to_end_and_not_waited_for() {
    for by_drop in [true, false] {
        let runtime = Runtime::start().unwrap();
        let handle = runtime.handle();
        let (give, given) = mpsc::channel();
        let ended = handle.spawn(move || {
            let runtime: Runtime = given.recv().unwrap();
            async move {
                if by_drop {
                    drop(runtime);
                } else {
                    assert!(matches!(runtime.shutdown(), Err(Error::AlreadyRunning)));
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        give.send(runtime).unwrap();
        if by_drop {
            assert!(ended.wait().unwrap_err().is_cancelled());
        } else {
            assert_eq!(ended.wait(), Ok(()));
        }
        assert!(handle.call(|| ()).wait().is_err());
    }
}

#[test]
fn what_a_cancelled_task_submits_when_it_is_dropped_is_refused() {
    struct Last(RuntimeHandle, mpsc::Sender<bool>);
    impl Drop for Last {
        fn drop(&mut self) {
            let refused = self.0.call_soon_threadsafe(|| unreachable!()).is_err();
            self.1.send(refused).unwrap();
        }
    }
    let runtime = Runtime::start().unwrap();
    let (tell, told) = mpsc::channel();
    let last = Last(runtime.handle(), tell);
    drop(runtime.spawn(move || async move {
        let _last = last;
        pending::<()>().await;
    }));
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_now().unwrap(), 1);
    assert_eq!(told.recv(), Ok(true));
}

#[test]
fn a_loop_that_cannot_be_made_is_an_error_of_the_start() {
    let started = Runtime::builder().configure(|builder| builder.backend(broken())).start();
    assert!(matches!(started, Err(Error::Io(_))));
    let started = catch_unwind(AssertUnwindSafe(|| {
        Runtime::builder().configure(|_| panic!("configuring")).start().map(drop)
    }));
    assert!(started.is_err());
}

/// A back end that refuses the loop's own descriptors.
fn broken() -> mainspring::testing::Backend {
    let (backend, control) = FakePoller::open().unwrap();
    control.fail_next(Op::Update, 12);
    backend
}

#[test]
fn sockets_are_served_from_the_loops_thread() {
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
    let mut heard = [0; 5];
    server.read_exact(&mut heard).unwrap();
    server.write_all(b"welcome").unwrap();
    assert_eq!((&heard, greeting.wait().unwrap().as_str()), (b"hello", "welcome"));
}

#[test]
fn a_long_message_is_sent_as_fast_as_it_is_read() {
    let runtime = Runtime::start().unwrap();
    let (here, mut there) = UnixStream::pair().unwrap();
    let message: Vec<u8> = (0..=250).cycle().take(4 << 20).collect();
    let sent = runtime.write_all(here, message.clone());
    let mut heard = Vec::new();
    there.read_to_end(&mut heard).unwrap();
    sent.wait().unwrap();
    assert!(heard == message);
}

#[test]
fn failures_of_sockets_are_errors_of_the_result() {
    let runtime = Runtime::start().unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    drop(there);
    assert_eq!(runtime.read(here.try_clone().unwrap(), 100).wait().unwrap(), b"");
    assert_eq!(runtime.write_all(here, "x").wait().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let (pipe, _other) = io::pipe().unwrap();
    assert_eq!(runtime.read(pipe, 1).wait().unwrap_err().raw_os_error(), Some(88), "not a socket");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = runtime.connect(free).wait().unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let nowhere = runtime.connect("nowhere").wait().unwrap_err();
    assert_eq!(nowhere.kind(), io::ErrorKind::InvalidInput);
    drop(TcpStream::connect(free));
}

#[test]
fn waiting_on_the_loops_own_thread_for_what_the_loop_is_to_do_panics_and_does_not_hang() {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    let waits: [fn(&RuntimeHandle); 3] = [
        |handle| drop(handle.call(|| ()).wait()),
        |handle| drop(handle.spawn(|| async {}).wait()),
        |handle| drop(handle.call(|| 1).map(|number| number + 1).wait()),
    ];
    for wait in waits {
        let handle = handle.clone();
        let error = runtime.call(move || wait(&handle)).wait().unwrap_err();
        assert!(error.to_string().contains("await it in place of wait()"), "{error}");
    }
    // What comes from elsewhere, or is there, may be waited for.
    let other = Runtime::start().unwrap();
    assert_eq!(runtime.call(move || other.call(|| 1).wait()).wait(), Ok(Ok(1)));
    let handed = handle.call(|| 2);
    handle.call(|| ()).wait().unwrap();
    assert_eq!(runtime.call(move || handed.wait()).wait(), Ok(Ok(2)));
}
