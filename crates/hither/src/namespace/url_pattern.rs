//! Patterns in URLs: `https://host/run7/*.root` stands for the names that match.
//!
//! The components of the path are patterns in the syntax of filters: `*`, `[a-z]`, `{a,b}`. `?`
//! begins the query of a URL and is not a pattern. A star does not match the dot at the beginning
//! of a name. In URLs of HTTP, percent-encoded characters are literal, so `%2A` is a star; URLs of
//! XRootD and S3 are not encoded. Local paths are not expanded: shells do that.
//!
//! Names may have these characters, too: the metadata of the literal URL are requested first, and
//! if it exists, it is the only match. If that request fails, the name may exist, so the error is
//! the result. There is one exception: stores that refuse metadata of an absent name (403) often
//! allow the listing of its directory, which then decides, except for removals
//! ([`UrlMatches::refused`]). A name with brackets or braces that does not exist and matches
//! nothing stands for itself, as in a shell; one with a star is an error then.

use crate::client::Client;
use crate::client::storage_path::local_path;
use futures_util::StreamExt;
use hither_core::error::{Error, ErrorKind, Failure, Result};
use hither_core::storage::{FileKind, Listing, MAX_LISTINGS, Storage, file_name, join};
use hither_transfer::{Filter, FilterOptions};
use hither_transport::redact_url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The maximum number of names that match one pattern.
const MAX_NAMES: usize = 1_000_000;
/// Characters of a name that are not encoded in URLs, besides letters and digits.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that have a meaning in patterns.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// The names that match a pattern.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct UrlMatches {
    /// The URLs, in the order of their names.
    pub urls: Vec<String>,
    /// Names that may match and cannot be used, and directories that match a part of the pattern
    /// and could not be listed, and why.
    pub failures: Vec<Error>,
    /// The server's refusal to state whether exactly that name exists, where the listing of its
    /// directory does not show the name.
    pub refused: Option<Error>,
}

impl Client {
    /// The URLs that `url` stands for: only itself if it has no pattern in its path or exactly that
    /// name exists, else those that match.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if nothing matches a pattern with a star, [`ErrorKind::Invalid`] for
    /// a malformed one, [`ErrorKind::TooLarge`] for more than a million names; the errors of
    /// listing the directory, and of the metadata of the name itself if it may exist.
    pub async fn matching_urls(&self, url: &str) -> Result<UrlMatches> {
        let itself = || UrlMatches { urls: vec![url.to_owned()], ..UrlMatches::default() };
        let Some(pattern) = UrlPattern::of(url) else { return Ok(itself()) };
        let refused = match self.stat(url).await {
            Ok(_) => return Ok(itself()),
            Err(error) if means_absent(&error) => None,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(error),
            Err(error) => return Err(error),
        };
        match self.matches(&pattern, refused).await {
            Ok(found) if !found.urls.is_empty() || !found.failures.is_empty() => Ok(found),
            Ok(_) if pattern.has_star() => {
                let what = format!("{}: no name matches", redact_url(url));
                Err(Error::new(ErrorKind::NotFound, what))
            }
            Err(error) if pattern.has_star() || !error.concerns_name() => Err(error),
            _ => Ok(itself()),
        }
    }

