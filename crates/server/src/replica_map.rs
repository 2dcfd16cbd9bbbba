//! Where else files are: what the settings say of copies of whole folders elsewhere, told to clients as Metalink.
//!
//! A file below such a folder is said to have a copy at each of its URLs, under the same name; nobody asks there whether that
//! is so. Clients are told in three ways: by `SocketRef` fields beside every answer about the file (RFC 6249), with the checksums
//! that are noted of it; by a Metalink document (RFC 5854) in place of the file, for those that name its media type in
//! `Accept`, as aria2 and davix do; and by the same document under the file's URL with the query `metalink`, which works for
//! any file.
//!
//! A file that is missing here though its folder has copies has a document as well: that is when it is needed.

use crate::answer::ServerResponse;
use crate::backend::disk::checksums;
use crate::backend::disk::confined_dir::{DiskReader, is_missing};
use crate::backend::path::{NamespacePath, href};
use crate::context::{ServerContext, ServerRequest};
use crate::http_error::HttpError;
use hither_core::checksum::Algorithm;
use hither_core::error::{Error, ErrorKind, Result};
use hither_http::digest::{DIGEST, Digest, DigestAlgorithm};
use hither_http::metalink::{
    MEDIA_TYPE, Metalink, MetalinkFile, MetalinkUrl, describedby, duplicate,
};
use http::header::{self, HeaderValue};
use http::uri::Authority;
use http::{Method, StatusCode};
use serde::Deserialize;
use std::fs::File;

/// A folder of which there are copies elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaSettings {
    /// The folder, below the root of what is served; `/` for all of it.
    pub path: String,
    /// URLs of the folder elsewhere, the best first.
    pub urls: Vec<String>,
}

/// See the module above.
#[derive(Debug, Default)]
pub(crate) struct ReplicaMap {
    /// Folders and their URLs without slashes at the ends, the deepest first.
    folders: Vec<(NamespacePath, Vec<String>)>,
}

impl ReplicaMap {
    /// # Errors
    /// A path that is none, or a URL of a kind that files are not read by.
    pub(crate) fn new(settings: &[ReplicaSettings]) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("replicas: {what}"));
        let mut folders = Vec::new();
        for ReplicaSettings { path, urls } in settings {
            let place = NamespacePath::parse(path).map_err(|refusal| {
                invalid(format!(
                    "{path:?} is no folder, as {:?} would be: {}",
                    "/store", refusal.what
                ))
            })?;
            if urls.is_empty() {
                return Err(invalid(format!("{path} has no urls")));
            }
            if let Some(url) = urls.iter().find(|url| !hither_http::metalink::is_readable(url)) {
                let kinds = "an absolute one of http, https, dav, davs, root or roots";
                return Err(invalid(format!("{url:?} is no URL of a file, expected {kinds}")));
            }
            let urls = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
            folders.push((place, urls));
        }
        folders.sort_by_key(|(place, _)| std::cmp::Reverse(place.path().len()));
        Ok(Self { folders })
    }

    /// Where else a file is; nowhere, if nobody said so.
    fn of(&self, place: &NamespacePath) -> Vec<String> {
        let Some((folder, urls)) = self.folders.iter().find(|(folder, _)| folder.holds(place))
        else {
            return Vec::new();
        };
        let below = place.path().strip_prefix(folder.path()).unwrap_or_default();
        let below = below.trim_start_matches('/');
        let url = |base: &String| match base.starts_with("http") || base.starts_with("dav") {
            true => format!("{base}{}", href(below, false)),
            // Names in XRootD's URLs are as they are.
            false => format!("{base}/{below}"),
        };
        urls.iter().map(url).collect()
    }

    /// Adds to an answer about a file where else it is, and what is known of its bytes.
    pub(crate) fn announce(
        &self,
        answer: &mut ServerResponse,
        place: &NamespacePath,
        found: &DiskReader,
    ) {
        if self.folders.is_empty() {
            return;
        }
        let urls = self.of(place);
        if urls.is_empty() {
            return;
        }
        let document = format!("{}?metalink", place.href(false));
        let links = urls.iter().zip(1..).map(|(url, priority)| duplicate(url, priority));
        for link in links.chain([describedby(&document)]) {
            if let Ok(value) = HeaderValue::from_str(&link) {
                answer.headers.append(header::LINK, value);
            }
        }
        if !answer.headers.contains_key(DIGEST) {
            for digest in known(&found.file, found).iter().rev() {
                if let Ok(value) = HeaderValue::from_str(&digest.to_field()) {
                    answer.headers.append(DIGEST, value);
                }
            }
        }
        answer.headers.append(header::VARY, HeaderValue::from_static("accept"));
    }
}

