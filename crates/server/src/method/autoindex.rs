//! A directory as an HTML page for people.
//!
//! Where a part of the entries is not available, the page shows the others and states that; its
//! status is 503, so that no program takes it for complete.

use crate::backend::path::{NamespacePath, href};
use crate::backend::referral::AvailableEntries;
use crate::backend::{Details, EntryDescription};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::method::streamed_listing::{self, ListingFormat, PathList};
use crate::request::ServerRequest;
use crate::response::{ServerResponse, rfc3339};
use hither_checksum::{Algorithm, Checksum};
use hither_core::storage::join;
use http::{Method, StatusCode, header};
use std::fmt::Write as _;

const STYLE: &str = include_str!("autoindex.css");
/// The icons of entries: a folder and a file.
const SIGNS: &str = "<svg hidden><symbol id=\"d\" viewBox=\"0 0 16 16\"><path d=\"M1.5 4.5a1 1 0 0 1 1-1h3.6l1.5 1.7h5.9a1 1 0 0 1 1 \
    1v6.3a1 1 0 0 1-1 1h-11a1 1 0 0 1-1-1z\"/></symbol><symbol id=\"f\" viewBox=\"0 0 16 16\"><path d=\"M3.5 2.5a1 1 0 0 1 \
    1-1h4.8l3.2 3.2v8.8a1 1 0 0 1-1 1h-7a1 1 0 0 1-1-1zM9 1.5v3.4h3.5\"/></symbol></svg>\n";
/// The checksums that are shown, first the one that grids compare.
const SUMS: [Algorithm; 4] =
    [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Md5, Algorithm::Sha256];

/// The Content-Security-Policy: the page runs no script and loads nothing, whatever its names
/// contain.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(crate) async fn handle(
    context: &ServerContext,
    request: &ServerRequest,
) -> Result<ServerResponse, HttpError> {
    let max = context.limits().names;
    let path = request.path.path();
    let AvailableEntries { entries, missing } =
        context.follow(request, path, |files, path| files.list_available(path, max)).await?;
    if entries.len() > max {
        let what = format!("the directory has more than {max} entries, too many for one page");
        return Err(HttpError::new(StatusCode::INSUFFICIENT_STORAGE, what));
    }
    let status = if missing.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut answer = ServerResponse::empty(status)
        .with(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(header::CACHE_CONTROL, "no-cache");
    if request.method == Method::GET {
        let filter = context.tree_filter(request);
        let mut paths = PathList::new(request.path.path(), &request.peer.memory);
        for entry in entries.iter().filter(|it| filter.shows(&request.path.join(&it.name))) {
            tokio::task::consume_budget().await;
            match entry.refusal {
                Some(why) => paths.push_refused(request.path.path(), (entry, why), 0)?,
                None => paths.push(&entry.name, 0)?,
            }
        }
        let page = Page { place: request.path.clone(), missing, folders: 0, files: 0, bytes: 0 };
        let timings = &request.body.tally;
        answer.body = streamed_listing::body(&context.backend, page, paths, filter, timings);
    }
    Ok(answer)
}

/// A page that is being written.
#[derive(Debug)]
struct Page {
    place: NamespacePath,
    /// The servers that have not responded.
    missing: Option<String>,
    /// Folders, files and their bytes so far, for the summary at the end.
    folders: u64,
    files: u64,
    bytes: u64,
}

// Writing to a String cannot fail.
impl ListingFormat for Page {
    fn details(&self) -> Details {
        Details { checksums: &SUMS, ..Details::default() }
    }

    fn head(&mut self, out: &mut String) {
        let _ = write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
             <style>{STYLE}</style></head>\n<body>{SIGNS}<nav aria-label=\"Path\"><h1>{}</h1></nav>\n\
             <main><table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\" class=\"n\">Size</th>\
             <th scope=\"col\">Modified (UTC)</th><th scope=\"col\">Checksum</th></tr></thead>\n<tbody>\n",
            escaped(&self.place.to_string()),
            self.crumbs()
        );
        if let Some(missing) = &self.missing {
            let _ = writeln!(
                out,
                "<tr><td colspan=\"4\"><strong>This listing is incomplete: no answer from {}.\
                 </strong></td></tr>",
                escaped(missing)
            );
        }
        if let Some((parent, _)) = self.place.split() {
            let _ = writeln!(
                out,
                "<tr><td colspan=\"4\"><a href=\"{}\">{}..</a></td></tr>",
                href(parent, true),
                sign("d")
            );
        }
    }

    fn entry(&mut self, path: &str, entry: &EntryDescription, out: &mut String) {
        let meta = &entry.metadata;
        let is_directory = meta.is_directory();
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let link = href(path, is_directory);
        let slash = if is_directory { "/" } else { "" };
        let time = rfc3339(meta.version.modified).map_or_else(
            || "unknown".to_owned(),
            |time| {
                let date = time.replace('T', " ");
                format!("<time datetime=\"{time}\">{}</time>", date.trim_end_matches('Z'))
            },
        );
        let (size, exact, sums) = if is_directory {
            self.folders += 1;
            (String::new(), String::new(), String::new())
        } else {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(meta.size.unwrap_or_default());
            let (size, exact) = meta.size.map_or_else(
                || ("unknown".to_owned(), String::new()),
                |size| (human(size), format!(" title=\"{size} bytes\"")),
            );
            (size, exact, sums(&entry.checksums))
        };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"{link}\">{}{}{slash}</a></td><td class=\"n\"{exact}>{size}</td>\
             <td>{time}</td><td>{sums}</td></tr>",
            sign(if is_directory { "d" } else { "f" }),
            escaped(name)
        );
    }

    fn refused(&mut self, url: &str, error: &HttpError, out: &mut String) {
        let is_directory = url.ends_with('/');
        let name = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let _ = writeln!(
            out,
            "<tr><td><a href=\"{url}\">{}{name}</a></td><td colspan=\"3\">{}</td></tr>",
            sign(if is_directory { "d" } else { "f" }),
            escaped(&error.what)
        );
    }

    fn end(&mut self, out: &mut String) {
        let count = |count: u64, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {more}"),
        };
        let _ = writeln!(
            out,
            "</tbody></table></main>\n<footer><span>{}, {}, {}</span> <span>{}</span></footer>\n</body></html>",
            count(self.folders, "folder", "folders"),
            count(self.files, "file", "files"),
            human(self.bytes),
            concat!("hither ", env!("CARGO_PKG_VERSION"))
        );
    }
}

