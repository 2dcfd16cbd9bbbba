//! An endpoint: a storage, its paths, and their URLs for clients.

use crate::prefix_map::{PrefixMap, PrefixRule};
use crate::settings::{EndpointSettings, has_secret};
use hither_core::Storage;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{check_path, file_name, join, parent};
use hither_server::url_below;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The schemes of URLs to which clients can be redirected: as written in settings, and as clients
/// know them.
const SCHEMES: [(&str, &str); 7] = [
    ("http", "http"),
    ("https", "https"),
    ("dav", "http"),
    ("davs", "https"),
    ("root", "root"),
    ("roots", "roots"),
    ("xroot", "root"),
];

/// An endpoint of the federation.
#[derive(Debug)]
pub struct Endpoint {
    /// The name.
    pub name: String,
    /// Clients may write there.
    pub writes: bool,
    /// Its share of the clients.
    pub weight: f64,
    /// The label of its site.
    pub site: Option<String>,
    /// Its storage.
    pub storage: Arc<dyn Storage>,
    /// Directories exist by themselves. Those of an object store exist while there are objects
    /// below them.
    pub(crate) keeps_directories: bool,
    /// The directory of the storage that the rules are below.
    root: String,
    /// The rules.
    pub prefixes: PrefixMap,
    /// The URLs of that directory for clients.
    redirects: Vec<String>,
    /// A moving average of the response time, in microseconds; 0 before the first response.
    answer_micros: AtomicU64,
    /// Number of requests with an answer, and without one.
    answered: AtomicU64,
    failed: AtomicU64,
    /// Number of names whose entry differs from that of most endpoints.
    conflicts: AtomicU64,
}

impl Endpoint {
    /// An endpoint whose URL is the directory `root` of `storage`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a prefix that is not a path, or a URL to which clients cannot be
    /// redirected.
    pub fn new(
        settings: &EndpointSettings,
        storage: Arc<dyn Storage>,
        root: String,
    ) -> Result<Self> {
        let name = &settings.name;
        let path = |text: &str| {
            let path = text.trim_matches('/').to_owned();
            let named = |error: Error| error.context(format!("endpoints: {name}: prefixes"));
            check_path(&path).map(|()| path).map_err(named)
        };
        let rule = |it: &crate::settings::PrefixSettings| {
            let copy_of = it.copy_of.clone();
            Ok(PrefixRule { path: path(&it.path)?, target: path(&it.target)?, copy_of })
        };
        let rules = settings.prefixes.iter().map(rule).collect::<Result<_>>()?;
        let redirects = match &settings.redirects {
            // Files at URLs that a client cannot follow are relayed.
            None if has_secret(&settings.url) => Vec::new(),
            None => public_url(&settings.url).into_iter().collect(),
            Some(urls) => {
                let checked =
                    urls.iter().map(|url| public_url(url).ok_or_else(|| not_public(name, url)));
                checked.collect::<Result<_>>()?
            }
        };
        Ok(Self {
            name: name.clone(),
            writes: settings.write,
            weight: settings.weight,
            site: settings.site.clone(),
            storage,
            keeps_directories: !settings.url.to_ascii_lowercase().starts_with("s3:"),
            root,
            prefixes: PrefixMap::new(rules),
            redirects,
            answer_micros: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
        })
    }

    /// The path in the storage of a path of the federation; none if no rule leads there.
    #[must_use]
    pub fn storage_path(&self, path: &str) -> Option<String> {
        self.prefixes.resolve(path).map(|below| self.at(&below))
    }

    /// Returns true if the endpoint lists a path of the federation in the directory above it.
    pub(crate) fn is_inside(&self, path: &str) -> bool {
        let above = self.storage_path(parent(path)).filter(|_| !path.is_empty());
        above.is_some_and(|above| Some(join(&above, file_name(path))) == self.storage_path(path))
    }

    /// The directory of the storage that the rules are below.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    fn at(&self, below: &str) -> String {
        if below.is_empty() { self.root.clone() } else { join(&self.root, below) }
    }

    /// The URLs of a path of the federation for clients.
    #[must_use]
    pub fn urls(&self, path: &str) -> Vec<String> {
        let Some(below) = self.prefixes.resolve(path) else { return Vec::new() };
        // In the unencoded URLs of XRootD a question mark in a name would begin a query.
        let urls = self.redirects.iter().map(|base| url_below(base, &below));
        urls.filter(|url| !has_secret(url)).collect()
    }

    /// The average response time; zero before the first response.
    #[must_use]
    pub fn answer_time(&self) -> Duration {
        Duration::from_micros(self.answer_micros.load(Ordering::Relaxed))
    }

    /// Records the time of a response.
    pub fn record_answer(&self, took: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.answer_micros.load(Ordering::Relaxed);
        // An update that is lost in a race changes little.
        let average = if before == 0 { took } else { (before / 8 * 7).saturating_add(took / 8) };
        self.answer_micros.store(average.max(1), Ordering::Relaxed);
    }

    /// Records a request without an answer.
    pub fn record_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a name whose entry differs from that of most endpoints.
    pub fn record_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of names whose entry differs from that of most endpoints.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// The number of requests with an answer, and without one.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.answered.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// The URL for clients, to which a path is appended after a slash; none if clients do not support
/// its scheme. For clients of XRootD a path after two slashes is absolute.
fn public_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, public) = SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name))?;
    let rest = rest.trim_end_matches('/');
    if public.starts_with("http") {
        return Some(format!("{public}://{rest}"));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_start_matches('/');
    let slashes = if path.is_empty() { "/" } else { "//" };
    Some(format!("{public}://{host}{slashes}{path}"))
}

fn not_public(name: &str, url: &str) -> Error {
    let what = format!(
        "endpoints: {name}: redirects: {url:?} cannot be used, expected an absolute http, https, \
         dav, davs, root or roots URL"
    );
    Error::new(ErrorKind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_urls_of_their_own_schemes() {
        for (url, file) in [
            ("http://a.example/", Some("http://a.example/d/f%20g")),
            ("davs://a.example:1/x/", Some("https://a.example:1/x/d/f%20g")),
            ("root://a.example", Some("root://a.example//d/f g")),
            ("root://a.example:1//x/", Some("root://a.example:1//x/d/f g")),
            ("xroot://a.example/x", Some("root://a.example//x/d/f g")),
            ("s3://bucket/x", None),
            ("/data", None),
        ] {
            let found = public_url(url).map(|base| url_below(&base, "d/f g"));
            assert_eq!(found.as_deref(), file, "{url}");
        }
    }
}
