//! Metalink documents and header fields: those of the RFCs, those of tools, and garbage.

use hither_checksum::{Algorithm, Checksum};
use hither_http::metalink::{
    LOWEST_PRIORITY, Metalink, MetalinkError, MetalinkFile, MetalinkLimits, MetalinkUrl,
    describedby, duplicate, links,
};
use hither_http::{XmlError, digest};
use http::header::{HeaderMap, LINK};
use proptest::prelude::*;

fn parse(document: &str) -> Result<Metalink, MetalinkError> {
    Metalink::parse(document.as_bytes(), &MetalinkLimits::default())
}

const VERSION_4: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
  <generator>none</generator>
  <published>2026-05-15T12:23:23Z</published>
  <file name="example.ext">
    <size>14471447</size>
    <identity>Example</identity>
    <hash type="sha-256">f0ad929cd259957e160ea442eb80986b5f01ac1ab0f5f1ed5d7a8f4d3b2d4f3e</hash>
    <hash type="adler32">3da0195</hash>
    <hash type="whirlpool">00</hash>
    <pieces length="262144" type="sha-1"><hash>0000000000000000000000000000000000000000</hash></pieces>
    <url location="de" priority="2"> http://b.example/example.ext?x=1&amp;y=2 </url>
    <url>https://last.example/example.ext</url>
    <url location="Switzerland" priority="1">root://a.example//store/example.ext</url>
    <url priority="1">ftp://c.example/example.ext</url>
    <url priority="0">http://a2.example/example.ext</url>
    <metaurl mediatype="torrent" priority="1">http://d.example/example.ext.torrent</metaurl>
  </file>
  <file name="other/example2.ext"/>
</metalink>"#;

const VERSION_3: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<metalink version="3.0" xmlns="http://www.metalinker.org/" type="dynamic">
  <files><file name="/store/a.root"><size>400</size>
    <verification><hash type="md5">d41d8cd98f00b204e9800998ecf8427e</hash>
      <pieces length="10" type="md5"><hash piece="0">00000000000000000000000000000000</hash></pieces></verification>
    <resources>
      <url type="http" preference="10" location="us">http://far.example/a.root</url>
      <url type="xroot" preference="100">root://near.example//a.root</url>
    </resources></file></files></metalink>"#;

#[test]
fn version_4_is_read() {
    let metalink = parse(VERSION_4).unwrap();
    let file = metalink.file("example.ext").unwrap();
    assert_eq!(file.size, Some(14_471_447));
    let algorithms: Vec<_> = file.digests.iter().map(Checksum::algorithm).collect();
    assert_eq!(algorithms, [Algorithm::Sha256, Algorithm::Adler32]);
    assert_eq!(file.digests[1].value(), [0x03, 0xda, 0x01, 0x95]);
    let replicas: Vec<_> = file
        .replicas
        .iter()
        .map(|it| (it.url.as_str(), it.priority, it.location.as_deref()))
        .collect();
    assert_eq!(
        replicas,
        [
            ("root://a.example//store/example.ext", 1, None),
            ("http://a2.example/example.ext", 1, None),
            ("http://b.example/example.ext?x=1&y=2", 2, Some("de")),
            ("https://last.example/example.ext", LOWEST_PRIORITY, None),
        ]
    );
}