    /// The names that match. `refused` is the error of the request for the literal URL, if it was
    /// refused.
    async fn matches(
        &self,
        pattern: &UrlPattern<'_>,
        refused: Option<Error>,
    ) -> Result<UrlMatches> {
        let UrlPattern { base, query, .. } = pattern;
        let named = self.storage_path(&format!("{base}{query}"))?;
        let storage = &*named.storage;
        let mut found = UrlMatches { refused, ..UrlMatches::default() };
        let mut paths = vec![named.path.clone()];
        // The path of the literal URL, up to this level.
        let mut literal = named.path.clone();
        for (level, component) in pattern.components.iter().enumerate() {
            let is_last = level + 1 == pattern.components.len();
            let is_directory = !is_last || pattern.names_directories;
            let matcher = component.matcher()?;
            let parent = literal;
            literal = join(&parent, &component.name);
            let mut next = Vec::new();
            let listed = futures_util::stream::iter(std::mem::take(&mut paths)).map(|path| {
                let listed = component.list(storage, path.clone());
                async move { (path, listed.await) }
            });
            let mut listed = listed.buffered(MAX_LISTINGS);
            while let Some((path, listed)) = listed.next().await {
                let listing = match listed {
                    Ok(listing) => listing,
                    Err(error) if level == 0 => return Err(found.refused.unwrap_or(error)),
                    // Below the first level there may be files, and directories that cannot be
                    // listed.
                    Err(error) => {
                        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) {
                            found.failures.push(error);
                        }
                        continue;
                    }
                };
                if level == 0
                    && !component.is_absent(&listing, &path)
                    && let Some(error) = found.refused.take()
                {
                    return Err(error);
                }
                // A broken link exists, although its server reports it as missing.
                if is_last
                    && path == parent
                    && listing.entries.iter().any(|entry| entry.path == literal)
                {
                    found.urls = vec![pattern.url_of(&named.path, &literal)];
                    return Ok(found);
                }
                let matches = |path: &str| component.matches(matcher.as_ref(), path);
                // Names that may match and cannot be used must not be skipped silently.
                found.failures.extend(listing.gaps);
                let failed = listing.failed.into_iter().filter(|(path, _)| matches(path));
                found.failures.extend(failed.map(|(_, error)| error));
                for entry in listing.entries.into_iter().filter(|entry| matches(&entry.path)) {
                    let may_be_directory = entry.kind == FileKind::Directory
                        || entry.kind == FileKind::Unnamed && entry.size.is_none();
                    if is_directory && !may_be_directory {
                        continue;
                    }
                    if entry.kind == FileKind::Unnamed {
                        let name = named.display_url(&entry.path);
                        let what = format!(
                            "{name}: the name is not UTF-8: it may match and cannot be used: rename it"
                        );
                        found.failures.push(Error::new(ErrorKind::Unsupported, what));
                    } else {
                        next.push(entry.path);
                    }
                }
                if next.len() > MAX_NAMES {
                    let base = redact_url(base);
                    let what =
                        format!("{base}: more than {MAX_NAMES} names match: narrow the pattern");
                    return Err(Error::new(ErrorKind::TooLarge, what));
                }
            }
            paths = next;
        }
        found.urls = paths.iter().map(|path| pattern.url_of(&named.path, path)).collect();
        Ok(found)
    }
}

/// Returns true if this error of a request for a name means that it does not exist, or cannot
/// exist.
fn means_absent(error: &Error) -> bool {
    let is_refused_name = matches!(error.failure(), Failure::Status { code: 400, .. });
    is_refused_name || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid)
}

/// A URL with a pattern in its path.
#[derive(Debug, PartialEq, Eq)]
struct UrlPattern<'a> {
    /// The part before the first component that is a pattern, with its slash.
    base: &'a str,
    components: Vec<PatternComponent>,
    /// The query with its question mark, or nothing.
    query: &'a str,
    /// The pattern ends with a slash.
    names_directories: bool,
    /// Nothing in the pattern is encoded.
    is_literal: bool,
}

/// A component of the path, from the first pattern on.
#[derive(Debug, PartialEq, Eq)]
struct PatternComponent {
    /// The pattern, in the syntax of filters.
    pattern: String,
    /// The literal name.
    name: String,
    is_pattern: bool,
}

