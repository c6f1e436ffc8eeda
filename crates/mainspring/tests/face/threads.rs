//! What may go to other threads: each item's word on `Send` and `Sync`, kept.

use mainspring::{fs, net, process, signal, sync, testing};
use std::marker::PhantomData;

/// Whether a type is `Send` or `Sync`: the constants of its own, which it has under that condition, hide the trait's.
struct Probe<T: ?Sized>(PhantomData<T>);

trait Otherwise {
    const IS_SEND: bool = false;
}

trait OtherwiseShared {
    const IS_SYNC: bool = false;
}

impl<T: ?Sized> Otherwise for Probe<T> {}
impl<T: ?Sized> OtherwiseShared for Probe<T> {}

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
fn what_belongs_to_a_loop_stays_on_its_thread() {
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
fn what_tasks_share_may_be_moved_but_not_shared_between_threads() {
    check! { send: true, sync: false;
        sync::Lock<u8>, sync::RwLock<u8>, sync::Event, sync::Condition, sync::Semaphore, sync::Barrier,
        sync::Notify, sync::OnceCell<u8>, sync::Queue<u8>, sync::LifoQueue<u8>, sync::PriorityQueue<u8>,
    }
}

#[test]
fn guards_permits_waits_and_halves_of_channels_stay_on_their_thread() {
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
fn halves_of_a_channel_between_threads_go_to_them() {
    check! { send: true, sync: true;
        sync::threadsafe::Sender<u8>, sync::threadsafe::UnboundedSender<u8>, sync::threadsafe::Receiver<u8>,
    }
    check! { send: false, sync: false; sync::threadsafe::Sender<std::rc::Rc<u8>> }
}

#[test]
fn files_and_plain_values_go_anywhere() {
    check! { send: true, sync: true;
        fs::File, fs::OpenOptions, fs::ReadDir, fs::DirEntry,
        net::Address, net::AddrInfo, net::AddrInfoHints, net::NameInfoFlags, net::Family, net::SocketKind, net::Lookup, net::UCred,
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
fn configurations_of_tls_go_anywhere_and_its_connections_stay() {
    check! { send: true, sync: true;
        net::tls::TlsAcceptor, net::tls::TlsConnector, net::tls::TlsInfo, net::tls::TlsError,
    }
    check! { send: false, sync: false; net::tls::TlsStream, net::tls::TlsProtocol }
}

#[cfg(feature = "hyper")]
#[test]
fn what_hyper_is_given_goes_as_far_as_hyper_asks() {
    use mainspring::hyper::{HyperExecutor, HyperIo, HyperSleep, HyperTimer};
    check! { send: true, sync: true; HyperExecutor, HyperTimer, HyperSleep }
    check! { send: false, sync: false; HyperIo<net::TcpStream> }
}

#[test]
fn a_loop_and_what_lives_on_it_stay_on_its_thread() {
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
fn what_reaches_a_loop_goes_to_the_threads_it_is_for() {
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
fn results_errors_and_numbers_go_anywhere() {
    use mainspring::{
        AsCompleted, ChildError, Either, Elapsed, Error, ExecutorConfig, GroupError, JoinError, Lane,
        Metrics, ReturnWhen, TaskId, Time,
    };
    check! { send: true, sync: true;
        Error, JoinError, GroupError<u8>, ChildError<u8>, Elapsed, Either<u8, u8>, ReturnWhen, TaskId, Time, Lane,
        Metrics, ExecutorConfig, AsCompleted<std::future::Ready<u8>>,
    }
    check! { send: false, sync: false; GroupError<std::rc::Rc<u8>>, AsCompleted<std::future::Ready<std::rc::Rc<u8>>> }
}
