//! A parser for the HTML directory index of nginx, Apache, lighttpd, Caddy, Jetty, Tomcat, IIS,
//! aiohttp, Go and Python.
//!
//! All of them have a link per name: relative to the page, from the root of the server, or with the
//! whole URL; mostly with a trailing slash for a directory. Links to other places (the parent,
//! other sort orders, other sites) name nothing in this directory. All other links are names or
//! gaps: a link that may be a name but cannot be used, and one that may lead to a further page, are
//! gaps. Sizes are used where they are exact, as in nginx; elsewhere they are rounded.

mod html;

use crate::http::request::is_html;
use html::Link;
use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An entry of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AutoindexEntry {
    pub(super) name: String,
    /// The name is UTF-8; else it has replacement characters.
    pub(super) is_utf8: bool,
    pub(super) directory: bool,
    /// The size in bytes, if it is exact.
    pub(super) size: Option<u64>,
}

/// The entries of a page, and its gaps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AutoindexPage {
    pub(super) entries: Vec<AutoindexEntry>,
    /// Links that may be names, or lead to further ones, and cannot be used: each with the reason.
    pub(super) gaps: Vec<String>,
}

/// The URL of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageUrl {
    host: String,
    /// The path up to the last slash, as in the request.
    folder: String,
}

impl PageUrl {
    /// The page at `target` (path and query, as in a request) of `host`.
    pub(super) fn new(host: &str, target: &str) -> Self {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self { host: host.to_owned(), folder: format!("{folder}/") }
    }
}

/// The beginnings of the titles of such pages.
const TITLES: [&str; 4] =
    ["index of", "directory listing for", "directory listing of", "directory:"];
/// The beginning of the page in which the title is searched, in characters.
const HEAD_CHARS: usize = 2_000;
/// The maximum number of gaps that are described one by one.
const MAX_GAPS: usize = 20;
/// The part of a reference that a message shows, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// The longest line of a link and its size, in characters.
const MAX_LINE_CHARS: usize = 1_000;
/// Keys of queries that order or show the same names in another way: those of Apache, and others.
const VIEWS: [&str; 9] = ["C", "O", "F", "V", "P", "sort", "order", "layout", "view"];
/// Texts of links to a further page.
const NEXT: [&str; 8] = ["next", "next page", "next »", "next >", "»", ">", ">>", "more"];
/// The reason why a link with a fragment or a query names nothing: the server may have forgotten to
/// encode the name.
const NOT_ENCODED: &str = "whose # or ? may be a part of the name";
/// Schemes of links that are not names with a colon.
const SCHEMES: [&str; 14] = [
    "mailto",
    "javascript",
    "data",
    "tel",
    "ftp",
    "file",
    "about",
    "http",
    "https",
    "root",
    "roots",
    "s3",
    "blob",
    "news",
];

/// The entries of a page; `None` if it is not a directory index.
pub(super) fn parse(headers: &HeaderMap, body: &[u8], url: &PageUrl) -> Option<AutoindexPage> {
    let is_listing = || is_index(body, url) || is_of_caddy(headers, body, url);
    (is_html(headers) && is_listing()).then(|| links(&String::from_utf8_lossy(body), url))
}

/// Returns true if a page that begins like this is a directory index: by its title, which may be
/// the path of the directory (Caddy, IIS), or, without any, by a list in fixed type (Go).
pub(super) fn is_index(body: &[u8], url: &PageUrl) -> bool {
    let head = body.get(..4 * HEAD_CHARS).unwrap_or(body);
    let text = String::from_utf8_lossy(head);
    let Some(title) = title(&text) else {
        let before_links = text.to_ascii_lowercase();
        let before_links = before_links.split("<a ").next().unwrap_or_default();
        return before_links.contains("<pre>") && !before_links.contains("<form");
    };
    let title = html::unescaped(title).0;
    let title = title.trim();
    let lower = title.to_ascii_lowercase();
    let path = percent_decode_str(&url.folder).decode_utf8_lossy();
    let own = title.rsplit(" - ").next().unwrap_or_default();
    TITLES.iter().any(|known| lower.starts_with(known))
        || own.starts_with('/') && own.trim_matches('/') == path.trim_matches('/')
}

/// Returns true for an index of Caddy before 2.7, whose title is the last name of the path.
fn is_of_caddy(headers: &HeaderMap, body: &[u8], url: &PageUrl) -> bool {
    if !headers.get(header::SERVER).is_some_and(|server| server.as_bytes().starts_with(b"Caddy")) {
        return false;
    }
    let text = String::from_utf8_lossy(body);
    let path = percent_decode_str(&url.folder).decode_utf8_lossy();
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let title = title(&text).map(|title| html::unescaped(title).0);
    text.contains("class=\"listing\"") && title.is_some_and(|title| title.trim() == name)
}

