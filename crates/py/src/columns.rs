//! Columns of numbers from Python: anything with a buffer of the right type (numpy, `array`,
//! polars, pyarrow) in one copy, any other iterable item by item.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::errors::{Failure, exception};

/// Whole numbers from 0 to 2^64 - 1. `name` is the argument's, for messages.
pub fn whole_numbers(name: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Some(values) = buffer::<u64>(column) {
        return Ok(values);
    }
    if let Some(values) = buffer::<u8>(column) {
        return Ok(values.into_iter().map(u64::from).collect());
    }
    if let Some(values) = buffer::<u32>(column) {
        return Ok(values.into_iter().map(u64::from).collect());
    }
    let signed = buffer::<i64>(column);
    if let Some(values) = signed.or_else(|| Some(buffer::<i32>(column)?.into_iter().map(i64::from).collect())) {
        return values
            .into_iter()
            .enumerate()
            .map(|(at, value)| u64::try_from(value).map_err(|_| not_whole(name, at, value)))
            .collect();
    }
    items(column, |at, item| item.extract().map_err(|_| not_whole(name, at, item.to_string())))
}

/// Numbers of any kind, as floats.
pub fn numbers(name: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    if let Some(values) = buffer::<f64>(column) {
        return Ok(values);
    }
    items(column, |at, item| {
        item.extract().map_err(|_| {
            let message = format!("{name}[{at}] is {item}, expected a number");
            exception(Failure::Argument(message))
        })
    })
}

fn buffer<T: Element>(column: &Bound<'_, PyAny>) -> Option<Vec<T>> {
    PyBuffer::get(column).ok()?.to_vec(column.py()).ok()
}

fn items<T>(column: &Bound<'_, PyAny>, convert: impl Fn(usize, &Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    column.try_iter()?.enumerate().map(|(at, item)| convert(at, &item?)).collect()
}

fn not_whole(name: &str, at: usize, value: impl std::fmt::Display) -> PyErr {
    let wanted = "expected a whole number from 0 to 18446744073709551615";
    exception(Failure::Argument(format!("{name}[{at}] is {value}, {wanted}")))
}
