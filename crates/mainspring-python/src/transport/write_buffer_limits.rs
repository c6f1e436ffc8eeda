//! The arguments of `set_write_buffer_limits(high=None, low=None)` and `set_read_buffer_limits()`.

use crate::python::object::Obj;
use mainspring_engine::transport::{WaterMarks, complete_water_marks};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyFloat;

/// The water marks for the arguments; `default` is the high mark if both are missing.
///
/// asyncio accepts any numbers, and its exception shows them as they were given. So the missing mark is computed and
/// checked with Python's arithmetic.
pub fn write_buffer_limits<'py>(
    py: Python<'py>,
    high: Option<&Obj>,
    low: Option<&Obj>,
    default: usize,
) -> PyResult<WaterMarks> {
    let [high, low] = [high, low].map(|mark| mark.filter(|mark| !mark.is_none()).map(|mark| mark.bind(py)));
    let default = default.into_pyobject(py)?.into_any();
    let multiply = |low: &Bound<'py, PyAny>, factor: usize| factor.into_pyobject(py)?.mul(low);
    let divide = |high: &Bound<'py, PyAny>, factor: usize| high.floor_div(factor);
    let (high, low) = complete_water_marks(high, low, default, multiply, divide)?;
    if !(high.ge(&low)? && low.ge(0)?) {
        let (high, low) = (high.repr()?, low.repr()?);
        return Err(PyValueError::new_err(format!("high ({high}) must be >= low ({low}) must be >= 0")));
    }
    Ok(WaterMarks { high: whole_bytes(&high)?, low: whole_bytes(&low)? })
}

/// A number that is not negative, rounded down to whole bytes.
fn whole_bytes(mark: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(mark) = mark.cast::<PyFloat>() {
        return Ok(mark.value() as usize); // saturates, so infinity is the largest number
    }
    match mark.extract::<usize>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(mark.py()) => Ok(usize::MAX),
        result => result,
    }
}
