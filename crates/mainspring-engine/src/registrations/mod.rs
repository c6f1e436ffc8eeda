//! Registrations: which fd is registered, for which watch or source, and which source owns an fd without registered
//! interest.

mod fd_table;
mod registration;
mod table;
mod watch;

pub use registration::Registration;
pub use watch::WatchTicket;

#[cfg(all(test, not(loom)))]
pub(crate) use registration::tests;

pub(crate) use table::{Registrant, SourceTable, Watches};

use crate::event_loop::{Direction, Engine};
use crate::host::Host;
