//! Panics as messages, for language bindings.

use std::any::Any;

/// The message of the error that a language binding returns for a panic of the library.
#[must_use]
pub fn defect(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("a defect of hither, please report it: {text}")
}
