//! Write flow control: when a protocol is told to pause writing, and when to go on. One for every kind of transport.

use super::{Cx, TransportHost};
use std::cell::Cell;

/// When to pause a protocol and when to resume it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterMarks {
    /// Above this many bytes the protocol is paused.
    pub high: usize,
    /// At this many or fewer it is resumed.
    pub low: usize,
}

impl Default for WaterMarks {
    /// asyncio's for sockets and pipes.
    fn default() -> Self {
        WaterMarks::of(64 * 1024)
    }
}

impl WaterMarks {
    /// Marks from what a user gave, the other derived as asyncio does; `None` if low is above high.
    pub fn new(high: Option<usize>, low: Option<usize>) -> Option<Self> {
        WaterMarks::derive(WaterMarks::default().high, high, low)
    }

    /// A high mark, and a quarter of it.
    pub const fn of(high: usize) -> Self {
        WaterMarks { high, low: high / 4 }
    }

    /// As [`WaterMarks::new`], with another default for the high mark.
    pub fn derive(default: usize, high: Option<usize>, low: Option<usize>) -> Option<Self> {
        let high = high.unwrap_or_else(|| low.map_or(default, |low| low.saturating_mul(4)));
        let low = low.unwrap_or(high / 4);
        (low <= high).then_some(WaterMarks { high, low })
    }
}

/// The marks in force, and whether the protocol is paused by them.
#[derive(Default)]
pub struct FlowControl {
    marks: Cell<WaterMarks>,
    paused: Cell<bool>,
}

impl FlowControl {
    /// With other marks than the default, or for a protocol that is paused already.
    pub fn new(marks: WaterMarks, paused: bool) -> Self {
        FlowControl { marks: Cell::new(marks), paused: Cell::new(paused) }
    }

    /// The marks in force.
    pub fn marks(&self) -> WaterMarks {
        self.marks.get()
    }

    /// Sets the marks. To be followed by [`FlowControl::grown`]: more than the new high mark may wait already.
    pub fn set_marks(&self, marks: WaterMarks) {
        self.marks.set(marks);
    }

    /// Whether the protocol was told to pause, and not yet to resume.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// Counts the protocol as paused, without a word to it: it has asked, and is told to resume.
    pub fn pause(&self) {
        self.paused.set(true);
    }

    /// `waiting` bytes wait now: pauses the protocol if that is too much and it does not know yet. A failure of
    /// `pause_writing` is reported, and the transport goes on.
    pub fn grown<H: TransportHost>(
        &self,
        cx: Cx<'_, H>,
        waiting: usize,
        pause_writing: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        if waiting <= self.marks.get().high || self.paused.replace(true) {
            return Ok(());
        }
        match pause_writing() {
            Ok(()) => Ok(()),
            Err(error) => cx.host().report(cx.this, error, "protocol.pause_writing() failed"),
        }
    }

    /// `waiting` bytes are left: resumes the protocol if it was paused and that is little enough. Failures as in
    /// [`FlowControl::grown`].
    pub fn shrunk<H: TransportHost>(
        &self,
        cx: Cx<'_, H>,
        waiting: usize,
        resume_writing: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        if waiting > self.marks.get().low || !self.paused.replace(false) {
            return Ok(());
        }
        match resume_writing() {
            Ok(()) => Ok(()),
            Err(error) => cx.host().report(cx.this, error, "protocol.resume_writing() failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn water_marks_derive_each_other_as_asyncio_does() {
        assert_eq!(WaterMarks::new(None, None), Some(WaterMarks { high: 65536, low: 16384 }));
        assert_eq!(WaterMarks::new(Some(100), None), Some(WaterMarks { high: 100, low: 25 }));
        assert_eq!(WaterMarks::new(None, Some(10)), Some(WaterMarks { high: 40, low: 10 }));
        assert_eq!(WaterMarks::new(Some(0), None), Some(WaterMarks { high: 0, low: 0 }));
        assert_eq!(WaterMarks::new(Some(1), Some(2)), None);
    }
}