/// The entries that a piece of such a page links to.
pub(super) fn links(text: &str, url: &PageUrl) -> AutoindexPage {
    let mut entries = BTreeMap::new();
    let mut gaps = Vec::new();
    let mut more_gaps = 0;
    let mut named_elsewhere = None;
    let links = html::links(text);
    let is_unlinked =
        links.is_empty() && html::has_element(text, &["tr", "td", "li", "script", "base"]);
    if is_unlinked || html::has_element(text, &["base"]) {
        gaps.push("the page names its entries in a way that is not understood".to_owned());
    }
    for link in links {
        match link_kind(&link, url) {
            LinkKind::Elsewhere => {}
            LinkKind::NamedElsewhere => named_elsewhere = Some(link.reference),
            LinkKind::Gap(_) if gaps.len() >= MAX_GAPS => more_gaps += 1,
            LinkKind::Gap(what) => {
                let shown = html::beginning(&link.reference, MAX_SHOWN_CHARS);
                gaps.push(format!("the page links to {shown:?}, {what}"));
            }
            LinkKind::Name { name, is_utf8, directory } => {
                let after = text.get(link.end..).unwrap_or_default();
                let size = if directory { None } else { exact_size(after) };
                let entry = AutoindexEntry { name: name.clone(), is_utf8, directory, size };
                entries.entry(name).or_insert(entry);
            }
        }
    }
    if more_gaps > 0 {
        gaps.push(format!("and {more_gaps} more such links"));
    }
    // A proxy serves the page under another path than the one that its server knows.
    if let Some(reference) = named_elsewhere.filter(|_| entries.is_empty() && gaps.is_empty()) {
        let shown = html::beginning(&reference, MAX_SHOWN_CHARS);
        gaps.push(format!("the page names nothing here, but {shown:?}, which leads elsewhere"));
    }
    AutoindexPage { entries: entries.into_values().collect(), gaps }
}

/// Returns true if a page has no comments and no scripts, so that its lines can be read one by one.
pub(super) fn is_plain(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    !["<!--", "<script", "<style", "<base"].iter().any(|part| text.contains(part))
}

/// Returns true if something closes the list after its last link. A response without a length that
/// broke off looks whole to HTTP, and must not pass for a shorter directory: unless
/// `is_end_known`, what the page opened has to be closed.
pub(super) fn is_whole(body: &[u8], is_end_known: bool) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let (_, rest) = text.rsplit_once("href").unwrap_or(("", &text));
    let outer = ["html", "body"].iter().find(|name| text.contains(&format!("<{name}")));
    match outer.filter(|_| !is_end_known) {
        Some(outer) => rest.contains(&format!("</{outer}>")),
        None => ["</pre>", "</ul>", "</table>", "</body>", "</html>"]
            .iter()
            .any(|end| rest.contains(end)),
    }
}

fn title(text: &str) -> Option<&str> {
    let head = html::beginning(text, HEAD_CHARS);
    let at = head.to_ascii_lowercase().find("<title>")?;
    head.get(at + "<title>".len()..)?.split('<').next()
}

