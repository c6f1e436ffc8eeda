//! Water marks as users give them: `set_write_buffer_limits(high=None, low=None)` and its kin.

use crate::fastcall::Args;
use mainspring::transport::WaterMarks;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The marks that the arguments stand for; `default` is the high one where neither is given.
pub fn marks_from(py: Python<'_>, args: &Args<'_>, default: usize) -> PyResult<WaterMarks> {
    let [high, low] = args.optional(py, ["high", "low"])?;
    let mark = |value: Option<Bound<'_, PyAny>>| -> PyResult<Option<i64>> {
        value.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
    };
    let (high, low) = (mark(high)?, mark(low)?);
    let positive = |mark: Option<i64>| mark.map(usize::try_from).transpose().ok();
    let marks =
        positive(high).zip(positive(low)).and_then(|(high, low)| WaterMarks::derive(default, high, low));
    marks.ok_or_else(|| {
        let high = high.or(low.map(|low| low.saturating_mul(4))).unwrap_or(default as i64);
        let low = low.unwrap_or(high.div_euclid(4));
        PyValueError::new_err(format!("high ({high}) must be >= low ({low}) must be >= 0"))
    })
}
