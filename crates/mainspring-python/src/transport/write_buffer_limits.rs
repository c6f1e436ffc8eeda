//! Water marks as users give them: `set_write_buffer_limits(high=None, low=None)` and its kin.

use crate::python::method::Args;
use mainspring_engine::transport::WaterMarks;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// The marks that the arguments stand for; `default` is the high one where neither is given.
///
/// The arithmetic is Python's: any numbers will do, as in asyncio.
pub fn marks_from(py: Python<'_>, args: &Args<'_>, default: usize) -> PyResult<WaterMarks> {
    let [high, low] = args.optional(py, ["high", "low"])?.map(|mark| mark.filter(|mark| !mark.is_none()));
    let high = match (high, &low) {
        (Some(high), _) => high,
        (None, Some(low)) => 4_i32.into_pyobject(py)?.mul(low)?,
        (None, None) => default.into_pyobject(py)?.into_any(),
    };
    let low = low.map_or_else(|| high.floor_div(4), Ok)?;
    if !(high.ge(&low)? && low.ge(0)?) {
        let (high, low) = (high.repr()?, low.repr()?);
        return Err(PyValueError::new_err(format!("high ({high}) must be >= low ({low}) must be >= 0")));
    }
    Ok(WaterMarks { high: whole(&high)?, low: whole(&low)? })
}

/// A number that is not negative, in whole bytes: a buffer is above both or above neither.
fn whole(mark: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(mark) = mark.cast::<PyFloat>() {
        return Ok(mark.value() as usize); // at most the largest, as for infinity
    }
    match mark.extract::<usize>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(mark.py()) => Ok(usize::MAX),
        given => given,
    }
}
