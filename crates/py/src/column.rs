//! Columns as objects that use the library's memory.

use crate::buffer::Buffer;
use hither::Values;
use pyo3::prelude::*;

/// A column in Arrow's layout.
#[pyclass(frozen, get_all, module = "hither._core")]
pub(crate) struct Column {
    /// Number of entries.
    entries: usize,
    /// First item of each entry and end of the last; None if there is one item per entry.
    offsets: Option<Py<Buffer>>,
    /// Dimensions of an item, outermost first.
    item_shape: Vec<usize>,
    /// A `Buffer` of numbers, `Strings`, or a `Column` with an entry per value.
    values: Py<PyAny>,
}

/// Concatenated strings.
#[pyclass(frozen, get_all, module = "hither._core")]
pub(crate) struct Strings {
    /// Start of each string and end of the last.
    offsets: Py<Buffer>,
    /// All strings, mostly UTF-8.
    bytes: Py<Buffer>,
}

impl Column {
    /// Creates an object that takes ownership of the memory of a column.
    pub(crate) fn new(column: hither::Column, py: Python<'_>) -> PyResult<Self> {
        let offsets =
            column.offsets.map(|offsets| Py::new(py, Buffer::own(offsets))).transpose()?;
        let values = match column.values {
            Values::Bool(values) => own(Buffer::own(values), py)?,
            Values::I8(values) => own(Buffer::own(values), py)?,
            Values::U8(values) => own(Buffer::own(values), py)?,
            Values::I16(values) => own(Buffer::own(values), py)?,
            Values::U16(values) => own(Buffer::own(values), py)?,
            Values::I32(values) => own(Buffer::own(values), py)?,
            Values::U32(values) => own(Buffer::own(values), py)?,
            Values::I64(values) => own(Buffer::own(values), py)?,
            Values::U64(values) => own(Buffer::own(values), py)?,
            Values::F32(values) => own(Buffer::own(values), py)?,
            Values::F64(values) => own(Buffer::own(values), py)?,
            Values::Text(strings) => {
                let offsets = Py::new(py, Buffer::own(strings.offsets))?;
                let bytes = Py::new(py, Buffer::own(strings.bytes))?;
                Py::new(py, Strings { offsets, bytes })?.into_any()
            }
            Values::Lists(inner) => Py::new(py, Self::new(*inner, py)?)?.into_any(),
            _ => py.None(),
        };
        Ok(Self { entries: column.entries, offsets, item_shape: column.item_shape, values })
    }

    /// Creates objects for several columns.
    pub(crate) fn list(columns: Vec<hither::Column>, py: Python<'_>) -> PyResult<Vec<Self>> {
        columns.into_iter().map(|column| Self::new(column, py)).collect()
    }
}

fn own(buffer: Buffer, py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, buffer)?.into_any())
}
