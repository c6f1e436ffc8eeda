//! Which public types are `Send` and `Sync`.

use mainspring::{fs, net, process, signal, sync, testing};
use std::marker::PhantomData;

/// Shows whether a type is `Send` and `Sync`: if it is, the inherent constants exist and shadow those of the traits.
struct Probe<T: ?Sized>(PhantomData<T>);

trait NotSend {
    const IS_SEND: bool = false;
}

trait NotSync {
    const IS_SYNC: bool = false;
}

impl<T: ?Sized> NotSend for Probe<T> {}
impl<T: ?Sized> NotSync for Probe<T> {}

impl<T: ?Sized + Send> Probe<T> {
    const IS_SEND: bool = true;
}

impl<T: ?Sized + Sync> Probe<T> {
    const IS_SYNC: bool = true;
}

macro_rules! check {
    (send: $send:literal, sync: $sync:literal; $($kind:ty),* $(,)?) => {
        $(assert_eq!(
            (<Probe<$kind>>::IS_SEND, <Probe<$kind>>::IS_SYNC),
            ($send, $sync),
            "Send and Sync of {}",
            stringify!($kind)
        );)*
    };
}

#[test]
fn streams_sockets_processes_and_signals_are_neither_send_nor_sync() {
    check! { send: false, sync: false;
        net::Transport, net::Stream, net::StreamReader, net::StreamWriter, net::Server,
        net::TcpStream, net::TcpListener, net::UnixStream, net::UnixListener,
        net::UdpSocket, net::UnixDatagram, net::DatagramTransport,
        net::DatagramTransport<std::os::unix::net::SocketAddr>, net::Resolving,
        process::Child, process::ChildStdin, process::ChildStdout, process::ChildStderr,
        process::SubprocessTransport, signal::Signal,
        testing::VirtualClock, testing::FakeControl, testing::Backend,
    }
}

#[test]
fn options_and_errors_of_tests_are_send_and_sync() {
    check! { send: true, sync: true;
        testing::Options, testing::RealIo, testing::Deadlock, testing::RealIoError, testing::StuckTask,
        testing::ExploreError, mainspring::Error,
    }
}

#[test]
fn locks_and_queues_are_send_but_not_sync() {
    check! { send: true, sync: false;
        sync::Lock<u8>, sync::RwLock<u8>, sync::Event, sync::Condition, sync::Semaphore, sync::Barrier,
        sync::Notify, sync::OnceCell<u8>, sync::Queue<u8>, sync::LifoQueue<u8>, sync::PriorityQueue<u8>,
    }
}

#[test]
fn guards_permits_and_channel_halves_are_neither_send_nor_sync() {
    check! { send: false, sync: false;
        sync::LockGuard<'static, u8>, sync::OwnedLockGuard<u8>,
        sync::RwLockReadGuard<'static, u8>, sync::RwLockWriteGuard<'static, u8>,
        sync::SemaphorePermit<'static>, sync::OwnedSemaphorePermit, sync::Notified<'static>,
        sync::mpsc::Sender<u8>, sync::mpsc::UnboundedSender<u8>, sync::mpsc::Receiver<u8>,
        sync::oneshot::Sender<u8>, sync::oneshot::Receiver<u8>,
        sync::watch::Sender<u8>, sync::watch::Receiver<u8>,
        sync::broadcast::Sender<u8>, sync::broadcast::Receiver<u8>,
    }
}

#[test]
fn threadsafe_channel_halves_are_send_and_sync() {
    check! { send: true, sync: true;
        sync::threadsafe::Sender<u8>, sync::threadsafe::UnboundedSender<u8>, sync::threadsafe::Receiver<u8>,
    }
    check! { send: false, sync: false; sync::threadsafe::Sender<std::rc::Rc<u8>> }
}

