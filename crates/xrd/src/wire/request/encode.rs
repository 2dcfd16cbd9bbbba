//! Encoding of requests.

use crate::wire::fattr::LIST_FIELDS;
use crate::wire::{
    ProtocolRequest, Request, RequestHead, SEGMENT_BYTES, StreamId, WireError, WriteQueue,
    wire_length,
};
use bytes::{BufMut, Bytes, BytesMut};

impl Request {
    /// Appends the request to the bytes waiting to be written. Large data is not copied.
    ///
    /// # Errors
    /// A number or text is too large for the wire, or a path is empty or contains a NUL. Nothing is
    /// appended then.
    pub fn encode(&self, stream: StreamId, out: &mut WriteQueue) -> Result<(), WireError> {
        let mut payload = BytesMut::new();
        let (body, data) = self.parts(&mut payload)?;
        let length = wire_length("the payload of a request in bytes", payload.len() + data.len())?;
        let length = length.unsigned_abs();
        let head = RequestHead { stream, code: self.code(), body, length };
        out.put(&head.encode());
        out.put_bytes(payload.freeze());
        out.put_bytes(data);
        Ok(())
    }

    /// The 16 bytes of fields, and the data after the payload.
    fn parts(&self, payload: &mut BytesMut) -> Result<([u8; 16], Bytes), WireError> {
        let body = match self {
            Self::Protocol(ProtocolRequest { version, flags, expect }) => {
                fields(&[&version.to_be_bytes(), &[*flags, *expect]])
            }
            Self::Login(login) => {
                payload.put_slice(login.words.as_bytes());
                login.body()
            }
            Self::Auth { method, credentials } => return Ok((tail(method), credentials.clone())),
            Self::Ping => [0; 16],
            Self::Prepare(prepare) => {
                paths(&prepare.paths, payload)?;
                fields(&[
                    &[prepare.options, prepare.priority],
                    &prepare.port.to_be_bytes(),
                    &prepare.more_options.to_be_bytes(),
                ])
            }
            Self::Query { kind, text } => {
                payload.put_slice(text.as_bytes());
                fields(&[&kind.to_be_bytes()])
            }
            Self::Other { body, payload, .. } => return Ok((*body, payload.clone())),
            Self::Write { handle, offset: at, data } => {
                return Ok((fields(&[&handle.0, &offset(*at)?]), data.clone()));
            }
            Self::Close(handle) | Self::Sync(handle) => fields(&[&handle.0]),
            Self::Read { .. } | Self::ReadVector(_) | Self::ReadPages { .. } => {
                self.read_parts(payload)?
            }
            _ => self.path_parts(payload)?,
        };
        Ok((body, Bytes::new()))
    }

    /// Reads of open files.
    fn read_parts(&self, payload: &mut BytesMut) -> Result<[u8; 16], WireError> {
        Ok(match self {
            Self::Read { handle, offset: at, length } => {
                fields(&[&handle.0, &offset(*at)?, &read_length(*length)?])
            }
            Self::ReadVector(segments) => {
                wire_length("the list of a vector read in bytes", segments.len() * SEGMENT_BYTES)?;
                for segment in segments {
                    offset(segment.offset)?;
                    read_length(segment.length)?;
                    payload.put_slice(&segment.encode());
                }
                [0; 16]
            }
            Self::ReadPages { handle, offset: at, length, again } => {
                if *again {
                    payload.put_slice(&[0, 1]);
                }
                fields(&[&handle.0, &offset(*at)?, &read_length(*length)?])
            }
            _ => [0; 16],
        })
    }

    /// Requests on paths.
    fn path_parts(&self, payload: &mut BytesMut) -> Result<[u8; 16], WireError> {
        Ok(match self {
            Self::Open(open) => {
                path(&open.path, payload)?;
                fields(&[
                    &open.mode.to_be_bytes(),
                    &open.options.to_be_bytes(),
                    &open.more_options.to_be_bytes(),
                ])
            }
            Self::ListAttributes(of) => {
                path(of, payload)?;
                payload.put_u8(0);
                LIST_FIELDS
            }
            Self::List { path: of, options } => {
                path(of, payload)?;
                tail(&[*options])
            }
            Self::MakeDirectory { path: of, parents, mode } => {
                path(of, payload)?;
                let mut body = tail(&mode.to_be_bytes());
                body[0] = (*parents).into();
                body
            }
            Self::Stat(of) | Self::Remove(of) | Self::RemoveDirectory(of) => {
                path(of, payload)?;
                [0; 16]
            }
            Self::Rename { from, to } => {
                path(from, payload)?;
                payload.put_u8(b' ');
                path(to, payload)?;
                let length = i16::try_from(from.len()).map_err(|_| WireError::TooLarge {
                    what: "a path in bytes",
                    seen: from.len() as u64,
                    limit: i16::MAX.unsigned_abs().into(),
                })?;
                tail(&length.to_be_bytes())
            }
            Self::ChangeMode { path: of, mode } => {
                path(of, payload)?;
                tail(&mode.to_be_bytes())
            }
            Self::Locate { path: of, options } => {
                path(of, payload)?;
                fields(&[&options.to_be_bytes()])
            }
            _ => [0; 16],
        })
    }
}

/// Fields at the front, then zeros.
fn fields(parts: &[&[u8]]) -> [u8; 16] {
    let mut body = [0; 16];
    for (to, from) in body.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
    body
}

/// Zeros, then a field at the end.
fn tail(field: &[u8]) -> [u8; 16] {
    let mut body = [0; 16];
    for (to, from) in body.iter_mut().rev().zip(field.iter().rev()) {
        *to = *from;
    }
    body
}

fn path(path: &str, payload: &mut BytesMut) -> Result<(), WireError> {
    if path.is_empty() || path.bytes().any(|byte| matches!(byte, 0 | b'\n')) {
        return Err(WireError::text(
            "a path",
            path.as_bytes(),
            "one without NUL and line end, not empty",
        ));
    }
    payload.put_slice(path.as_bytes());
    Ok(())
}

fn paths(paths: &[String], payload: &mut BytesMut) -> Result<(), WireError> {
    for (number, one) in paths.iter().enumerate() {
        if number > 0 {
            payload.put_u8(b'\n');
        }
        path(one, payload)?;
    }
    Ok(())
}

fn offset(offset: u64) -> Result<[u8; 8], WireError> {
    i64::try_from(offset).map(i64::to_be_bytes).map_err(|_| WireError::TooLarge {
        what: "an offset in bytes",
        seen: offset,
        limit: i64::MAX.unsigned_abs(),
    })
}

fn read_length(length: u32) -> Result<[u8; 4], WireError> {
    i32::try_from(length).map(i32::to_be_bytes).map_err(|_| WireError::TooLarge {
        what: "the length of a read in bytes",
        seen: length.into(),
        limit: i32::MAX.unsigned_abs().into(),
    })
}
