use super::*;
use hither_core::storage::check_path;
use http::header;
use proptest::prelude::*;

fn at(path: &str) -> PageUrl {
    PageUrl::new("data.example", path)
}

fn page_at(path: &str, text: &str) -> Option<AutoindexPage> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, "text/html; charset=utf-8".parse().unwrap());
    parse(&headers, text.as_bytes(), &at(path))
}

/// The entries of a page at `/d/` that has no gaps.
fn entries(text: &str) -> Vec<AutoindexEntry> {
    let page = page_at("/d/", text).unwrap();
    assert_eq!(page.gaps, [""; 0], "{text}");
    page.entries
}

fn listed(name: &str, directory: bool, size: Option<u64>) -> AutoindexEntry {
    AutoindexEntry { name: name.to_owned(), is_utf8: true, directory, size }
}

#[test]
fn the_page_of_nginx() {
    let text = "<html>\r\n<head><title>Index of /</title></head>\r\n<body>\r\n<h1>Index of /</h1><hr><pre>\
        <a href=\"../\">../</a>\r\n\
        <a href=\"d/\">d/</a>                 21-Nov-2026 15:20                   -\r\n\
        <a href=\"a%20%26%20b.root\">a &amp; b.root</a>    21-Nov-2026 15:20              100000\r\n\
        </pre><hr></body>\r\n</html>\r\n";
    assert_eq!(
        entries(text),
        [listed("a & b.root", false, Some(100_000)), listed("d", true, None)]
    );
}

/// Pages of other servers for a directory `/d/` with a file `a.root` and a directory `sub`.
const PAGES: [(&str, &str); 16] = [
    (
        "Apache",
        "<title>Index of /d</title><ul><li><a href=\"/\"> Parent Directory</a></li>\
         <li><a href=\"a.root\"> a.root</a></li><li><a href=\"sub/\"> sub/</a></li></ul>",
    ),
    (
        "Apache, fancy",
        "<title>Index of /d</title><table><tr><th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">\
         Last modified</a></th></tr><tr><td><a href=\"/\">Parent Directory</a></td></tr><tr><td>\
         <a href=\"a.root\">a.root</a></td><td align=\"right\">1.0K</td></tr>\
         <tr><td><a href=\"sub/\">sub/</a></td></tr></table>",
    ),
    (
        "lighttpd",
        "<title>Index of /d/</title><script type=\"text/javascript\">var x = '<a href=\"js\">';</script><table>\
         <tr class=\"d\"><td class=\"n\"><a href=\"../\">..</a>/</td></tr><tr class=\"d\"><td class=\"n\">\
         <a href=\"sub/\">sub</a>/</td></tr><tr><td class=\"n\"><a href=\"a.root\">a.root</a></td></tr></table>",
    ),
    (
        "Python",
        "<title>Directory listing for /d/</title><ul>\n<li><a href=\"a.root\">a.root</a></li>\n\
         <li><a href=\"sub/\">sub/</a></li></ul>",
    ),
    (
        "aiohttp",
        "<title>Index of /d</title><ul>\n<li><a href=\"/d/a.root\">a.root</a></li>\n\
         <li><a href=\"/d/sub\">sub/</a></li></ul>",
    ),
    (
        "Caddy",
        "<!DOCTYPE html><html><head><title>/d/</title><link rel=\"canonical\" href=\"/d/\"></head><body><h1>\
         <a href=\"/\">/</a><a href=\"/d/\">d</a></h1><a href=\"./?sort=name&order=desc\">Name</a><table>\
         <tr><td><a href=\"..\">Go up</a></td></tr><tr><td><a href=\"./a.root\">a.root</a></td></tr>\
         <tr><td><a href=\"./sub/\">sub</a></td></tr></table></body></html>",
    ),
    ("Go", "<pre>\n<a href=\"a.root\">a.root</a>\n<a href=\"sub/\">sub/</a>\n</pre>\n"),
    (
        "Jetty",
        "<TITLE>Directory: /d/</TITLE><TABLE><TR><TD><A HREF=\"/\">Parent Directory</A></TD></TR>\
         <tr><td><a href=\"/d/a.root\">a.root&nbsp;</a></td></tr><tr><td><a href=\"/d/sub/\">sub/</a></td></tr></table>",
    ),
    (
        "Tomcat",
        "<title>Directory Listing For [/d/]</title><table><tr><td><a href=\"/d/a.root\"><tt>a.root</tt></a></td></tr>\
         <tr><td><a href=\"/d/sub/\"><tt>sub/</tt></a></td></tr></table>",
    ),
    (
        "IIS",
        "<title>data.example - /d/</title><pre><A HREF=\"/\">[To Parent Directory]</A><br><br>\
         11/21/2026  3:20 PM  17 <A HREF=\"/d/a.root\">a.root</A><br>\
         11/21/2026  3:20 PM  &lt;dir&gt; <A HREF=\"/d/sub/\">sub</A><br></pre>",
    ),
    (
        "single quotes",
        "<title>Index of /d</title><pre><a href='a.root'>a.root</a><a class=x href = 'sub/'>sub/</a></pre>",
    ),
    (
        "no quotes",
        "<title>Index of /d</title><pre><a href=a.root>a</a> <A HREF=sub/>sub/</A></pre>",
    ),
    (
        "whole URLs",
        "<title>Index of /d</title><pre><a href=\"https://DATA.example:444/d/a.root\">a</a>\
         <a href=\"//data.example/d/sub/\">s</a> <a href=\"http://elsewhere.example/\">by us</a></pre>",
    ),
    (
        "comments",
        "<title>Index of /d</title><link rel=\"stylesheet\" href=\"style.css\"><!-- <a href=\"old\">old</a> -->\
         <style>a[href=\"x\"] { color: red }</style><pre><a href=\"a.root\">a</a><a href=\"sub/\">s</a></pre>",
    ),
    (
        "fragments and queries",
        "<title>Index of /d</title><pre><a href=\"a.root?download=1\">a.root</a><a href=\"sub/#top\">sub/</a>\
         <a href=\"#top\">up</a><a href=\"?C=N&amp;O=D\">Name</a></pre>",
    ),
    (
        "dot segments",
        "<title>Index of /d</title><pre><a href=\"././a.root\">a</a><a href=\"../d/sub/\">s</a></pre>",
    ),
];

