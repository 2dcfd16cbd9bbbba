//! Memory of the library that NumPy uses without a copy.
//!
//! The stable ABI has the buffer protocol only from CPython 3.11 on. NumPy's array interface, which
//! takes an address and keeps the object alive, works with 3.10, too. `docs/decisions` has the
//! details.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;

/// Contiguous values. `numpy.asarray` returns an array over the same memory, and keeps it alive.
#[pyclass(frozen, module = "hither._core")]
pub(crate) struct Buffer {
    address: usize,
    length: usize,
    /// NumPy's type string.
    kind: &'static str,
    is_shared: bool,
    /// Invariant: holds `length` values of `kind` at `address`, and does not move or free them.
    _owner: Box<dyn Any + Send + Sync>,
}

/// A type of values that a buffer may hold.
pub(crate) trait Item: Send + Sync + 'static {
    /// NumPy's type string.
    const KIND: &'static str;
}

macro_rules! items {
    ($($type:ty = $kind:literal),* $(,)?) => {
        $(impl Item for $type { const KIND: &'static str = $kind; })*
    };
}
items!(
    bool = "|b1",
    i8 = "|i1",
    u8 = "|u1",
    i16 = "<i2",
    u16 = "<u2",
    i32 = "<i4",
    u32 = "<u4",
    i64 = "<i8",
    u64 = "<u8",
    f32 = "<f4",
    f64 = "<f8",
);
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the names of types above are those of little-endian machines"
);

impl Buffer {
    /// A read-only buffer of shared bytes.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        Self {
            address: bytes.as_ptr().addr(),
            length: bytes.len(),
            kind: u8::KIND,
            is_shared: true,
            _owner: Box::new(bytes),
        }
    }

    /// A writable buffer that owns its values.
    pub(crate) fn own<T: Item>(values: Vec<T>) -> Self {
        Self {
            address: values.as_ptr().addr(),
            length: values.len(),
            kind: T::KIND,
            is_shared: false,
            _owner: Box::new(values),
        }
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.length
    }

    /// NumPy's array interface, version 3.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", self.kind)?;
        interface.set_item("data", (self.address, self.is_shared))?;
        Ok(interface)
    }
}