#[test]
fn files_options_and_errors_are_send_and_sync() {
    check! { send: true, sync: true;
        fs::File, fs::OpenOptions, fs::ReadDir, fs::DirEntry,
        net::Address, net::AddrInfo, net::AddrInfoHints, net::NameInfoFlags, net::Family, net::SocketKind,
        net::Lookup, net::UCred,
        net::ConnectOptions, net::ServerOptions, net::DatagramOptions, net::KeepAlive, net::ReadError,
        process::Command, signal::SignalKind,
        sync::AcquireError, sync::TryAcquireError, sync::ReleasedTooOften, sync::BrokenBarrierError,
        sync::DoneTooOften, sync::GetError, sync::PutError<u8>, sync::QueueShutDown<u8>,
        sync::mpsc::SendError<u8>, sync::mpsc::TrySendError<u8>, sync::mpsc::TryRecvError,
        sync::oneshot::RecvError, sync::broadcast::RecvError, sync::broadcast::TryRecvError,
        sync::Fifo<u8>, sync::Lifo<u8>, sync::LeastFirst<u8>,
        testing::Call, testing::LogEntry, testing::Op, testing::Fault, testing::FaultPlan,
    }
}

#[cfg(feature = "rustls")]
#[test]
fn tls_configurations_are_send_and_sync_and_connections_are_not() {
    check! { send: true, sync: true;
        net::tls::TlsAcceptor, net::tls::TlsConnector, net::tls::TlsInfo, net::tls::TlsError,
    }
    check! { send: false, sync: false; net::tls::TlsStream, net::tls::TlsProtocol }
}

#[cfg(feature = "hyper")]
#[test]
fn the_hyper_executor_and_timer_are_send_and_sync_and_its_io_is_not() {
    use mainspring::hyper::{HyperExecutor, HyperIo, HyperSleep, HyperTimer};
    check! { send: true, sync: true; HyperExecutor, HyperTimer, HyperSleep }
    check! { send: false, sync: false; HyperIo<net::TcpStream> }
}

#[test]
fn loops_tasks_and_timers_are_neither_send_nor_sync() {
    use mainspring::context::{Context, Token};
    use mainspring::{
        Builder, EventLoop, ExceptionContext, Future, FutureError, Handle, JoinSet, Runner, Sleep, Task,
        TaskBuilder, TaskFuture, TaskGroup, TaskHandle, TimerHandle, time,
    };
    check! { send: false, sync: false;
        EventLoop, Builder, Runner, ExceptionContext, Handle, TimerHandle, Future<u8>, FutureError,
        Task<u8>, TaskHandle, TaskBuilder, TaskFuture, TaskGroup<u8>, JoinSet<u8>, Context, Token<u8>,
        Sleep, time::After, time::Interval,
    }
}

#[test]
fn remotes_runtimes_and_concurrent_futures_are_send_and_sync() {
    use mainspring::{
        CancelHandle, ConcurrentFuture, Executor, KeepAlive, Promise, Remote, Runtime, RuntimeBuilder,
        RuntimeHandle,
    };
    check! { send: true, sync: true;
        Remote, KeepAlive, Runtime, RuntimeHandle, Executor, CancelHandle,
        ConcurrentFuture<u8>, ConcurrentFuture<std::cell::Cell<u8>>, Promise<u8>,
        mainspring::context::ContextVar<std::rc::Rc<u8>>, mainspring_engine::wakeup::Inbox<u8>,
    }
    check! { send: true, sync: false;
        RuntimeBuilder, mainspring::executor::SubmitError, mainspring_engine::child::ChildWatch,
    }
    check! { send: false, sync: false; ConcurrentFuture<std::rc::Rc<u8>>, Promise<std::rc::Rc<u8>> }
}

#[test]
fn results_errors_and_ids_are_send_and_sync() {
    use mainspring::{
        AsCompleted, ChildError, Counters, Either, Elapsed, Error, ExecutorConfig, GroupError, JoinError,
        LagHistogram, Lane, Metrics, ReturnWhen, Stall, TaskId, Time,
    };
    check! { send: true, sync: true;
        Error, JoinError, GroupError<u8>, ChildError<u8>, Elapsed, Either<u8, u8>, ReturnWhen, TaskId, Time, Lane,
        Metrics, Counters, LagHistogram, Stall, ExecutorConfig, AsCompleted<std::future::Ready<u8>>,
    }
    check! { send: false, sync: false; GroupError<std::rc::Rc<u8>>, AsCompleted<std::future::Ready<std::rc::Rc<u8>>> }
}
