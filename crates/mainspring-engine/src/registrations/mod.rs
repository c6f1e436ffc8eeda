//! Which fd is registered, by whom, and who owns an fd that is not registered.

mod fd_table;
mod registration;
mod table;
mod watch;

pub use registration::Registration;
pub use watch::WatchTicket;

pub(crate) use table::{Registrant, SourceTable, Watches};

use crate::event_loop::{Direction, Engine};
use crate::host::Host;
