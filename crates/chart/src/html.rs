//! HTML pages, each in one file without scripts or links.

const STYLE: &str = "body{font:15px sans-serif;max-width:60em;margin:2em auto}td{padding:1px 8px}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}td.b{width:24em}\
    td.b div{background:#3b6ea5;height:1em}pre{font-size:13px;overflow-x:auto}";

/// A page with a title, `content` as HTML, and the report as text.
#[must_use]
pub fn page(title: &str, content: &str, report: &str) -> String {
    let title = escape(title);
    let report = escape(report);
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n{content}<pre>{report}</pre></html>\n"
    )
}

/// `text` with the special characters of HTML and SVG escaped.
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
