//! Client options from Python.

use crate::error::to_exception;
use hither::{ClientConfig, ClientOptions, Error, OptionValue, ask_password};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyMapping, PySequence};
use std::path::PathBuf;

/// Reads the options of the mapping `given` from keywords to values; `None` means the default.
pub(crate) fn client_options(given: &Bound<'_, PyDict>) -> PyResult<ClientOptions> {
    let mut options = ClientOptions::default();
    for (name, object) in given {
        let name: String = name.extract()?;
        let option = ClientOptions::find(&name, |option| option.python)
            .map_err(|error| PyTypeError::new_err(error.to_string()))?;
        if object.is_none() {
            continue;
        }
        let value = option_value(&object)?;
        option
            .read_typed(&mut options, &value)
            .map_err(|expected| to_exception(&option.refused(&name, &value, &expected)))?;
    }
    Ok(options)
}

fn option_value(object: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(OptionValue::Truth(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>() {
        return Ok(OptionValue::Number(object.str()?.to_string()));
    }
    if let Ok(path) = object.extract::<PathBuf>() {
        return Ok(OptionValue::text(path));
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let entries = mapping.items()?;
        let entries = entries.iter().map(|entry| {
            let (name, value): (String, Bound<'_, PyAny>) = entry.extract()?;
            Ok((name, option_value(&value)?))
        });
        return Ok(OptionValue::Table(entries.collect::<PyResult<_>>()?));
    }
    if object.cast::<PySequence>().is_ok() {
        let items = object.try_iter()?.map(|item| option_value(&item?));
        return Ok(OptionValue::List(items.collect::<PyResult<_>>()?));
    }
    // A number type of another library.
    Ok(OptionValue::Number(object.extract::<f64>()?.to_string()))
}

/// The configuration from these options, then the environment, then the configuration file. Stores
/// a password that the user entered in `options`.
pub(crate) fn client_config(options: &mut ClientOptions) -> Result<ClientConfig, Error> {
    let environment = ClientOptions::environment(|name| std::env::var(name).ok());
    options.config(&environment, ask_password)
}

/// The table of the options of a client: a mapping for each one.
#[pyfunction]
pub(crate) fn client_option_table(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(pythonize::pythonize(py, ClientOptions::TABLE)?.unbind())
}
