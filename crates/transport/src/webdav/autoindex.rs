//! A parser for the HTML directory index of nginx, Apache, lighttpd and Python.
//!
//! All of them have a link per name, relative to the page, with a trailing slash for a directory.
//! Links that lead elsewhere (upwards, to other sort orders, to other sites) are ignored: only a
//! possible name in this directory counts. Sizes are used where they are exact, as in nginx;
//! elsewhere they are rounded.

use http::{HeaderMap, header};
use std::collections::BTreeMap;

/// An entry of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AutoindexEntry {
    pub(super) name: String,
    pub(super) directory: bool,
    /// The size in bytes, if it is exact.
    pub(super) size: Option<u64>,
}

/// The beginnings of the titles of such pages.
const TITLES: [&str; 3] = ["index of", "directory listing for", "directory:"];
/// The beginning of the page in which the title is searched.
const HEAD_BYTES: usize = 2_000;

/// The entries of a page; `None` if it is no directory index.
pub(super) fn parse(headers: &HeaderMap, body: &[u8]) -> Option<Vec<AutoindexEntry>> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    if !kind.starts_with("text/html") {
        return None;
    }
    is_index(body).then(|| links(&String::from_utf8_lossy(body)))
}

/// Returns whether a page that begins like this is a directory index.
pub(super) fn is_index(body: &[u8]) -> bool {
    let head = body.get(..4 * HEAD_BYTES).unwrap_or(body);
    let text = String::from_utf8_lossy(head);
    let Some(title) = title(&text) else { return false };
    let title = title.trim().to_ascii_lowercase();
    TITLES.iter().any(|known| title.starts_with(known))
}

/// The entries that a piece of such a page links to.
pub(super) fn links(text: &str) -> Vec<AutoindexEntry> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("href=\"") {
        let Some((reference, after)) = after.split_once('"') else { break };
        rest = after;
        let Some((name, directory)) = name_of(reference) else { continue };
        let size = if directory { None } else { exact_size(after) };
        found.entry(name.clone()).or_insert(AutoindexEntry { name, directory, size });
    }
    found.into_values().collect()
}

/// Returns true if something closes the list after its last link. A response without a length that
/// broke off looks whole to HTTP, and must not pass for a shorter directory.
pub(super) fn is_whole(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let (_, rest) = text.rsplit_once("href=").unwrap_or(("", &text));
    ["</pre>", "</ul>", "</table>", "</body>", "</html>"].iter().any(|end| rest.contains(end))
}

fn title(text: &str) -> Option<&str> {
    let (start, _) = text.char_indices().nth(HEAD_BYTES).unwrap_or((text.len(), ' '));
    let head = text.get(..start)?;
    let at = head.to_ascii_lowercase().find("<title>")?;
    head.get(at + "<title>".len()..)?.split('<').next()
}

/// The name of a link, if it is in this directory.
fn name_of(reference: &str) -> Option<(String, bool)> {
    let reference = reference.strip_prefix("./").unwrap_or(reference);
    let reference = unescaped(reference);
    let (name, directory) = match reference.strip_suffix('/') {
        Some(name) => (name, true),
        None => (&*reference, false),
    };
    if name.is_empty() || name.contains(['/', '?', '#', ':']) {
        return None;
    }
    let name = percent_decoded(name)?;
    let fine = !matches!(&*name, "" | "." | "..") && !name.contains(['/', '\0']);
    fine.then_some((name, directory))
}

/// Replaces the entities that occur in links (HTML, section 13.1.4).
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#x27;", "'")
        .replace("&amp;", "&")
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

