//! Dropping a runtime, ending it on its own thread, and destructors of cancelled tasks.

use super::foreign_channel::Channel;
use mainspring::{Error, EventLoop, Runtime, RuntimeHandle, sleep, spawn};
use std::future::pending;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

/// Sends the name of the thread that drops it.
struct SendsDropThread(mpsc::Sender<Option<String>>);

impl Drop for SendsDropThread {
    fn drop(&mut self) {
        self.0.send(std::thread::current().name().map(str::to_owned)).unwrap();
    }
}

#[test]
fn dropping_a_runtime_cancels_its_tasks_and_waits_for_their_destructors() {
    let runtime = Runtime::builder().name("dropped").start().unwrap();
    let (sender, dropped_on) = mpsc::channel();
    let on_drop = SendsDropThread(sender);
    let channel = Channel::default();
    let pending_task = runtime.spawn(move || async move {
        let _on_drop = on_drop;
        channel.recv().await
    });
    let sleeping = runtime.delay(Duration::from_secs(3600));
    runtime.call(|| ()).wait().unwrap();
    drop(runtime);
    assert_eq!(dropped_on.try_recv().unwrap().as_deref(), Some("dropped"));
    assert!(pending_task.wait().unwrap_err().is_cancelled());
    assert!(sleeping.wait().unwrap_err().is_cancelled());
}

#[test]
fn dropping_a_runtime_closes_its_listeners() {
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
        // EOF or a reset, but no hang.
        let _ = client.read(&mut [0]);
        TcpStream::connect(address).unwrap_err();
    }
}

#[test]
fn a_reader_without_a_task_does_not_delay_the_drop() {
    let runtime = Runtime::start().unwrap();
    let (sender, receiver) = mpsc::channel();
    runtime
        .call_soon_threadsafe(move || {
            let (local, peer) = UnixStream::pair().unwrap();
            EventLoop::current().add_reader(&local, || unreachable!()).unwrap();
            sender.send((local, peer)).unwrap();
        })
        .unwrap();
    let _registered = receiver.recv().unwrap();
    drop(runtime);
}

#[test]
fn a_runtime_ended_on_its_own_thread_is_not_waited_for() {
    for by_drop in [true, false] {
        let runtime = Runtime::start().unwrap();
        let handle = runtime.handle();
        let (sender, receiver) = mpsc::channel();
        let ended = handle.spawn(move || {
            let runtime: Runtime = receiver.recv().unwrap();
            async move {
                if by_drop {
                    drop(runtime);
                } else {
                    assert!(matches!(runtime.shutdown(), Err(Error::AlreadyRunning)));
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        sender.send(runtime).unwrap();
        if by_drop {
            assert!(ended.wait().unwrap_err().is_cancelled());
        } else {
            assert_eq!(ended.wait(), Ok(()));
        }
        assert!(handle.call(|| ()).wait().is_err());
    }
}

#[test]
fn a_call_submitted_by_a_cancelled_tasks_destructor_is_refused() {
    struct SubmitsOnDrop(RuntimeHandle, mpsc::Sender<bool>);
    impl Drop for SubmitsOnDrop {
        fn drop(&mut self) {
            let refused = self.0.call_soon_threadsafe(|| unreachable!()).is_err();
            self.1.send(refused).unwrap();
        }
    }
    let runtime = Runtime::start().unwrap();
    let (sender, refused) = mpsc::channel();
    let on_drop = SubmitsOnDrop(runtime.handle(), sender);
    drop(runtime.spawn(move || async move {
        let _on_drop = on_drop;
        pending::<()>().await;
    }));
    runtime.call(|| ()).wait().unwrap();
    assert_eq!(runtime.shutdown_now().unwrap(), 1);
    assert_eq!(refused.recv(), Ok(true));
}
