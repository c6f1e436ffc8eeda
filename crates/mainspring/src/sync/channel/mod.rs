//! Channels. [`shared`] is the part that the kinds with a queue share.

pub mod broadcast;
mod errors;
mod halves;
pub mod mpsc;
pub mod oneshot;
mod shared;
mod stream;
pub mod threadsafe;
pub mod watch;
