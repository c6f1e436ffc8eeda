//! Back-pressure: when to pause and resume the writing protocol. Shared by all transports.

use super::{Cx, TransportHost};
use std::cell::Cell;
use std::convert::Infallible;

/// The high mark divided by the low mark, unless both are set.
const HIGH_TO_LOW: usize = 4;

/// The limits of the write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterMarks {
    /// Above this many bytes the protocol is paused.
    pub high: usize,
    /// At or below this many bytes it is resumed.
    pub low: usize,
}

impl Default for WaterMarks {
    /// asyncio's default for sockets and pipes.
    fn default() -> Self {
        WaterMarks::of(64 * 1024)
    }
}

impl WaterMarks {
    /// Marks from user input. A missing one is derived as in asyncio; `None` if low is above high.
    pub fn new(high: Option<usize>, low: Option<usize>) -> Option<Self> {
        WaterMarks::derive(WaterMarks::default().high, high, low)
    }

    /// A high mark, with its low mark.
    pub const fn of(high: usize) -> Self {
        WaterMarks { high, low: high / HIGH_TO_LOW }
    }

    /// As [`WaterMarks::new`], with another default for the high mark.
    pub fn derive(default: usize, high: Option<usize>, low: Option<usize>) -> Option<Self> {
        let multiply = |low: &usize, factor| Ok::<_, Infallible>(low.saturating_mul(factor));
        let divide = |high: &usize, factor| Ok(high / factor);
        let Ok((high, low)) = complete_water_marks(high, low, default, multiply, divide);
        (low <= high).then_some(WaterMarks { high, low })
    }
}

/// Completes the marks of `set_write_buffer_limits(high, low)`: the high mark is four times the low mark. `default` is
/// the high mark if both are missing. Generic over the number, because asyncio accepts any Python number.
pub fn complete_water_marks<N, E>(
    high: Option<N>,
    low: Option<N>,
    default: N,
    multiply: impl FnOnce(&N, usize) -> Result<N, E>,
    divide: impl FnOnce(&N, usize) -> Result<N, E>,
) -> Result<(N, N), E> {
    let high = match (high, &low) {
        (Some(high), _) => high,
        (None, Some(low)) => multiply(low, HIGH_TO_LOW)?,
        (None, None) => default,
    };
    let low = low.map_or_else(|| divide(&high, HIGH_TO_LOW), Ok)?;
    Ok((high, low))
}

/// The marks, and whether the protocol is paused.
#[derive(Default)]
pub struct FlowControl {
    /// `None`: the default. Most connections keep it, and idle ones should be small.
    marks: Cell<Option<Box<WaterMarks>>>,
    paused: Cell<bool>,
}

impl FlowControl {
    /// Creates a flow control with these marks, for a protocol that may already be paused.
    pub fn new(marks: WaterMarks, paused: bool) -> Self {
        let flow = FlowControl { marks: Cell::new(None), paused: Cell::new(paused) };
        flow.set_marks(marks);
        flow
    }

    /// The marks.
    pub fn marks(&self) -> WaterMarks {
        let marks = self.marks.take();
        let copy = marks.as_deref().copied().unwrap_or_default();
        self.marks.set(marks);
        copy
    }

    /// Sets the marks. Call [`FlowControl::grown`] next: the buffer may exceed the new high mark.
    pub fn set_marks(&self, marks: WaterMarks) {
        let is_default = marks == WaterMarks::default();
        self.marks.set((!is_default).then(|| Box::new(marks)));
    }

    /// Whether the protocol is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// Marks the protocol as paused without a call to it: it knows from a refused send, and waits for the resume.
    pub fn pause(&self) {
        self.paused.set(true);
    }

    /// Pauses the protocol if `waiting` bytes exceed the high mark and it is not paused. An error of `pause_writing`
    /// is reported, and the transport continues.
    pub fn grown<H: TransportHost>(
        &self,
        cx: Cx<'_, H>,
        waiting: usize,
        pause_writing: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        if waiting <= self.marks().high || self.paused.replace(true) {
            return Ok(());
        }
        match pause_writing() {
            Ok(()) => Ok(()),
            Err(error) => cx.host().report(cx.this, error, "protocol.pause_writing() failed"),
        }
    }

    /// Resumes the protocol if it is paused and `waiting` bytes are within the low mark. Errors as in
    /// [`FlowControl::grown`].
    pub fn shrunk<H: TransportHost>(
        &self,
        cx: Cx<'_, H>,
        waiting: usize,
        resume_writing: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        if waiting > self.marks().low || !self.paused.replace(false) {
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
