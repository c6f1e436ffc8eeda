//! The event loop under mainspring: loop iteration, timers, poller, signals, transports and the TLS state machine.
//!
//! For authors of APIs on top of the engine: `mainspring` is the one for Rust programs, `mainspring-python` the one for
//! Python. The engine depends on neither. Semantic versioning does not cover it: it changes as these APIs need.
//! Programs use `mainspring`.
//!
//! - [`Engine`] is the loop, generic over a [`Host`]: the callbacks that the API on top supplies.
//! - [`transport`] has the state machines between an fd and a protocol, [`tls`] the one between two transports.
//! - [`socket_ops`] implements `sock_recv()` and its relatives, [`child`] waits for child processes, [`signals`]
//!   catches signals.
//! - [`poller`] is the contract with the kernel and its epoll back end; [`testing`] has a back end that fails on
//!   demand.
//!
//! # A minimal host
//!
//! The engine calls the code on top of it through [`Host`]:
//!
//! ```
//! use mainspring_engine::clock::MonotonicClock;
//! use mainspring_engine::{Engine, Host, Readiness};
//! use mainspring_engine::poller::open_epoll;
//! use std::cell::RefCell;
//! use std::io;
//! use std::rc::Rc;
//!
//! /// Calls are closures; there are no transports.
//! struct Plain;
//!
//! type Callback = Rc<dyn Fn()>;
//!
//! impl Host for Plain {
//!     type Call = Callback;
//!     type Handle = Callback;
//!     type Watch = Callback;
//!     type Source = ();
//!     type Owner = ();
//!     type Inbound = Box<dyn Fn() + Send>;
//!     type Error = io::Error;
//!
//!     fn run_call(&self, call: Callback) -> io::Result<()> {
//!         call();
//!         Ok(())
//!     }
//!
//!     fn io_ready(&self, (): (), _: Readiness) -> Option<Callback> {
//!         None
//!     }
//!
//!     fn scope_ended(&self, (): ()) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn receive(&self, inbound: Self::Inbound) -> Option<Callback> {
//!         Some(Rc::new(inbound))
//!     }
//!
//!     fn blocking(&self, wait: &mut dyn FnMut()) {
//!         wait();
//!     }
//!
//!     fn interrupted(&self) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn os_error(&self, error: io::Error) -> io::Error {
//!         error
//!     }
//! }
//!
//! let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
//! let order = Rc::new(RefCell::new(Vec::new()));
//! let note = |word| -> Callback {
//!     let order = Rc::clone(&order);
//!     Rc::new(move || order.borrow_mut().push(word))
//! };
//! engine.call_at(engine.now(), note("due timer"));
//! engine.call_soon(note("ready call"));
//! engine.run_until_idle()?;
//! assert_eq!(*order.borrow(), ["ready call", "due timer"]);
//! # Ok::<(), io::Error>(())
//! ```

#![deny(missing_docs)]
// `unsafe` is allowed in leaf modules only, each with a reason.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "pidfd_send_signal and kill")]
pub mod child;
#[allow(unsafe_code, reason = "clock_gettime")]
pub mod clock;
mod event_loop;
mod host;
#[doc(hidden)]
pub mod loom_shim;
pub mod memory;
pub mod name_lookup;
pub mod poller;
pub mod ready_queue;
mod registrations;
pub mod signals;
pub mod socket_file;
pub mod socket_ops;
pub mod stalls;
pub mod testing;
pub mod timers;
pub mod tls;
pub mod transport;
pub mod wakeup;

pub use event_loop::{
    CallbackScope, Direction, Engine, GcReference, Hooks, LAG_BOUNDS, LagHistogram, Metrics, READ_SIZE,
    Shuffle, Unreleased,
};
pub use host::Host;
pub use poller::Readiness;
pub use registrations::{Registration, WatchTicket};
