//! Extended attributes of files: names and values, several in one request.

use crate::wire::{ErrorCode, FieldReader, Target, WireError, strict_text, text};
use bytes::{BufMut, Bytes, BytesMut};

/// Maximum number of attributes in one request (`kXR_faMaxVars`).
const MAX_ATTRIBUTES: usize = 16;
/// Maximum length of a name (`kXR_faMaxNlen`).
const MAX_NAME_BYTES: usize = 248;
/// Maximum length of a value (`kXR_faMaxVlen`).
const MAX_VALUE_BYTES: usize = 65_536;

const DELETE: u8 = 0;
const GET: u8 = 1;
const LIST: u8 = 2;
const SET: u8 = 3;
const ONLY_NEW: u8 = 0x01;
const WITH_VALUES: u8 = 0x10;

/// An attribute: name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The name, without the prefix `U.` that servers store it with.
    pub name: String,
    /// The value.
    pub value: Bytes,
}

/// The operation on attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeAction {
    /// Remove these.
    Delete(Vec<String>),
    /// Return the values of these.
    Get(Vec<String>),
    /// List all attributes.
    List {
        /// Return their values too.
        values: bool,
    },
    /// Set these values.
    Set {
        /// The attributes.
        attributes: Vec<Attribute>,
        /// Fail if an attribute exists.
        only_new: bool,
    },
}

/// A request on extended attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributesRequest {
    /// The file.
    pub target: Target,
    /// The operation.
    pub action: AttributeAction,
}

impl AttributesRequest {
    pub(crate) fn encode(&self, out: &mut BytesMut) -> Result<[u8; 16], WireError> {
        let mut body = [0; 16];
        match &self.target {
            Target::Handle(handle) => {
                body[..4].copy_from_slice(&handle.0);
                out.put_u8(0);
            }
            Target::Path(path) => {
                out.put_slice(path.as_bytes());
                out.put_u8(0);
            }
        }
        let (code, count, options) = match &self.action {
            AttributeAction::Delete(names) => (DELETE, put_names(names.iter(), out)?, 0),
            AttributeAction::Get(names) => (GET, put_names(names.iter(), out)?, 0),
            AttributeAction::List { values } => (LIST, 0, if *values { WITH_VALUES } else { 0 }),
            AttributeAction::Set { attributes, only_new } => {
                let count = put_names(attributes.iter().map(|attribute| &attribute.name), out)?;
                for attribute in attributes {
                    put_value(&attribute.value, out)?;
                }
                (SET, count, if *only_new { ONLY_NEW } else { 0 })
            }
        };
        body[4] = code;
        body[5] = count;
        body[6] = options;
        Ok(body)
    }

    pub(crate) fn decode(body: &[u8; 16], payload: &[u8]) -> Result<Self, WireError> {
        let mut head = FieldReader::new("a request on attributes", body);
        let handle = crate::wire::FileHandle(head.array()?);
        let (code, count, options) = (head.u8()?, head.u8()?, head.u8()?);
        let mut fields = FieldReader::new("a request on attributes", payload);
        let path = if payload.is_empty() { &[][..] } else { fields.until_nul()? };
        let target = match path {
            [] => Target::Handle(handle),
            path => Target::Path(strict_text("a path", path)?),
        };
        if usize::from(count) > MAX_ATTRIBUTES {
            return Err(too_many(count.into()));
        }
        let action = match code {
            DELETE => AttributeAction::Delete(names(&mut fields, count)?),
            GET => AttributeAction::Get(names(&mut fields, count)?),
            LIST => AttributeAction::List { values: options & WITH_VALUES != 0 },
            SET => {
                let names = names(&mut fields, count)?;
                let attributes = names
                    .into_iter()
                    .map(|name| Ok(Attribute { name, value: value(&mut fields)? }));
                let attributes = attributes.collect::<Result<_, WireError>>()?;
                AttributeAction::Set { attributes, only_new: options & ONLY_NEW != 0 }
            }
            _ => return Err(WireError::number("what to do with attributes", code, "0 to 3")),
        };
        Ok(Self { target, action })
    }
}

fn too_many(seen: u64) -> WireError {
    WireError::TooLarge { what: "number of attributes", seen, limit: MAX_ATTRIBUTES as u64 }
}