/// The kind of a link in a directory index.
enum LinkKind {
    /// The link names nothing in this directory.
    Elsewhere,
    /// The link looks like an entry of another directory of this server.
    NamedElsewhere,
    Name {
        name: String,
        is_utf8: bool,
        directory: bool,
    },
    /// The link may name something here, and cannot be used for this reason.
    Gap(&'static str),
}

fn link_kind(link: &Link, url: &PageUrl) -> LinkKind {
    if link.is_next || NEXT.contains(&&*link.text) && !is_named_by_text(link) {
        return LinkKind::Gap("which may be a further page");
    }
    let whole = link.reference.trim();
    let reference = whole.split('#').next().unwrap_or_default();
    let (reference, is_same_host) = match without_host(reference) {
        Some((host, path)) => (path, host.eq_ignore_ascii_case(&url.host)),
        None if is_of_scheme(reference) => return LinkKind::Elsewhere,
        None => (reference, true),
    };
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let Some(below) = below(path, &url.folder) else {
        let is_entry = is_same_host && is_named_by_text(link) && !is_upwards(path, &url.folder);
        return if is_entry { LinkKind::NamedElsewhere } else { LinkKind::Elsewhere };
    };
    if !is_same_host {
        // The path of any URL is below the root.
        let is_there = !below.is_empty() && url.folder != "/";
        return if is_there { LinkKind::Gap("on another host") } else { LinkKind::Elsewhere };
    }
    let is_cut = whole.contains('#') || query.is_some_and(|query| !is_view(query));
    if below.is_empty() {
        return match query {
            Some(query) if !is_view(query) => LinkKind::Gap("which may be a further page"),
            _ if is_cut && whole.to_lowercase() == link.text => LinkKind::Gap(NOT_ENCODED),
            _ => LinkKind::Elsewhere,
        };
    }
    let (name, directory) = match below.strip_suffix('/') {
        Some(name) => (name, true),
        // aiohttp shows the slash in the text only.
        None => (&*below, link.text.ends_with('/')),
    };
    if link.is_doubtful {
        return LinkKind::Gap("with an entity that is not understood");
    }
    if name.contains('/') {
        return LinkKind::Gap("which is not directly in this directory");
    }
    if is_cut && !is_text(link, name) {
        return LinkKind::Gap(NOT_ENCODED);
    }
    let decoded = percent_decode_str(name);
    let is_utf8 = decoded.clone().decode_utf8().is_ok();
    let name = decoded.decode_utf8_lossy().into_owned();
    match &*name {
        "." | ".." => LinkKind::Elsewhere,
        name if name.is_empty() || name.contains(['/', '\0']) => {
            LinkKind::Gap("which is not a possible name")
        }
        _ => LinkKind::Name { name, is_utf8, directory },
    }
}

/// Returns true if the text of a link is the name that it leads to.
fn is_named_by_text(link: &Link) -> bool {
    is_text(link, link.reference.trim_end_matches('/').rsplit('/').next().unwrap_or_default())
}

/// Returns true if the text of a link is this name, which is encoded.
fn is_text(link: &Link, name: &str) -> bool {
    !name.is_empty()
        && percent_decode_str(name).decode_utf8_lossy().to_lowercase()
            == link.text.trim_end_matches('/')
}

/// Host and path of a whole URL of HTTP, or of one without a scheme.
fn without_host(reference: &str) -> Option<(&str, &str)> {
    let rest = match reference.split_once("//") {
        Some(("", rest)) => rest,
        Some((scheme, rest)) => {
            let scheme = scheme.strip_suffix(':')?;
            let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
            is_http.then_some(rest)?
        }
        None => return None,
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let host = host.get(..end).unwrap_or_default().trim_matches(['[', ']']);
    Some((host, if path.starts_with('/') { path } else { "/" }))
}

/// Returns true for a URL of another protocol. Names may have colons as well.
fn is_of_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, rest)| {
        rest.starts_with("//") || SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// The part of a path below the folder of the page, still encoded; `None` if it leads elsewhere.
fn below(path: &str, folder: &str) -> Option<String> {
    let whole = whole(path, folder);
    let (parts, is_directory) = parts(&whole);
    let mut rest = parts.into_iter();
    for own in folder.split('/').filter(|part| !part.is_empty()) {
        rest.next().filter(|part| is_same(part, own))?;
    }
    let rest: Vec<_> = rest.collect();
    let slash = if is_directory && !rest.is_empty() { "/" } else { "" };
    Some(rest.join("/") + slash)
}

/// Returns true if a path leads to a directory that the folder of the page is in.
fn is_upwards(path: &str, folder: &str) -> bool {
    let mut own = folder.split('/').filter(|part| !part.is_empty());
    let whole = whole(path, folder);
    parts(&whole).0.iter().all(|part| own.next().is_some_and(|own| is_same(part, own)))
}

fn is_same(part: &str, other: &str) -> bool {
    percent_decode_str(part).eq(percent_decode_str(other))
}

/// A path from the root of the server, of one that may be relative to the folder of the page.
fn whole<'a>(path: &'a str, folder: &str) -> Cow<'a, str> {
    if path.starts_with('/') { path.into() } else { format!("{folder}{path}").into() }
}

/// The parts of a path from the root, and whether it ends as that of a directory does.
fn parts(whole: &str) -> (Vec<&str>, bool) {
    let mut parts: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for part in whole.split('/').skip(1) {
        is_directory = matches!(part, "" | "." | "..");
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts, is_directory)
}

/// Returns true for a query that only orders the names.
fn is_view(query: &str) -> bool {
    query.split(['&', ';']).filter(|part| !part.is_empty()).all(|part| {
        let key = part.split('=').next().unwrap_or_default();
        VIEWS.contains(&key)
    })
}

/// The exact size that nginx writes behind a link: name, date, time, bytes.
fn exact_size(after: &str) -> Option<u64> {
    let line = html::beginning(after, MAX_LINE_CHARS).split(['\n', '\r']).next()?;
    let (_, columns) = line.split_once("</a>")?;
    let mut words = columns.split_ascii_whitespace();
    let date = words.next()?;
    let time = words.next()?;
    let size = words.next()?;
    let dated = date.len() == 11 && time.len() == 5 && words.next().is_none();
    dated.then(|| size.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