/// The sums that are noted of a file.
fn known(file: &File, found: &DiskReader) -> Vec<Digest> {
    let kinds = [
        (DigestAlgorithm::Adler32, Algorithm::Adler32),
        (DigestAlgorithm::Crc32c, Algorithm::Crc32c),
        (DigestAlgorithm::Md5, Algorithm::Md5),
        (DigestAlgorithm::Sha256, Algorithm::Sha256),
    ];
    let noted = kinds.into_iter().filter_map(|(algorithm, kind)| {
        let sum = checksums::noted(file, &found.meta, kind)?;
        Some(Digest { algorithm, value: sum.value().to_vec() })
    });
    noted.collect()
}

/// The Metalink document in place of a file, if that is what is asked for.
pub(crate) async fn document(
    site: &ServerContext,
    call: &ServerRequest,
) -> std::result::Result<Option<ServerResponse>, HttpError> {
    let asked = call.query.as_deref() == Some("metalink");
    if call.place.is_directory() || !(asked || accepts(call)) {
        return Ok(None);
    }
    let elsewhere = site.rules().replicas.of(&call.place);
    if elsewhere.is_empty() && !asked {
        return Ok(None);
    }
    let path = call.place.path().to_owned();
    let found = site.disk.run(move |tree| match tree.find(&path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    });
    let mut urls = Vec::with_capacity(elsewhere.len() + 1);
    let mut file = MetalinkFile::default();
    file.name = call.place.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
    match found.await? {
        Some(found) if found.meta.kind == crate::backend::disk::confined_dir::EntryKind::File => {
            file.size = Some(found.meta.size);
            file.digests = known(&found.file, &found);
            urls.extend(here(call));
        }
        Some(_) => return Ok(None),
        None if elsewhere.is_empty() => return Ok(None),
        None => {}
    }
    urls.extend(elsewhere);
    let replicas = urls.into_iter().zip(1..);
    file.replicas =
        replicas.map(|(url, priority)| MetalinkUrl { url, priority, location: None }).collect();
    let text = Metalink { files: vec![file] }.to_document();
    let length = text.len().to_string();
    let mut answer = ServerResponse::text(StatusCode::OK, MEDIA_TYPE, text)
        .with(header::VARY, "accept")
        .with(header::CACHE_CONTROL, "no-cache")
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if call.method == Method::HEAD {
        answer.body = crate::response::body::ResponseBody::Empty;
        answer.set(header::CONTENT_LENGTH, &length);
    }
    Ok(Some(answer))
}

/// Whether the media type of Metalink is named among what is accepted.
fn accepts(call: &ServerRequest) -> bool {
    let Some(accept) = call.text(header::ACCEPT) else { return false };
    accept.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(MEDIA_TYPE));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_named && weight.and_then(|weight| weight.parse().ok()).is_none_or(|q: f32| q > 0.0)
    })
}

/// The file at this server, by the name that it was asked by.
fn here(call: &ServerRequest) -> Option<String> {
    let host: Authority = call.host.as_deref()?.parse().ok()?;
    let scheme = if call.peer.is_secure { "https" } else { "http" };
    Some(format!("{scheme}://{host}{}", call.place.href(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(text: &str) -> Result<ReplicaMap> {
        ReplicaMap::new(&crate::settings::Settings::from_toml(text)?.replicas)
    }

    #[test]
    fn names_are_put_behind_the_urls_of_the_deepest_folder() {
        let replicas = replicas(
            "[[replicas]]\npath = '/'\nurls = ['https://all.example']\n\
             [[replicas]]\npath = '/a/b'\nurls = ['https://near.example/x/', 'root://far.example//y']",
        )
        .unwrap();
        for (path, expected) in [
            ("/a/c%20d", vec!["https://all.example/a/c%20d"]),
            ("/a/bc", vec!["https://all.example/a/bc"]),
            ("/a/b/c%20d", vec!["https://near.example/x/c%20d", "root://far.example//y/c d"]),
        ] {
            assert_eq!(replicas.of(&NamespacePath::parse(path).unwrap()), expected, "{path}");
        }
        assert!(ReplicaMap::default().of(&NamespacePath::parse("/a").unwrap()).is_empty());
    }

    #[test]
    fn what_is_no_folder_and_no_url_is_refused() {
        for (path, url, named) in [
            ("store", "https://a.example", "store"),
            ("/a/../b", "https://a.example", "/a/../b"),
            ("/a", "ftp://a.example", "ftp://a.example"),
            ("/a", "/b", "/b"),
        ] {
            let text = format!("[[replicas]]\npath = '{path}'\nurls = ['{url}']");
            let error = replicas(&text).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        assert!(replicas("[[replicas]]\npath = '/a'\nurls = []").is_err());
    }
}