#[test]
fn the_pages_of_all_servers_are_read() {
    for (server, text) in PAGES {
        let page = page_at("/d/", text).unwrap_or_else(|| panic!("{server}: no index"));
        assert_eq!(page.gaps, [""; 0], "{server}");
        let names: Vec<_> = page.entries.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, ["a.root", "sub"], "{server}");
        assert!(!page.entries[0].directory && page.entries[1].directory, "{server}");
    }
}

#[test]
fn the_page_of_an_old_caddy_has_the_name_of_the_directory_as_its_title() {
    let text = "<title>a d</title><body onload='initFilter()'><h1><a href=\"../\">/</a><a href=\"\">a d</a>/</h1>\
                <div class=\"listing\"><a href=\"?sort=name&order=asc\">Name</a><table><tr><td>\
                <a href=\"..\">Go up</a></td></tr><tr><td><a href=\"./a.root\">a.root</a></td></tr></table></div>";
    let parsed = |server: &'static str, path| {
        let fields = [(header::CONTENT_TYPE, "text/html"), (header::SERVER, server)];
        let headers = fields.map(|(name, value)| (name, value.parse().unwrap()));
        parse(&HeaderMap::from_iter(headers), text.as_bytes(), &at(path))
    };
    let page = parsed("Caddy", "/x/a%20d/").unwrap();
    assert_eq!((page.entries, page.gaps), (vec![listed("a.root", false, None)], vec![]));
    for (server, path) in [("nginx", "/x/a%20d/"), ("Caddy", "/x/b/")] {
        assert!(parsed(server, path).is_none(), "{server} {path}");
    }
}

#[test]
fn names_are_decoded_once() {
    for (reference, name) in [
        ("./run_2024-01-01T12:00:00.root", "run_2024-01-01T12:00:00.root"),
        ("x:y.root", "x:y.root"),
        ("x%3Ay.root", "x:y.root"),
        ("x%2541.root", "x%41.root"),
        ("a%26amp%3Bb", "a&amp;b"),
        ("r&#38;d", "r&d"),
        ("t&#x3a;x", "t:x"),
        ("Q&A", "Q&A"),
        ("a%23b", "a#b"),
        ("Now 100% better", "Now 100% better"),
        ("%zz", "%zz"),
        ("d%E4t", "d\u{fffd}t"),
        ("next%20year", "next year"),
    ] {
        let found = entries(&format!("<title>Index of /d</title><a href=\"{reference}\">x</a>"));
        let found: Vec<_> = found.iter().map(|entry| (&*entry.name, entry.is_utf8)).collect();
        assert_eq!(found, [(name, !name.contains('\u{fffd}'))], "{reference}");
    }
}

#[test]
fn a_name_may_be_that_of_a_link_to_a_further_page() {
    for name in ["next", "Next", "more"] {
        let text = format!("<title>Index of /d</title><pre><a href=\"{name}\">{name}</a></pre>");
        assert_eq!(entries(&text), [listed(name, false, None)]);
    }
}

#[test]
fn text_is_no_tag() {
    let text =
        "<title>Index of /d</title><pre>a < b <a href=\"x\">x</a> <3 <a href=\"y\">y</a></pre>";
    let names: Vec<_> = entries(text).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["x", "y"]);
}

#[test]
fn the_footer_of_a_root_is_no_name() {
    let text = "<title>Index of /</title><pre><a href=\"x\">x</a></pre><a href=\"https://caddyserver.com\">Caddy</a>\
        <a href=\"https://nginx.example/en/\">nginx</a>";
    let page = page_at("/", text).unwrap();
    assert_eq!((page.entries.len(), page.gaps), (1, vec![]));
}

