//! Channels. [`shared`] is the state, and `halves` the interface, that [`mpsc`] and [`threadsafe`] share.

pub mod broadcast;
mod errors;
mod halves;
pub mod mpsc;
pub mod oneshot;
mod shared;
mod stream;
pub mod threadsafe;
pub mod watch;
