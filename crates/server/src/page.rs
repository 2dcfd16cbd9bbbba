//! A directory as a page for people.

use crate::answer::Answer;
use crate::body::{Body, Supplied};
use crate::iso_date;
use crate::listing::{Form, Listing};
use crate::place::{Place, href};
use crate::refusal::Refusal;
use crate::site::{Call, Site};
use crate::sums;
use crate::tree::{Kind, Meta, Tree};
use hither_core::checksum::Algorithm;
use hither_core::storage::below;
use http::{Method, StatusCode, header};
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.2rem;font-weight:600;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #8883}\
th{font-weight:500;opacity:.7}\
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.s{font-family:ui-monospace,monospace;font-size:.85em;opacity:.7}\
a{text-decoration:none;overflow-wrap:anywhere}a:hover{text-decoration:underline}";

/// A name that does not work as long as the page runs nothing and loads nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(crate) async fn answer(site: &Site, call: &Call) -> Result<Answer, Refusal> {
    let (path, most) = (call.place.path().to_owned(), site.limits().names);
    let names = site.disk.run(move |tree| tree.names(&path, most)).await?;
    if names.len() > most {
        let what = format!("the directory has more than {most} names: too many for a page");
        return Err(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, what));
    }
    let mut answer = Answer::empty(StatusCode::OK)
        .with(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(header::CACHE_CONTROL, "no-cache");
    if call.method == Method::GET {
        let view = site.view(call);
        let paths = names.iter().map(|name| call.place.join(name));
        let paths = paths.filter(|path| view.shows(path)).collect();
        let listing = Listing::new(site.disk.tree(), Page { place: call.place.clone() }, paths);
        answer.body = Body::Supplied(Supplied::new(Box::new(listing), None, &site.memory));
    }
    Ok(answer)
}

#[derive(Debug)]
struct Page {
    place: Place,
}

// Writing to a String can't fail.
impl Form for Page {
    fn head(&mut self, out: &mut String) {
        let title = escaped(&self.place.to_string());
        let _ = write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
             <style>{STYLE}</style></head>\n<body><h1>{}</h1>\n<table>\n\
             <tr><th>Name</th><th class=\"n\">Size</th><th class=\"n\">Changed</th><th>adler32</th></tr>\n",
            self.crumbs()
        );
        if let Some((parent, _)) = self.place.split() {
            let _ = writeln!(
                out,
                "<tr><td><a href=\"{}\">..</a></td><td></td><td></td><td></td></tr>",
                href(parent, true)
            );
        }
    }

    fn name(&mut self, tree: &Tree, path: &str, meta: &Meta, out: &mut String) {
        let is_directory = meta.kind == Kind::Directory;
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let (link, slash) = (href(path, is_directory), if is_directory { "/" } else { "" });
        let date = iso_date::format(meta.modified).replace('T', " ");
        let date = date.trim_end_matches('Z');
        let (size, exact, sum) = match is_directory {
            true => (String::new(), String::new(), String::new()),
            false => {
                let exact = format!(" title=\"{} bytes\"", meta.size);
                let sum = sums::noted_at(tree, path, meta, Algorithm::Adler32);
                (human(meta.size), exact, sum.map(|sum| sum.hex()).unwrap_or_default())
            }
        };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"{link}\">{}{slash}</a></td><td class=\"n\"{exact}>{size}</td>\
             <td class=\"n\">{date}</td><td class=\"s\">{sum}</td></tr>",
            escaped(name)
        );
    }

    fn end(&mut self, out: &mut String) {
        out.push_str("</table></body></html>\n");
    }
}

impl Page {
    /// The path, every directory of it a link.
    fn crumbs(&self) -> String {
        let mut crumbs = "<a href=\"/\">/</a>".to_owned();
        let mut path = String::new();
        for name in self.place.path().split('/').filter(|name| !name.is_empty()) {
            path = below(&path, name);
            let _ = write!(crumbs, " <a href=\"{}\">{}</a> /", href(&path, true), escaped(name));
        }
        crumbs
    }
}

/// As text or as the value of an attribute, in HTML and XML.
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

/// A size for people, in powers of 1024.
fn human(bytes: u64) -> String {
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