#[test]
fn version_3_is_read() {
    let metalink = parse(VERSION_3).unwrap();
    let file = metalink.file("a.root").unwrap();
    assert_eq!((file.name.as_str(), file.size), ("/store/a.root", Some(400)));
    let md5 = digest::from_text(Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!(Some(&file.digests[0]), md5.as_ref());
    assert_eq!(file.digests.len(), 1);
    let replicas: Vec<_> = file.replicas.iter().map(|it| (it.url.as_str(), it.priority)).collect();
    assert_eq!(replicas, [("root://near.example//a.root", 1), ("http://far.example/a.root", 91)]);
    assert_eq!(file.replicas[1].location.as_deref(), Some("us"));
}

#[test]
fn a_checksum_that_is_none_or_contradicts_another_is_refused() {
    let sha256 = "f0ad929cd259957e160ea442eb80986b5f01ac1ab0f5f1ed5d7a8f4d3b2d4f3e";
    let other = sha256.replace('f', "e");
    for (hashes, is_refused) in [
        (format!("<hash type=\"sha-256\">{}</hash>", &sha256[1..]), true),
        (format!("<hash type=\"sha-256\">{sha256}{sha256}</hash>"), true),
        ("<hash type=\"md5\">nonsense</hash>".to_owned(), true),
        ("<hash type=\"adler32\"></hash>".to_owned(), true),
        (
            format!("<hash type=\"sha256\">{sha256}</hash><hash type=\"sha-256\">{other}</hash>"),
            true,
        ),
        (
            format!("<hash type=\"sha256\">{sha256}</hash><hash type=\"sha-256\">{sha256}</hash>"),
            false,
        ),
        ("<hash type=\"whirlpool\">nonsense</hash>".to_owned(), false),
        ("<pieces length=\"1\" type=\"md5\"><hash>nonsense</hash></pieces>".to_owned(), true),
        ("<pieces length=\"0\" type=\"md5\"></pieces>".to_owned(), true),
        ("<pieces type=\"sha-256\"></pieces>".to_owned(), true),
        ("<pieces length=\"1\" type=\"whirlpool\"><hash>00</hash></pieces>".to_owned(), false),
    ] {
        let document = VERSION_4.replace("<hash type=\"whirlpool\">00</hash>", "");
        let start = document.find("<hash type=\"sha-256\"").unwrap();
        let end = document.find("<pieces").unwrap();
        let document = format!("{}{hashes}{}", &document[..start], &document[end..]);
        let parsed = parse(&document);
        let refused = matches!(parsed, Err(MetalinkError::BadDigest { .. }));
        assert_eq!((refused, parsed.is_ok()), (is_refused, !is_refused), "{hashes}");
        let unknown = parsed.is_ok_and(|it| it.files[0].has_unknown_digest);
        assert_eq!(unknown, hashes.contains("whirlpool"));
    }
}

#[test]
fn files_are_chosen_by_name() {
    let metalink = parse(VERSION_4).unwrap();
    let name = |asked: &str| metalink.file(asked).map(|file| file.name.as_str());
    assert_eq!(name("example.ext"), Some("example.ext"));
    assert_eq!(name("/deep/example.ext"), Some("example.ext"));
    assert_eq!(name("example2.ext"), Some("other/example2.ext"));
    assert_eq!(name("example3.ext"), None);
    assert_eq!(parse(VERSION_3).unwrap().file("whatever").unwrap().size, Some(400));
    let twice = VERSION_4.replace("other/example2.ext", "x/example.ext");
    let twice = parse(&twice.replace("\"example.ext\"", "\"y/example.ext\"")).unwrap();
    assert_eq!(twice.file("example.ext"), None);
    assert_eq!(twice.file("x/example.ext").unwrap().name, "x/example.ext");
}

#[test]
fn documents_stay_within_bounds() {
    let mut bounds = MetalinkLimits::default();
    bounds.max_replicas = 2;
    let metalink = Metalink::parse(VERSION_4.as_bytes(), &bounds).unwrap();
    assert_eq!(metalink.files[0].replicas.len(), 2);
    bounds.max_files = 1;
    let refused = Metalink::parse(VERSION_4.as_bytes(), &bounds);
    assert_eq!(refused, Err(MetalinkError::TooMany { most: 1 }));
    bounds.max_bytes = 10;
    let refused = Metalink::parse(VERSION_4.as_bytes(), &bounds);
    assert_eq!(refused, Err(XmlError::TooLarge { bytes: VERSION_4.len(), most: 10 }.into()));
    let open = "<files xmlns=\"urn:ietf:params:xml:ns:metalink\">";
    let deep =
        format!("<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">{}", open.repeat(50_000));
    assert_eq!(parse(&deep), Err(XmlError::TooDeep { most: 32 }.into()));
}

#[test]
fn what_is_no_metalink_is_refused() {
    let refused = |seen: &str| Err(MetalinkError::NotMetalink { seen: seen.into() });
    assert_eq!(parse(""), refused(""));
    assert_eq!(parse("<html/>"), refused("html"));
    assert_eq!(parse("<metalink/>"), refused("metalink"));
    let entity = "<!DOCTYPE m [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>\
        <metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"><url>http://&e;/</url></file></metalink>";
    assert_eq!(parse(entity), Err(XmlError::Reference { name: "e".into() }.into()));
    for end in 0..VERSION_4.len() {
        assert!(parse(&VERSION_4[..end]).is_err(), "{end}");
    }
}

fn header(values: &[&str]) -> HeaderMap {
    values.iter().map(|value| (LINK, value.parse().unwrap())).collect()
}

/// The example of RFC 6249 section 1.1, and what may come beside it.
#[test]
fn header_fields_are_read() {
    let found = links(&header(&[
        "<http://www2.example.com/example.ext>; rel=duplicate; pri=2; pref, \
         <ftp://ftp.example.com/example.ext>; rel=duplicate",
        "<http://example.com/example.ext.torrent>; rel=describedby; type=\"application/x-bittorrent\"",
        "<http://example.com/example.ext.meta4>; rel=describedby; type=\"application/metalink4+xml\"",
        "<http://example.com/example.ext.asc>; rel=describedby; type=\"application/pgp-signature\"",
        "</style.css>; rel=preload",
        "<http://x.example/a,b;c?d=\"e>;REL=\"prev Duplicate\" ; GEO=CH; pri=1; rel=other",
        "<../copy/example.ext>; rel=duplicate; pri=7",
    ]));
    let replicas: Vec<_> = found
        .replicas
        .iter()
        .map(|it| (it.url.as_str(), it.priority, it.location.as_deref()))
        .collect();
    assert_eq!(
        replicas,
        [
            ("http://x.example/a,b;c?d=\"e", 1, Some("ch")),
            ("http://www2.example.com/example.ext", 2, None),
            ("../copy/example.ext", 7, None),
        ]
    );
    assert_eq!(found.documents, ["http://example.com/example.ext.meta4"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_header_field_is_survived(value in "[ -~]{0,120}") {
        let _ = links(&header(&[&value]));
    }

    #[test]
    fn shuffled_links_are_survived(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "http://a/b", ";", "rel", "=", "duplicate", "\"", ",", "\\", " ", "pri=3", "geo=ch", "x",
        ]), 0..30),
    ) {
        let _ = links(&header(&[&pieces.concat()]));
    }

    #[test]
    fn a_written_document_is_read_back(
        name in "[a-z&<>\"' äö/]{1,20}",
        size in any::<u64>(),
        replicas in prop::collection::vec((1_u32..1_000_000, "[a-z0-9.]{1,10}", "[a-z&<%?=]{0,20}"), 0..10),
    ) {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let urls: Vec<_> = replicas.iter().map(|(priority, host, path)| (*priority, format!("http://{host}/{path}"))).collect();
        let written: String = urls.iter()
            .map(|(priority, url)| format!("<m:url priority='{priority}'>{}</m:url>", escape(url)))
            .collect();
        let document = format!(
            "<m:metalink xmlns:m='urn:ietf:params:xml:ns:metalink'><m:file name=\"{}\"><m:size>{size}</m:size>{written}</m:file></m:metalink>",
            escape(&name)
        );
        let metalink = parse(&document).unwrap();
        let file = &metalink.files[0];
        prop_assert_eq!((&file.name, file.size), (&name, Some(size)));
        let mut expected = urls;
        expected.sort_by_key(|(priority, _)| *priority);
        let found: Vec<_> = file.replicas.iter().map(|it| (it.priority, it.url.clone())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn damaged_documents_are_survived(at in 0..VERSION_4.len(), byte in any::<u8>(), version_4 in any::<bool>()) {
        let mut damaged = if version_4 { VERSION_4 } else { VERSION_3 }.as_bytes().to_vec();
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        let _ = Metalink::parse(&damaged, &MetalinkLimits::default());
    }
}

proptest! {
    #[test]
    fn a_document_comes_out_as_it_went_in(
        name in "[ -~é<&>\"']{1,20}",
        size in any::<Option<u64>>(),
        paths in prop::collection::vec("[!-~é]{0,20}", 0..5),
        sum in any::<Option<[u8; 4]>>(),
    ) {
        let mut file = MetalinkFile::default();
        (file.name, file.size) = (name, size);
        file.digests.extend(sum.map(|sum| Checksum::new(Algorithm::Adler32, &sum).unwrap()));
        let replicas = paths.into_iter().zip(1..).map(|(path, priority)| {
            let location = (priority == 1).then(|| "ch".to_owned());
            MetalinkUrl { url: format!("https://a.example/{path}"), priority, location }
        });
        file.replicas = replicas.collect();
        let metalink = Metalink { files: vec![file] };
        prop_assert_eq!(parse(&metalink.to_document()), Ok(metalink));
    }

    #[test]
    fn fields_come_out_as_they_went_in(path in "[!-~]{0,20}", priority in 1..LOWEST_PRIORITY) {
        let url = format!("https://a.example/{}", path.replace(['<', '>', '"'], ""));
        let mut headers = HeaderMap::new();
        headers.append(LINK, duplicate(&url, priority).parse().unwrap());
        headers.append(LINK, describedby("/f?metalink").parse().unwrap());
        let links = links(&headers);
        prop_assert_eq!(&links.replicas[0].url, &url);
        prop_assert_eq!(links.replicas[0].priority, priority);
        prop_assert_eq!(links.documents, ["/f?metalink"]);
    }
}