impl<'a> UrlPattern<'a> {
    /// The pattern in `url`; none if it is a local path or has no pattern.
    fn of(url: &'a str) -> Option<Self> {
        if local_path(url).is_some() {
            return None;
        }
        let is_literal = is_literal(url);
        let (path, query) = split_query(url);
        let host = path.find("://")? + 3;
        let root = host + path.get(host..)?.find('/')? + 1;
        let special = root + path.get(root..)?.find(['*', '[', '{'])?;
        let first = path.get(..special)?.rfind('/')? + 1;
        let (base, rest) = path.split_at_checked(first)?;
        let names = rest.split('/').filter(|name| !name.is_empty());
        let components = names.map(|name| PatternComponent::of(name, is_literal)).collect();
        Some(Self { base, components, query, names_directories: rest.ends_with('/'), is_literal })
    }

    fn has_star(&self) -> bool {
        self.components.iter().any(|it| it.is_pattern && it.pattern.contains('*'))
    }

    /// The URL of a path below the path of the base.
    fn url_of(&self, base: &str, path: &str) -> String {
        let relative = path.strip_prefix(base).unwrap_or(path).trim_start_matches('/');
        let Self { base, query, is_literal, .. } = self;
        let names = if *is_literal { relative.to_owned() } else { encoded(relative) };
        format!("{base}{names}{query}")
    }
}

/// The URL or local path of the name `relative` in the directory at `directory`, another such.
#[must_use]
pub fn url_below(directory: &str, relative: &str) -> String {
    let (path, query) = split_query(directory);
    let name = if is_literal(directory) { relative.to_owned() } else { encoded(relative) };
    // The path of root://host// begins with a slash of its own.
    format!("{}/{name}{query}", path.strip_suffix('/').unwrap_or(path))
}

/// Returns true for local paths and for URLs in which nothing is encoded: those of S3 and XRootD.
fn is_literal(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_literal = |it: &str| matches!(it, "root" | "roots" | "xroot" | "xroots" | "s3");
    local_path(url).is_some() || scheme.as_deref().is_some_and(is_literal)
}

/// Splits a URL before its query.
fn split_query(url: &str) -> (&str, &str) {
    let has_query = local_path(url).is_none() && !url.starts_with("s3://");
    // A fragment is left out, and a file on XRootD may have its mark in its name.
    let ends: &[char] = if is_literal(url) { &['?'] } else { &['?', '#'] };
    let end = url.find(ends).filter(|_| has_query);
    end.and_then(|end| url.split_at_checked(end)).unwrap_or((url, ""))
}

fn encoded(relative: &str) -> String {
    let names = relative.split('/').map(|name| utf8_percent_encode(name, &ENCODED).to_string());
    names.collect::<Vec<_>>().join("/")
}

impl PatternComponent {
    fn of(text: &str, is_literal: bool) -> Self {
        let mut pattern = String::new();
        let mut rest = text;
        // The bytes of a character may be encoded one by one, so all in a row are decoded at once.
        while let Some(at) = rest.find('%').filter(|_| !is_literal) {
            let (plain, encoded) = rest.split_at(at);
            let bytes = encoded.as_bytes();
            let run =
                bytes.chunks(3).take_while(|it| it.len() == 3 && it.starts_with(b"%")).count();
            let (encoded, after) =
                encoded.split_at_checked(3 * run.max(1)).unwrap_or((encoded, ""));
            pattern.push_str(plain);
            for c in percent_decode_str(encoded).decode_utf8_lossy().chars() {
                if SPECIAL.contains(&c) {
                    pattern.push('\\');
                }
                pattern.push(c);
            }
            rest = after;
        }
        pattern.push_str(rest);
        let name = if is_literal {
            // A question mark begins the query of a URL, or is a character of a name.
            pattern = pattern.replace("\\?", "?").replace('?', "\\?");
            text.to_owned()
        } else {
            percent_decode_str(text).decode_utf8_lossy().into_owned()
        };
        Self { pattern, name, is_pattern: text.contains(['*', '[', '{']) }
    }

    /// The filter of names; none if there is only one name.
    fn matcher(&self) -> Result<Option<Filter>> {
        if !self.is_pattern {
            return Ok(None);
        }
        let include = vec![format!("/{}", self.pattern)];
        Filter::new(&FilterOptions { include, ..FilterOptions::default() }).map(Some)
    }

