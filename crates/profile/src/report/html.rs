//! Pages for people, each in one HTML file.

use super::Profile;
use crate::category::Category;
use std::fmt::Write;

const STYLE: &str = "body{font:15px sans-serif;max-width:60em;margin:2em auto}td{padding:1px 8px}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}td.b{width:24em}\
    td.b div{background:#3b6ea5;height:1em}pre{font-size:13px;overflow-x:auto}";

/// The beginning of a page with this title.
#[must_use]
pub fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n"
    )
}

/// The page with bars.
pub(super) fn page(profile: &Profile) -> String {
    let mut page = head(&profile.target) + "<table>\n";
    for category in Category::ALL {
        let share = profile.share(*category);
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<tr><td>{}<td class=\"n\">{share:.2}&nbsp;%<td class=\"b\"><div style=\"width:{share}%\"></div>",
            category.title(),
        );
    }
    let _ = writeln!(page, "</table>\n<pre>{}</pre></html>", escape(&profile.to_text()));
    page
}

/// Text as it stands in HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
