//! Files of the mock server over XRootD.

use super::super::answers::Site;
use super::super::behaviour::ReadFault;
use super::super::faulty::damaged;
use super::{OpenFile, Session, plain, refused, writes};
use bytes::Bytes;
use hither_checksum::{Algorithm, Hasher};
use hither_xrd::server::Response;
use hither_xrd::wire::{
    DirlistEntry, ErrorCode, FileHandle, OpenRequest, OpenResponse, Request, Segment, StatInfo,
    dirlist, open, query_kind, stat_flags,
};

/// Flags of the status of a file that may be read and written.
const FILE: u32 = 16 | 32;

impl Site {
    pub(super) fn carry_out_xrootd(
        &mut self,
        session: &mut Session,
        request: Request,
        fault: Option<&ReadFault>,
    ) -> Response {
        match request {
            Request::Open(request) => self.open(session, &request),
            Request::Close(FileHandle([number, ..])) => {
                session.files.remove(&number);
                Response::nothing()
            }
            Request::Stat(path) => match self.found(&plain(&path)) {
                Some(key) => Response::status(&self.status(&key)),
                None => refused(ErrorCode::NOT_FOUND),
            },
            Request::Read { handle, offset, length } => match session.file(handle) {
                Some(file) => Response::Ok(read(file, offset, length, fault)),
                None => refused(ErrorCode::FILE_NOT_OPEN),
            },
            Request::ReadVector(segments) => {
                let part = |it: Segment| {
                    let file = session.file(it.handle)?;
                    let bytes = read(file, it.offset, it.length, fault);
                    let is_whole = bytes.len() as u64 == u64::from(it.length) || fault.is_some();
                    is_whole.then_some((it, bytes))
                };
                let parts: Option<Vec<_>> = segments.into_iter().map(part).collect();
                match parts {
                    Some(parts) => Response::Ok(Response::segments(&parts)),
                    None => refused(ErrorCode::FS_ERROR),
                }
            }
            Request::Write { handle, offset, data } => {
                let number = session.file(handle).map(|it| it.number);
                let offset = usize::try_from(offset).ok();
                let written = number.zip(offset).map(|(it, offset)| self.write(it, offset, &data));
                match written {
                    Some(true) => Response::nothing(),
                    Some(false) => refused(ErrorCode::IO_ERROR),
                    None => refused(ErrorCode::FILE_NOT_OPEN),
                }
            }
            Request::List { path, options } => self.list_xrootd(&plain(&path), options, fault),
            Request::MakeDirectory { path, .. } => {
                let path = plain(&path);
                if self.found(&path).is_some() {
                    return refused(ErrorCode::IT_EXISTS);
                }
                if !self.prepare_parent(&path) {
                    return refused(ErrorCode::NOT_FOUND);
                }
                self.insert(&format!("{path}/"), None);
                Response::nothing()
            }
            Request::Remove(path) => match self.found(&plain(&path)) {
                Some(key) if key.ends_with('/') => refused(ErrorCode::IS_DIRECTORY),
                Some(key) => {
                    self.remove(&key);
                    Response::nothing()
                }
                None => refused(ErrorCode::NOT_FOUND),
            },
            Request::RemoveDirectory(path) => match self.found(&plain(&path)) {
                Some(key) if self.names(&key, true).len() > 1 => refused(ErrorCode::FS_ERROR),
                Some(key) => {
                    self.remove(&key);
                    Response::nothing()
                }
                None => refused(ErrorCode::NOT_FOUND),
            },
            Request::Rename { from, to } => self.rename(&plain(&from), &plain(&to)),
            Request::Query { kind, text } if kind == query_kind::CHECKSUM => self.checksum(&text),
            Request::Query { .. } => Response::text("2097136\n1024\n"),
            Request::Ping | Request::Sync(_) => Response::nothing(),
            _ => refused(ErrorCode::UNSUPPORTED),
        }
    }

    /// Returns true if the directory of a path is there.
    fn prepare_parent(&mut self, path: &str) -> bool {
        if self.behaviour.makes_parents {
            self.make_parents(path);
        }
        self.has_parent(path)
    }

