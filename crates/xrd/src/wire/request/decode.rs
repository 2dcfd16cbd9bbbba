//! Decoding of requests.

use crate::wire::fattr::LIST_FIELDS;
use crate::wire::{
    FieldReader, FileHandle, LoginRequest, MAX_ELEMENTS, OpenRequest, PrepareRequest,
    ProtocolRequest, Request, RequestHead, SEGMENT_BYTES, Segment, WireError, before_nul,
    request_code, strict_text,
};
use bytes::Bytes;

/// Maximum number of paths in one request.
const MAX_PATHS: usize = 10_000;

impl Request {
    /// Decodes a request. The payload has the length that the head states; the caller that reads it
    /// limits it.
    ///
    /// # Errors
    /// The request cannot have these fields or this payload.
    pub fn decode(head: &RequestHead, payload: &Bytes) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the fields of a request", &head.body);
        Ok(match head.code {
            request_code::PROTOCOL => Self::Protocol(ProtocolRequest {
                version: fields.u32()?,
                flags: fields.u8()?,
                expect: fields.u8()?,
            }),
            request_code::LOGIN => Self::Login(LoginRequest::decode(&head.body, payload)?),
            request_code::AUTH => {
                fields.take(12)?;
                Self::Auth { method: fields.array()?, credentials: payload.clone() }
            }
            request_code::PING => Self::Ping,
            request_code::QUERY => {
                Self::Query { kind: fields.u16()?, text: strict_text("a query", payload)? }
            }
            request_code::PREPARE => Self::Prepare(PrepareRequest {
                options: fields.u8()?,
                priority: fields.u8()?,
                port: fields.u16()?,
                more_options: fields.u16()?,
                paths: paths(payload)?,
            }),
            _ => return Self::decode_on_files(head, payload),
        })
    }

    fn decode_on_files(head: &RequestHead, payload: &Bytes) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the fields of a request", &head.body);
        Ok(match head.code {
            request_code::OPEN => Self::Open(OpenRequest {
                mode: fields.u16()?,
                options: fields.u16()?,
                more_options: fields.u16()?,
                path: path(payload)?,
            }),
            request_code::CLOSE => Self::Close(FileHandle(fields.array()?)),
            request_code::SYNC => Self::Sync(FileHandle(fields.array()?)),
            request_code::READ => Self::Read {
                handle: FileHandle(fields.array()?),
                offset: fields.offset("an offset")?,
                length: fields.length("the length of a read")?,
            },
            request_code::READV => Self::ReadVector(segments(payload)?),
            request_code::PGREAD => Self::ReadPages {
                handle: FileHandle(fields.array()?),
                offset: fields.offset("an offset")?,
                length: fields.length("the length of a read")?,
                again: payload.get(1).is_some_and(|flags| flags & 1 != 0),
            },
            request_code::WRITE => Self::Write {
                handle: FileHandle(fields.array()?),
                offset: fields.offset("an offset")?,
                data: payload.clone(),
            },
            _ => return Self::decode_on_names(head, payload),
        })
    }

    fn decode_on_names(head: &RequestHead, payload: &Bytes) -> Result<Self, WireError> {
        let mut fields = FieldReader::new("the fields of a request", &head.body);
        Ok(match head.code {
            request_code::STAT if !payload.is_empty() => Self::Stat(path(payload)?),
            request_code::FATTR if head.body == LIST_FIELDS => Self::ListAttributes(path(payload)?),
            request_code::DIRLIST => {
                fields.take(15)?;
                Self::List { path: path(payload)?, options: fields.u8()? }
            }
            request_code::MKDIR => {
                let parents = fields.u8()? & 1 != 0;
                fields.take(13)?;
                Self::MakeDirectory { path: path(payload)?, parents, mode: fields.u16()? }
            }
            request_code::RM => Self::Remove(path(payload)?),
            request_code::RMDIR => Self::RemoveDirectory(path(payload)?),
            request_code::MV => {
                fields.take(14)?;
                rename(usize::from(fields.u16()?), payload)?
            }
            request_code::CHMOD => {
                fields.take(14)?;
                Self::ChangeMode { path: path(payload)?, mode: fields.u16()? }
            }
            request_code::LOCATE => Self::Locate { path: path(payload)?, options: fields.u16()? },
            code => Self::Other { code, body: head.body, payload: payload.clone() },
        })
    }
}

fn path(payload: &[u8]) -> Result<String, WireError> {
    let path = strict_text("a path", payload)?;
    if path.is_empty() || path.contains('\n') {
        return Err(WireError::text("a path", path.as_bytes(), "one without line end, not empty"));
    }
    Ok(path)
}

fn paths(payload: &[u8]) -> Result<Vec<String>, WireError> {
    let lines = before_nul(payload).split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let paths = lines.take(MAX_PATHS + 1).map(path).collect::<Result<Vec<_>, _>>()?;
    if paths.len() > MAX_PATHS {
        return Err(WireError::TooLarge {
            what: "number of paths",
            seen: paths.len() as u64,
            limit: MAX_PATHS as u64,
        });
    }
    Ok(paths)
}

fn segments(payload: &[u8]) -> Result<Vec<Segment>, WireError> {
    let (chunks, rest) = payload.as_chunks::<SEGMENT_BYTES>();
    if !rest.is_empty() || chunks.is_empty() {
        let seen = payload.len();
        return Err(WireError::number("the length of a vector read", seen, "a multiple of 16"));
    }
    if chunks.len() > MAX_ELEMENTS {
        return Err(WireError::TooLarge {
            what: "number of elements of a vector read",
            seen: chunks.len() as u64,
            limit: MAX_ELEMENTS as u64,
        });
    }
    chunks.iter().map(Segment::decode).collect()
}

/// Splits two paths at a blank: at the stated position, or at the first one.
fn rename(first: usize, payload: &[u8]) -> Result<Request, WireError> {
    let malformed =
        || WireError::text("a change of a name", payload, "two paths with a blank between");
    let both = before_nul(payload);
    let at = match first {
        0 => both.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?,
        length => length,
    };
    let (from, to) = both.split_at_checked(at).ok_or_else(malformed)?;
    let to = to.strip_prefix(b" ").ok_or_else(malformed)?;
    Ok(Request::Rename { from: path(from)?, to: path(to)? })
}