    /// The names in the directory at `path`, or only the one that matches.
    async fn list(&self, storage: &dyn Storage, path: String) -> Result<Listing> {
        if self.is_pattern {
            return storage.list(&path).await;
        }
        Ok(Listing::from(vec![storage.stat(&join(&path, &self.name)).await?]))
    }

    fn matches(&self, matcher: Option<&Filter>, path: &str) -> bool {
        let Some(matcher) = matcher else { return true };
        let name = file_name(path);
        (self.pattern.starts_with('.') || !name.starts_with('.')) && matcher.includes_file(name)
    }

    /// Returns true if the listing of the directory at `path` shows that the literal name does not
    /// exist.
    fn is_absent(&self, listing: &Listing, path: &str) -> bool {
        let own = join(path, &self.name);
        listing.is_complete() && listing.entries.iter().all(|entry| entry.path != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_begin_at_the_first_component_that_has_one() {
        for (url, base, components, query) in [
            ("http://h/a%20b/x*.root", "http://h/a%20b/", vec!["x*.root"], ""),
            ("http://h/run[0-9]/f?authz=a*b", "http://h/", vec!["run[0-9]", "f"], "?authz=a*b"),
            ("root://h//d/{a,b}/%5B*?x", "root://h//d/", vec!["{a,b}", "%5B*"], "?x"),
            ("http://h/%5B*#x", "http://h/", vec![r"\[*"], "#x"),
            ("s3://bucket/a?b/%41*", "s3://bucket/a?b/", vec!["%41*"], ""),
            ("s3://bucket/a?[1]", "s3://bucket/", vec![r"a\?[1]"], ""),
            ("HTTP://h/%5B*", "HTTP://h/", vec![r"\[*"], ""),
            ("pelican://h/%5B*", "pelican://h/", vec![r"\[*"], ""),
            ("http://[::1]:80/%C3%BC*/", "http://[::1]:80/", vec!["ü*"], ""),
        ] {
            let pattern = UrlPattern::of(url).unwrap();
            let seen: Vec<_> = pattern.components.iter().map(|it| &*it.pattern).collect();
            assert_eq!((pattern.base, seen, pattern.query), (base, components, query), "{url}");
            assert_eq!(pattern.names_directories, url.ends_with('/'));
        }
        for url in ["http://[::1]/a", "/a/*", "x*", "file:///a*", "http://h/a?b=*", "http://h*/a/b"]
        {
            assert_eq!(UrlPattern::of(url), None, "{url}");
        }
    }

    #[test]
    fn matches_are_urls_of_their_names() {
        let pattern = UrlPattern::of("http://h/a%20b/*?authz=t").unwrap();
        assert_eq!(pattern.url_of("a b", "a b/50% *"), "http://h/a%20b/50%25%20%2A?authz=t");
        let pattern = UrlPattern::of("s3://bucket/d/*").unwrap();
        assert_eq!(pattern.url_of("d", "d/50% *"), "s3://bucket/d/50% *");
        let pattern = UrlPattern::of("root://h//*").unwrap();
        assert_eq!(pattern.url_of("", "f"), "root://h//f");
    }

    #[test]
    fn names_are_below_their_directory() {
        for (directory, url) in [
            ("http://h/d/?authz=t", "http://h/d/a%20b/50%25?authz=t"),
            ("root://h//?authz=t", "root://h//a b/50%?authz=t"),
            ("s3://bucket", "s3://bucket/a b/50%"),
            ("/d/", "/d/a b/50%"),
            (".", "./a b/50%"),
        ] {
            assert_eq!(url_below(directory, "a b/50%"), url);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_url_is_taken_apart(text in "[a-z%*\\[{/?é3]{0,30}") {
            UrlPattern::of(&format!("http://h/{text}"));
        }
    }
}