fn sign(name: &str) -> String {
    format!("<svg class=\"{name}\" aria-hidden=\"true\"><use href=\"#{name}\"/></svg>")
}

/// The stored checksums of a file: the first as text, all of them as a tooltip.
fn sums(stored: &[Checksum]) -> String {
    let stored: Vec<_> = stored.iter().map(|sum| (sum.algorithm().name(), sum.hex())).collect();
    let Some((name, first)) = stored.first() else { return String::new() };
    let all: Vec<_> = stored.iter().map(|(name, sum)| format!("{name} {sum}")).collect();
    format!("<span title=\"{}\">{name} <code>{first}</code></span>", all.join(", "))
}

impl Page {
    /// The path, with a link for each directory in it.
    fn crumbs(&self) -> String {
        let mut crumbs = "<a href=\"/\" aria-label=\"root\">/</a>".to_owned();
        let mut path = String::new();
        for name in self.place.path().split('/').filter(|name| !name.is_empty()) {
            path = join(&path, name);
            let _ = write!(crumbs, " <a href=\"{}\">{}</a> /", href(&path, true), escaped(name));
        }
        crumbs
    }
}

/// Escapes text for HTML and XML, also for attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// Formats a size for people, in powers of 1024.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(6);
    let unit = UNITS.get(power as usize - 1).copied().unwrap_or_default();
    // Tenths, in whole numbers: a unit is at most 2^60.
    let tenths = u128::from(bytes) * 10 / (1u128 << (10 * power));
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_600_000_000, "1.4 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escaped("<b a='\"&\"'>"), "&lt;b a=&#39;&quot;&amp;&quot;&#39;&gt;");
    }
}
