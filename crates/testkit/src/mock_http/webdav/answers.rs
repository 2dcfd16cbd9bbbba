//! Files of the mock server, and its responses over WebDAV.

use super::behaviour::{
    PiecesTaken, PlannedFault, Protocol, ReadFault, StatedSizes, WebDavBehaviour, WebDavFault,
};
use super::listing::{self, ListedName};
use super::message::{BodyEnd, Request, Response, encoded};
use hither_checksum::{Algorithm, Hasher};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The time of the first file, in seconds since 1970.
const FIRST_CHANGE: u64 = 1_700_000_000;

/// A file, or a directory, which has no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) version: u64,
    /// The number of the file, which it keeps when it is renamed or written into.
    pub(super) number: u64,
    /// Seconds since 1970, by the right clock.
    modified: u64,
}

/// The state of the server.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) resources: BTreeMap<String, Resource>,
    versions: u64,
    pub(super) behaviour: WebDavBehaviour,
    pub(super) faults: Vec<PlannedFault>,
    pub(super) log: Vec<(String, String)>,
    pub(super) happened: Vec<(WebDavFault, String)>,
}

impl Site {
    /// A server with the directory `/d/`.
    pub(super) fn new(behaviour: WebDavBehaviour, faults: Vec<PlannedFault>) -> Self {
        let mut site = Self { behaviour, faults, ..Self::default() };
        for directory in ["/", "/d/"] {
            site.insert(directory, None);
        }
        site
    }

    pub(super) fn insert(&mut self, path: &str, bytes: Option<Vec<u8>>) {
        self.versions += 1;
        let version = self.versions;
        let path = self.held(path);
        let modified = FIRST_CHANGE + 2 * version;
        self.resources.insert(path, Resource { bytes, version, number: version, modified });
    }

    /// Writes into a file at an offset. Returns false if the file is gone.
    pub(super) fn write(&mut self, number: u64, offset: usize, bytes: &[u8]) -> bool {
        self.versions += 1;
        let version = self.versions;
        let file = self.resources.values_mut().find(|it| it.number == number);
        let Some(file @ Resource { bytes: Some(_), .. }) = file else { return false };
        let held = file.bytes.get_or_insert_default();
        held.resize(held.len().max(offset + bytes.len()), 0);
        let place = held.get_mut(offset..).and_then(|it| it.get_mut(..bytes.len()));
        place.into_iter().for_each(|place| place.copy_from_slice(bytes));
        (file.version, file.modified) = (version, FIRST_CHANGE + 2 * version);
        true
    }

    /// Removes a file, or a directory with its contents.
    pub(super) fn remove(&mut self, key: &str) {
        self.resources.retain(|name, _| !is_within(name, key));
    }

    pub(super) fn age(&mut self, path: &str, seconds: u64) {
        if let Some(resource) = self.resources.get_mut(path) {
            resource.modified -= seconds;
        }
    }

