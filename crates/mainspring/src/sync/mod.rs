//! Synchronisation between the tasks of one loop, as asyncio's.

mod event;
pub(crate) mod line;
pub(crate) mod wait_list;

pub use event::Event;
