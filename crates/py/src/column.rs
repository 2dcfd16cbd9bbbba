//! Columns as objects over their memory.

use crate::buffer::Buffer;
use hither::Values;
use pyo3::prelude::*;

/// A column: Arrow's layout, in buffers.
#[pyclass(frozen, get_all, module = "hither._core")]
pub(crate) struct Column {
    /// Number of entries.
    entries: usize,
    /// One more than there are entries, or None: where the items of each begin.
    offsets: Option<Py<Buffer>>,
    /// Dimensions of one item.
    item_shape: Vec<usize>,
    /// A `Buffer` of numbers, `Strings`, or a `Column` of which each value is an entry.
    values: Py<PyAny>,
}

/// Strings back to back.
#[pyclass(frozen, get_all, module = "hither._core")]
pub(crate) struct Strings {
    /// One more than there are strings: where each begins.
    offsets: Py<Buffer>,
    /// UTF-8, mostly.
    bytes: Py<Buffer>,
}

impl Column {
    /// The objects for a column, which they take over.
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

    /// Several of them, as a list.
    pub(crate) fn list(columns: Vec<hither::Column>, py: Python<'_>) -> PyResult<Vec<Self>> {
        columns.into_iter().map(|column| Self::new(column, py)).collect()
    }
}

fn own(buffer: Buffer, py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, buffer)?.into_any())
}