fn put_names<'a>(
    names: impl ExactSizeIterator<Item = &'a String>,
    out: &mut BytesMut,
) -> Result<u8, WireError> {
    let count = names.len();
    if !(1..=MAX_ATTRIBUTES).contains(&count) {
        return Err(too_many(count as u64));
    }
    for name in names {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
            return Err(WireError::text(
                "the name of an attribute",
                name.as_bytes(),
                "1 to 248 bytes",
            ));
        }
        out.put_u16(0);
        out.put_slice(name.as_bytes());
        out.put_u8(0);
    }
    u8::try_from(count).map_err(|_| too_many(count as u64))
}

fn put_value(value: &[u8], out: &mut BytesMut) -> Result<(), WireError> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(too_long(value.len() as u64));
    }
    out.put_u32(u32::try_from(value.len()).map_err(|_| too_long(u64::MAX))?);
    out.put_slice(value);
    Ok(())
}

fn too_long(seen: u64) -> WireError {
    WireError::TooLarge {
        what: "value of an attribute in bytes",
        seen,
        limit: MAX_VALUE_BYTES as u64,
    }
}

fn names(fields: &mut FieldReader<'_>, count: u8) -> Result<Vec<String>, WireError> {
    (0..count)
        .map(|_| {
            fields.u16()?;
            strict_text("the name of an attribute", fields.until_nul()?)
        })
        .collect()
}

fn value(fields: &mut FieldReader<'_>) -> Result<Bytes, WireError> {
    let length = fields.length("the length of a value")?;
    if length as usize > MAX_VALUE_BYTES {
        return Err(too_long(length.into()));
    }
    Ok(Bytes::copy_from_slice(fields.take(length as usize)?))
}

/// The outcome for one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeOutcome {
    /// Its name.
    pub name: String,
    /// The error; `None` if it succeeded.
    pub error: Option<ErrorCode>,
    /// Its value, if it was requested.
    pub value: Option<Bytes>,
}

/// The response to a request on attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeResponse {
    /// The outcomes in the order of the request; for a list, all attributes.
    pub outcomes: Vec<AttributeOutcome>,
}

impl AttributeResponse {
    /// Decodes the payload; its form depends on the request.
    ///
    /// # Errors
    /// The payload is truncated, or has more attributes than a request can have.
    pub fn decode(action: &AttributeAction, payload: &[u8]) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the answer on attributes", payload);
        let mut outcomes = Vec::new();
        if let AttributeAction::List { values } = action {
            while !fields.is_empty() {
                let name = strip(text(fields.until_nul()?));
                let value = values.then(|| value(&mut fields)).transpose()?;
                outcomes.push(AttributeOutcome { name, error: None, value });
            }
            return Ok(Self { outcomes });
        }
        fields.u8()?;
        let count = fields.u8()?;
        if usize::from(count) > MAX_ATTRIBUTES {
            return Err(too_many(count.into()));
        }
        for _ in 0..count {
            let code = fields.u16()?;
            let name = text(fields.until_nul()?);
            let error = (code != 0).then_some(ErrorCode(code.into()));
            outcomes.push(AttributeOutcome { name, error, value: None });
        }
        if matches!(action, AttributeAction::Get(_)) {
            for outcome in &mut outcomes {
                let value = value(&mut fields)?;
                outcome.value = outcome.error.is_none().then_some(value);
            }
        }
        Ok(Self { outcomes })
    }

    /// Encodes the payload.
    ///
    /// # Errors
    /// There are too many attributes, or too long ones.
    pub fn encode(&self, action: &AttributeAction, out: &mut BytesMut) -> Result<(), WireError> {
        if let AttributeAction::List { values } = action {
            for outcome in &self.outcomes {
                out.put_slice(outcome.name.as_bytes());
                out.put_u8(0);
                if *values {
                    put_value(outcome.value.as_deref().unwrap_or_default(), out)?;
                }
            }
            return Ok(());
        }
        let failed = self.outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
        let count = |count: usize| u8::try_from(count).map_err(|_| too_many(count as u64));
        out.put_u8(count(failed)?);
        out.put_u8(count(self.outcomes.len())?);
        for outcome in &self.outcomes {
            let code = outcome.error.map_or(0, |code| code.0);
            out.put_u16(u16::try_from(code).unwrap_or(u16::MAX));
            out.put_slice(outcome.name.as_bytes());
            out.put_u8(0);
        }
        if matches!(action, AttributeAction::Get(_)) {
            for outcome in &self.outcomes {
                put_value(outcome.value.as_deref().unwrap_or_default(), out)?;
            }
        }
        Ok(())
    }
}

/// Lists return the names as the server stores them.
fn strip(name: String) -> String {
    name.strip_prefix("U.").map_or_else(|| name.clone(), str::to_owned)
}