    pub(super) fn make_parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/').skip(1) {
            let parent = path.get(..=at).unwrap_or_default();
            if !self.resources.contains_key(&self.held(parent)) {
                self.insert(parent, None);
            }
        }
    }

    /// The path under which a path is stored, or would be stored.
    fn held(&self, path: &str) -> String {
        let is_same = |held: &&String| held.eq_ignore_ascii_case(path);
        let found = self.behaviour.ignores_case && !self.resources.contains_key(path);
        let found = found.then(|| self.resources.keys().find(is_same)).flatten();
        found.cloned().unwrap_or_else(|| path.to_owned())
    }

    /// The path under which an existing file or directory is stored.
    pub(super) fn found(&self, path: &str) -> Option<String> {
        let is_held = |it: &String| self.resources.contains_key(it);
        let directory = format!("{}/", path.trim_end_matches('/'));
        [self.held(path), self.held(&directory)].into_iter().find(is_held)
    }

    pub(super) fn carry_out(
        &mut self,
        path: &str,
        request: &Request,
        fault: Option<&ReadFault>,
    ) -> Response {
        if self.behaviour.protocol == Protocol::S3 {
            return self.carry_out_s3(path, request, fault);
        }
        let found = self.found(path);
        match (&*request.method, found) {
            ("PROPFIND", _) if self.behaviour.has_index => Response::plain(405),
            ("PROPFIND", Some(key)) => {
                let names = self.names(&key, request.field("depth") == Some("1"));
                listing::multistatus(&names, self.behaviour.sizes, fault)
            }
            ("GET" | "HEAD", Some(key)) if key.ends_with('/') => match self.behaviour.has_index {
                false => Response::plain(405),
                true if !path.ends_with('/') => Response::redirect(301, &encoded(&key)),
                true => listing::index(&self.names(&key, true), fault),
            },
            ("GET" | "HEAD", Some(key)) => self.read(&key, request, fault),
            ("PUT", found) => self.put(path, found, request),
            ("MKCOL", Some(_)) => Response::plain(405),
            ("MKCOL", None) if !self.has_parent(path) => Response::plain(409),
            ("MKCOL", None) => {
                self.insert(&format!("{}/", path.trim_end_matches('/')), None);
                Response::plain(201)
            }
            ("DELETE", Some(key)) => {
                if request.field("if-match").is_some_and(|tag| !self.has_tag(&key, tag)) {
                    return Response::plain(412);
                }
                self.remove(&key);
                Response::plain(204)
            }
            ("MOVE" | "COPY", Some(key)) => self.transfer(&key, request),
            (_, None) => Response::plain(404),
            _ => Response::plain(405),
        }
    }

    pub(super) fn has_parent(&self, path: &str) -> bool {
        let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        self.resources.contains_key(&self.held(&format!("{parent}/")))
    }

    pub(super) fn tag(&self, path: &str) -> Option<String> {
        let resource = self.resources.get(path)?;
        if self.behaviour.protocol == Protocol::S3 {
            let bytes = resource.bytes.as_ref()?;
            return Some(format!("\"{}\"", Hasher::of(Algorithm::Md5, bytes).hex()));
        }
        let weak = if self.behaviour.validators.are_weak() { "W/" } else { "" };
        let tag = || format!("{weak}\"{}\"", resource.version);
        self.behaviour.validators.has_tags().then(tag)
    }

    /// Returns true if a file has this entity tag, by strong comparison.
    pub(super) fn has_tag(&self, path: &str, tag: &str) -> bool {
        !tag.starts_with("W/") && self.tag(path).is_some_and(|own| own == tag)
    }

    /// The time of modification by the clock of the server.
    pub(super) fn modified(&self, path: &str) -> Option<u64> {
        self.resources.get(path)?.modified.checked_add_signed(self.behaviour.clock)
    }

    pub(super) fn date(&self, path: &str) -> Option<String> {
        let modified = Duration::from_secs(self.modified(path)?);
        let date = || httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + modified);
        self.behaviour.validators.has_dates().then(date)
    }

    /// A name, optionally with the members of the directory.
    pub(super) fn names(&self, of: &str, with_members: bool) -> Vec<ListedName> {
        let is_member = |path: &str| {
            let rest = path.strip_prefix(of).filter(|rest| !rest.is_empty());
            of.ends_with('/') && rest.is_some_and(|it| !it.trim_end_matches('/').contains('/'))
        };
        let shown = self.resources.iter();
        let shown = shown.filter(|(path, _)| *path == of || with_members && is_member(path));
        shown
            .map(|(path, resource)| ListedName {
                path: path.clone(),
                tag: self.tag(path),
                date: self.date(path),
                size: resource.bytes.as_ref().map(|bytes| bytes.len() as u64),
            })
            .collect()
    }

    pub(super) fn read(
        &self,
        path: &str,
        request: &Request,
        fault: Option<&ReadFault>,
    ) -> Response {
        let bytes = self.resources.get(path).and_then(|it| it.bytes.clone()).unwrap_or_default();
        let tag = self.tag(path);
        let date = self.date(path);
        let matches = |wanted: &str| self.has_tag(path, wanted) || date.as_deref() == Some(wanted);
        if request.field("if-match").is_some_and(|wanted| !matches(wanted)) {
            return Response::plain(412);
        }
        let field = |name: &str, value: &Option<String>| {
            value.as_ref().map(|it| format!("{name}: {it}\r\n")).unwrap_or_default()
        };
        let mut fields = field("ETag", &tag) + &field("Last-Modified", &date);
        let is_asked = request.field("want-digest").is_some_and(|it| it.contains("adler32"));
        if self.behaviour.has_checksums && is_asked {
            fields +=
                &format!("Digest: adler32={}\r\n", Hasher::of(Algorithm::Adler32, &bytes).hex());
        }
        let sizes = self.behaviour.sizes;
        if request.method == "HEAD" && sizes != StatedSizes::Always {
            return Response::new(200, fields, Vec::new());
        }
        let is_other = request.field("if-range").is_some_and(|wanted| !matches(wanted));
        let range = request.field("range").and_then(|range| span(range, bytes.len()));
        let is_whole = is_other || fault == Some(&ReadFault::Whole);
        let Some((first, last)) = range.filter(|_| !is_whole && request.method == "GET") else {
            let mut response = Response::new(200, fields, bytes);
            if sizes == StatedSizes::Never {
                response.end = BodyEnd::Close;
            }
            return response;
        };
        if first >= bytes.len() {
            let fields = format!("Content-Range: bytes */{}\r\n", bytes.len());
            return if bytes.is_empty() {
                Response::new(200, String::new(), bytes)
            } else {
                Response::new(416, fields, Vec::new())
            };
        }
        let total = match sizes {
            StatedSizes::Never => "*".to_owned(),
            _ => bytes.len().to_string(),
        };
        let label = format!("{fields}Content-Range: bytes {first}-{last}/{total}\r\n");
        let part = match fault {
            Some(ReadFault::OtherRange) => bytes.get(..=last - first),
            _ => bytes.get(first..=last),
        };
        Response::new(206, label, part.unwrap_or_default().to_vec())
    }

    fn put(&mut self, path: &str, found: Option<String>, request: &Request) -> Response {
        let is_new = found.is_none();
        let fails = |wanted: &str| match (wanted, &found) {
            ("*", found) => found.is_none(),
            (wanted, Some(key)) => !self.has_tag(key, wanted),
            (_, None) => true,
        };
        if request.field("if-match").is_some_and(fails)
            || request.field("if-none-match").is_some() && !is_new
        {
            return Response::plain(412);
        }
        if found.as_ref().is_some_and(|key| key.ends_with('/')) {
            return Response::plain(409);
        }
        if self.behaviour.makes_parents {
            self.make_parents(path);
        }
        if !self.has_parent(path) {
            return Response::plain(409);
        }
        let mut bytes = request.body.clone();
        match (request.piece(), self.behaviour.pieces) {
            (Some(_), PiecesTaken::Never) => return Response::plain(501),
            (Some((first, total)), PiecesTaken::AsPieces) => {
                let held = found.as_ref().and_then(|key| self.resources.get(key));
                let mut whole = held.and_then(|it| it.bytes.clone()).unwrap_or_default();
                whole.resize(whole.len().max(first + bytes.len()).min(total), 0);
                let place = whole.get_mut(first..).and_then(|it| it.get_mut(..bytes.len()));
                place.into_iter().for_each(|place| place.copy_from_slice(&bytes));
                bytes = whole;
            }
            _ => {}
        }
        self.insert(path, Some(bytes));
        self.keep_time(path, request);
        Response::plain(if is_new { 201 } else { 204 })
    }

    /// Sets the time of a file that the client states, if the server keeps it.
    fn keep_time(&mut self, path: &str, request: &Request) {
        let time = request.field("x-oc-mtime").filter(|_| self.behaviour.keeps_times);
        let time = time.and_then(|it| it.split('.').next()?.parse().ok());
        let key = self.held(path);
        let time = time.and_then(|time: u64| time.checked_sub_signed(self.behaviour.clock));
        if let (Some(time), Some(resource)) = (time, self.resources.get_mut(&key)) {
            resource.modified = time;
        }
    }

    fn transfer(&mut self, from: &str, request: &Request) -> Response {
        if let Some(status) = self.behaviour.refuses_moves {
            return Response::plain(status);
        }
        let destination = request.destination();
        let found = self.found(&destination);
        let may_replace =
            self.behaviour.ignores_overwrite || request.field("overwrite") != Some("F");
        if found.is_some() && !may_replace {
            return Response::plain(412);
        }
        if !self.has_parent(&destination) {
            return Response::plain(409);
        }
        let bare = destination.trim_end_matches('/');
        let to = if from.ends_with('/') { format!("{bare}/") } else { bare.to_owned() };
        self.place(from, &to, found.as_deref(), request.method == "MOVE");
        self.keep_time(&to, request);
        Response::plain(if found.is_none() { 201 } else { 204 })
    }

    /// Copies or moves a file or directory to a name, instead of what is there.
    pub(super) fn place(&mut self, from: &str, to: &str, replaced: Option<&str>, is_move: bool) {
        let is_moved = |name: &String| is_within(name, from);
        let moved: Vec<_> = self.resources.keys().filter(|it| is_moved(it)).cloned().collect();
        let moved: Vec<_> = moved
            .into_iter()
            .filter_map(|name| {
                let resource = self.resources.get(&name)?.clone();
                Some((format!("{to}{}", name.strip_prefix(from)?), resource))
            })
            .collect();
        if is_move {
            self.resources.retain(|name, _| !is_within(name, from));
        }
        if let Some(replaced) = replaced {
            self.resources.retain(|name, _| !is_within(name, replaced));
        }
        for (name, resource) in moved {
            if is_move {
                self.resources.insert(name, resource);
            } else {
                self.insert(&name, resource.bytes);
            }
        }
    }
}

/// Returns true for `key`, and for its contents if it is a directory.
fn is_within(name: &str, key: &str) -> bool {
    name == key || key.ends_with('/') && name.starts_with(key)
}

/// The first and the last byte of a single range; `None` for several.
fn span(text: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let end = length.saturating_sub(1);
    if first.is_empty() {
        return Some((length.saturating_sub(last.parse().ok()?), end));
    }
    let last = if last.is_empty() { end } else { last.parse().ok()? };
    Some((first.parse().ok()?, last.min(end)))
}