#[test]
fn links_elsewhere_are_no_names() {
    let text = "<title>Index of x</title><a href=\"http://other/x\"></a><a href=\"//other/x\"></a><a href=\"..\"></a>\
        <a href=\"%2e%2e/\"></a><a href=\"../x\"></a><a href=\"\"></a><a href=\"/\"></a><a href=\"./\"></a>\
        <a href=\"mailto:x\"></a><a href=\"javascript:void(0)\"></a><a href=\"?C=M;O=A\"></a><a href=\"unended";
    assert_eq!(entries(text), []);
}

#[test]
fn what_may_hide_a_name_is_a_gap() {
    for part in [
        "<a href=\"?page=2\">2</a>",
        "<a href=\"?p=2\">2</a>",
        "<a href=\"/d/?offset=100\">100</a>",
        "<a href=\"/list/d/2\">Next</a>",
        "<a rel=\"next\" href=\"/list/d/2\">2</a>",
        "<link rel=next href=/list/d/2>",
        "<a href=\"a%2Fb\">a/b</a>",
        "<a href=\"a%00\">a</a>",
        "<a href=\"sub/x\">x</a>",
        "<a href=\"http://backend.example/d/x\">x</a>",
        "<a href=\"run#1\">run#1</a>",
        "<a href=\"run?1\">run?1</a>",
        "<a href=\"#1\">#1</a>",
        "<a href=\"get?id=1\">one.dat</a>",
        "<a href=\"/app/d/x\"><tt>x</tt></a><a href=\"/app/d/sub/\">sub/</a>",
        "<a href=\"/D/x\">x</a>",
        "<a href=\"../other/x\">x&nbsp;</a>",
        "<a href=\"entrcaf&eacute;eacute;e\">x</a>",
        "<base href=\"/real/\"><a href=\"x\">x</a>",
    ] {
        let page = page_at("/d/", &format!("<title>Index of /d</title><pre>{part}</pre>")).unwrap();
        assert_eq!(page.gaps.len(), 1, "{part}: {page:?}");
    }
    let many = "<a href=\"sub/x\">x</a>".repeat(100);
    let page = page_at("/d/", &format!("<title>Index of /d</title>{many}")).unwrap();
    assert_eq!(page.gaps.len(), MAX_GAPS + 1);
}

#[test]
fn a_list_without_links_is_not_an_empty_directory() {
    for text in ["<table><tr><td>a.root</td></tr></table>", "<script src=\"list.js\"></script>"] {
        let page = page_at("/d/", &format!("<title>Index of /d</title>{text}")).unwrap();
        assert_eq!((page.entries.len(), page.gaps.len()), (0, 1), "{text}");
    }
    let crumbs = "<a href=\"/\">/</a><a href=\"/d/\">d</a><a href=\"http://elsewhere/us\">us</a>";
    for text in ["<ul></ul>", "<pre></pre>", "<pre><a href=\"../\">../</a></pre>", crumbs] {
        assert_eq!(entries(&format!("<title>Index of /d</title>{text}")), [], "{text}");
    }
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
                    Just("&amp;".to_owned()), Just("'".to_owned()), ".{0,3}",
                ],
                0..6,
            ),
            0..8,
        ),
    ) {
        let links: String =
            links.iter().map(|parts| format!("<a href=\"{}\">", parts.concat())).collect();
        for entry in page_at("/d/", &format!("<title>Index of x</title>{links}")).unwrap().entries {
            prop_assert!(!entry.name.contains('/'), "{:?}", entry.name);
            prop_assert!(check_path(&entry.name).is_ok() && !entry.name.is_empty());
        }
    }

    #[test]
    fn any_page_is_read(text in "[<>a-zA-Z \"'=!/&#;-]{0,200}") {
        links(&text, &at("/d/"));
    }
}

#[test]
fn a_page_that_broke_off_is_not_whole() {
    let page = "<html><title>Index of /</title><pre><a href=\"a\">a</a> 1\r\n\
        <a href=\"b\">b</a> 2\r\n</pre></body></html>";
    let end = page.find("</pre>").unwrap() + "</pre>".len();
    for cut in 0..page.len() {
        assert_eq!(is_whole(&page.as_bytes()[..cut], true), cut >= end, "cut at {cut}");
        let is_end = cut == page.len();
        assert_eq!(is_whole(&page.as_bytes()[..cut], false), is_end, "no length, cut at {cut}");
    }
    for is_end_known in [false, true] {
        for (page, why) in [
            ("<title>Index of /</title><ul></ul>", "an empty directory"),
            ("<TITLE>Index of /</TITLE><PRE><A HREF=\"a\">a</A></PRE>", "upper case"),
        ] {
            assert!(is_whole(page.as_bytes(), is_end_known), "{why}");
        }
    }
}

#[test]
fn pages_without_an_index_are_not_listings() {
    let login = "<html><form action=\"/login\"><pre></pre><a href=\"x\">x</a></form></html>";
    for text in ["<html><title>Welcome</title><a href=\"x\">", "", login] {
        assert_eq!(page_at("/d/", text), None, "{text}");
    }
    assert_eq!(page_at("/", "<title>Welcome to /etc</title>"), None);
    assert_eq!(parse(&HeaderMap::new(), b"<title>Index of /</title>", &at("/")), None);
}
