//! Extended attributes of a file: all names, with their values.

use crate::wire::{FieldReader, WireError, text};
use bytes::Bytes;

/// The fields of a request on attributes: list them (2), with their values (0x10).
pub(crate) const LIST_FIELDS: [u8; 16] = {
    let mut fields = [0; 16];
    fields[4] = 2;
    fields[6] = 0x10;
    fields
};

/// An attribute: name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name, without the prefix `U.` that servers store it with.
    pub name: String,
    /// The value.
    pub value: Bytes,
}

/// Decodes the response to [`Request::ListAttributes`](crate::wire::Request::ListAttributes).
///
/// # Errors
/// A name or value is truncated.
pub fn parse_attributes(payload: &[u8]) -> Result<Vec<Attribute>, WireError> {
    let mut fields = FieldReader::new("the answer on attributes", payload);
    let mut attributes = Vec::new();
    while !fields.is_empty() {
        let name = text(fields.until_nul()?);
        let name = name.strip_prefix("U.").unwrap_or(&name).to_owned();
        let length = fields.length("the length of a value")?;
        let value = Bytes::copy_from_slice(fields.take(length as usize)?);
        attributes.push(Attribute { name, value });
    }
    Ok(attributes)
}
