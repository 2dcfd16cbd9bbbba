//! The extension module `hither._core` of the wheel: the items of hither-py and the `hither`
//! command.
//!
//! # Where to start reading
//!
//! - the items of the module: `crates/py/src/lib.rs`; the command in it: `src/command.rs`.

mod command;

/// The module.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::command::run_command;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        hither_py::add_items(module)
    }
}