    fn open(&mut self, session: &mut Session, request: &OpenRequest) -> Response {
        let path = plain(&request.path);
        let mut found = self.found(&path);
        if found.as_ref().is_some_and(|key| key.ends_with('/')) {
            return refused(ErrorCode::IS_DIRECTORY);
        }
        let is_asked = |option: u16| request.options & option != 0;
        if found.is_some() && is_asked(open::NEW) && !is_asked(open::DELETE) {
            return refused(ErrorCode::IT_EXISTS);
        }
        if is_asked(open::DELETE | open::NEW) {
            if !self.prepare_parent(&path) {
                return refused(ErrorCode::NOT_FOUND);
            }
            self.insert(&path, Some(Vec::new()));
            found = self.found(&path);
        }
        let Some((key, resource)) = found.and_then(|key| {
            let resource = self.resources.get(&key)?;
            Some((key, resource))
        }) else {
            return refused(ErrorCode::NOT_FOUND);
        };
        let bytes = if writes(request) { None } else { resource.bytes.clone() };
        let file =
            OpenFile { path, number: resource.number, bytes: bytes.unwrap_or_default().into() };
        let free = (0..=u8::MAX).find(|it| !session.files.contains_key(it));
        let Some(number) = free else { return refused(ErrorCode::OVERLOADED) };
        session.files.insert(number, file);
        let status = is_asked(open::STAT).then(|| self.status(&key));
        Response::opened(&OpenResponse { handle: FileHandle([number, 0, 0, 0]), status })
    }

    fn status(&self, key: &str) -> StatInfo {
        let resource = self.resources.get(key);
        let size = resource.and_then(|it| Some(it.bytes.as_ref()?.len() as u64));
        let modified = self.modified(key).and_then(|it| i64::try_from(it).ok());
        StatInfo {
            id: resource.map(|it| it.number.to_string()).unwrap_or_default(),
            size: size.unwrap_or_default(),
            flags: if size.is_some() { FILE } else { FILE | stat_flags::DIRECTORY },
            modified: modified.unwrap_or_default(),
        }
    }

    fn list_xrootd(&self, path: &str, options: u8, fault: Option<&ReadFault>) -> Response {
        let Some(key) = self.found(path) else { return refused(ErrorCode::NOT_FOUND) };
        if !key.ends_with('/') {
            return refused(ErrorCode::NOT_FILE);
        }
        let listed = |path: &str| {
            let mut status = self.status(path);
            if !status.is_directory() {
                match fault {
                    Some(ReadFault::WrongSizes(more)) => status.size += more,
                    Some(ReadFault::ZeroSizes) => status.size = 0,
                    _ => {}
                }
            }
            let name = path.strip_prefix(&*key).unwrap_or_default().trim_end_matches('/');
            DirlistEntry { name: name.to_owned(), is_utf8: true, status: Some(status) }
        };
        let names = self.names(&key, true);
        let mut entries: Vec<_> = names.iter().skip(1).map(|it| listed(&it.path)).collect();
        if fault == Some(&ReadFault::Omits) {
            entries.pop();
        }
        let with_status = options & dirlist::STAT != 0 && fault != Some(&ReadFault::NoSizes);
        Response::Ok(DirlistEntry::to_text(&entries, with_status).into())
    }

    /// Renames like a disk: a file replaces another one, and nothing replaces a directory.
    fn rename(&mut self, from: &str, to: &str) -> Response {
        let Some(from) = self.found(from) else { return refused(ErrorCode::NOT_FOUND) };
        let replaced = self.found(to);
        if replaced.as_ref().is_some_and(|it| it.ends_with('/') || from.ends_with('/')) {
            return refused(ErrorCode::FS_ERROR);
        }
        if !self.prepare_parent(to) {
            return refused(ErrorCode::NOT_FOUND);
        }
        let to = if from.ends_with('/') { format!("{to}/") } else { to.to_owned() };
        let replaced = replaced.filter(|it| *it != from);
        self.place(&from, &to, replaced.as_deref(), true);
        Response::nothing()
    }

    fn checksum(&self, text: &str) -> Response {
        let bytes = self.found(&plain(text)).and_then(|it| self.resources.get(&it)?.bytes.as_ref());
        match bytes {
            _ if !self.behaviour.has_checksums || !text.contains("adler32") => {
                refused(ErrorCode::UNSUPPORTED)
            }
            Some(bytes) => {
                Response::text(&format!("adler32 {}", Hasher::of(Algorithm::Adler32, bytes).hex()))
            }
            None => refused(ErrorCode::NOT_FOUND),
        }
    }
}

fn read(file: &OpenFile, offset: u64, length: u32, fault: Option<&ReadFault>) -> Bytes {
    let offset = if fault == Some(&ReadFault::OtherRange) { 0 } else { offset };
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.bytes.len());
    let bytes = file.bytes.slice(at(offset)..at(offset.saturating_add(length.into())));
    match fault {
        Some(ReadFault::Less) => bytes.slice(..bytes.len() / 2),
        Some(ReadFault::Damaged) => damaged(&bytes).into(),
        _ => bytes,
    }
}