/// The exact size that nginx writes behind a link: name, date, time, bytes.
fn exact_size(after: &str) -> Option<u64> {
    let line = after.split(['\n', '\r']).next()?;
    let (_, told) = line.split_once("</a>")?;
    let mut words = told.split_ascii_whitespace();
    let date = words.next()?;
    let time = words.next()?;
    let size = words.next()?;
    let dated = date.len() == 11 && time.len() == 5 && words.next().is_none();
    dated.then(|| size.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_core::storage::check_path;
    use proptest::prelude::*;

    fn page(text: &str) -> Option<Vec<AutoindexEntry>> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "text/html; charset=utf-8".parse().unwrap());
        parse(&headers, text.as_bytes())
    }

    fn listed(name: &str, directory: bool, size: Option<u64>) -> AutoindexEntry {
        AutoindexEntry { name: name.to_owned(), directory, size }
    }

    #[test]
    fn the_page_of_nginx() {
        let text = "<html>\r\n<head><title>Index of /</title></head>\r\n<body>\r\n<h1>Index of /</h1><hr><pre>\
            <a href=\"../\">../</a>\r\n\
            <a href=\"d/\">d/</a>                 21-Nov-2026 15:20                   -\r\n\
            <a href=\"a%20%26%20b.root\">a &amp; b.root</a>    21-Nov-2026 15:20              100000\r\n\
            </pre><hr></body>\r\n</html>\r\n";
        let found = [listed("a & b.root", false, Some(100_000)), listed("d", true, None)];
        assert_eq!(page(text), Some(found.to_vec()));
    }

    #[test]
    fn the_pages_of_apache_and_of_python() {
        let text = "<!DOCTYPE HTML><html><head><title>Index of /data</title></head><body><ul>\
            <li><a href=\"/\"> Parent Directory</a></li><li><a href=\"?C=N;O=D\">Name</a></li>\
            <li><a href=\"x%2541.root\"> x</a></li></ul></body></html>";
        assert_eq!(page(text), Some(vec![listed("x%41.root", false, None)]));
        let text = "<html><head><title>Directory listing for /</title></head><body><ul>\n\
            <li><a href=\"a%26amp%3Bb/\">a&amp;amp;b/</a></li>\n<li><a href=\"c\">c</a></li></ul>";
        let found = [listed("a&amp;b", true, None), listed("c", false, None)];
        assert_eq!(page(text), Some(found.to_vec()));
    }

    #[test]
    fn links_out_of_the_directory_are_not_listed() {
        let text = "<title>Index of x</title><a href=\"http://other/x\"><a href=\"//other/x\"><a href=\"..\">\
            <a href=\"%2e%2e/\"><a href=\"a%2Fb\"><a href=\"../x\"><a href=\"%zz\"><a href=\"%f\"><a href=\"%ff\">\
            <a href=\"\"><a href=\"/\"><a href=\"./\"><a href=\"a%00\"><a href=\"mailto:x\"><a href=\"unended";
        assert_eq!(page(text), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_link_leads_out_of_the_directory(
            links in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![
                        Just("..".to_owned()), Just("/".to_owned()), Just("%2f".to_owned()),
                        Just("%2e".to_owned()), Just("%00".to_owned()), Just("&#x2F;".to_owned()),
                        Just("%5c".to_owned()), Just("%0a".to_owned()), Just("http://h/".to_owned()),
                        Just("&amp;".to_owned()), ".{0,3}",
                    ],
                    0..6,
                ),
                0..8,
            ),
        ) {
            let links: String =
                links.iter().map(|parts| format!("<a href=\"{}\">", parts.concat())).collect();
            for entry in page(&format!("<title>Index of x</title>{links}")).unwrap() {
                prop_assert!(!entry.name.contains('/'), "{:?}", entry.name);
                prop_assert!(check_path(&entry.name).is_ok() && !entry.name.is_empty());
            }
        }
    }

    #[test]
    fn a_page_that_broke_off_is_not_whole() {
        let page = "<html><title>Index of /</title><pre><a href=\"a\">a</a> 1\r\n\
            <a href=\"b\">b</a> 2\r\n</pre></body></html>";
        let end = page.find("</pre>").unwrap() + "</pre>".len();
        for cut in 0..page.len() {
            assert_eq!(is_whole(&page.as_bytes()[..cut]), cut >= end, "cut at {cut}");
        }
        assert!(is_whole(b"<title>Index of /</title><ul></ul>"), "an empty directory");
    }

    #[test]
    fn pages_without_an_index_are_not_listings() {
        assert_eq!(page("<html><title>Welcome</title><a href=\"x\">"), None);
        assert_eq!(page(""), None);
        assert_eq!(parse(&HeaderMap::new(), b"<title>Index of /</title>"), None);
    }
}
