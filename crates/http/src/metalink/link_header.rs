//! Metalink in header fields (RFC 6249): `Link` fields, parsed leniently by RFC 8288 section 3.

use super::{
    LOWEST_PRIORITY, MEDIA_TYPE, MEDIA_TYPE_3, MetalinkUrl, country, is_readable, priority, scheme,
};
use crate::field::{list_items, parameters};
use crate::text::trim;
use http::HeaderMap;
use http::header::LINK;

/// Maximum number of links read from a response; its header has room for some thousand.
const MAX_LINKS: usize = 200;

/// The `Link` fields of a response about the requested file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalinkLinks {
    /// `rel=duplicate`: the replicas, best first. URLs may be relative to the requested one.
    pub replicas: Vec<MetalinkUrl>,
    /// `rel=describedby`: Metalink documents, in the given order; URLs may be relative too.
    pub documents: Vec<String>,
}

impl MetalinkLinks {
    /// Links to these replicas, the best first.
    pub fn of_replicas(urls: impl Iterator<Item = String>) -> Self {
        let replica = |(url, priority)| MetalinkUrl { url, priority, location: None };
        Self { replicas: urls.zip(1..).map(replica).collect(), documents: Vec::new() }
    }

    /// The same links, with absolute URLs: `resolve` makes a relative URL absolute, or drops it.
    #[must_use]
    pub fn resolved(mut self, resolve: impl Fn(&str) -> Option<String>) -> Self {
        let absolute = |url: &str| match scheme(url) {
            Some(_) => Some(url.to_owned()),
            None => resolve(url),
        };
        let replicas = self.replicas.into_iter();
        self.replicas =
            replicas.filter_map(|it| Some(MetalinkUrl { url: absolute(&it.url)?, ..it })).collect();
        self.documents = self.documents.iter().filter_map(|url| absolute(url)).collect();
        self
    }
}

/// Parses the `Link` fields of a response. Skips invalid ones.
///
/// ```
/// use http::{HeaderMap, header::LINK};
/// let mut headers = HeaderMap::new();
/// headers.append(LINK, "<http://b.example/f>; rel=duplicate; pri=2; geo=de".parse()?);
/// headers.append(LINK, "<http://a.example/f>;rel=\"duplicate\";pri=1".parse()?);
/// let links = hither_http::metalink::links(&headers);
/// assert_eq!(links.replicas[0].url, "http://a.example/f");
/// assert_eq!(links.replicas[1].location.as_deref(), Some("de"));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn links(headers: &HeaderMap) -> MetalinkLinks {
    let mut found = MetalinkLinks::default();
    for link in all_links(headers) {
        let usable = scheme(&link.target).is_none() || is_readable(&link.target);
        if link.is("duplicate") && usable {
            found.replicas.push(MetalinkUrl {
                url: link.target,
                priority: link.priority.unwrap_or(LOWEST_PRIORITY),
                location: link.location,
            });
        } else if link.is("describedby") && usable && link.is_metalink {
            found.documents.push(link.target);
        }
    }
    found.replicas.sort_by_key(|replica| replica.priority);
    found
}

/// Returns true if a `Link` field leads to a next page (`rel=next`, RFC 8288): what the response
/// lists is not all.
#[must_use]
pub fn has_next_page(headers: &HeaderMap) -> bool {
    all_links(headers).any(|link| link.is("next"))
}

fn all_links(headers: &HeaderMap) -> impl Iterator<Item = Link> {
    let values = headers.get_all(LINK).into_iter();
    let items = values.flat_map(|value| list_items(value.as_bytes()));
    items.take(MAX_LINKS).filter_map(Link::parse)
}

/// One link.
#[derive(Debug)]
struct Link {
    target: String,
    /// Relations, in lower case. `None` if there is no `rel`.
    relations: Option<String>,
    priority: Option<u32>,
    location: Option<String>,
    is_metalink: bool,
}

impl Link {
    /// `<target>; name=value; …`
    fn parse(item: &[u8]) -> Option<Self> {
        let inner = item.strip_prefix(b"<")?;
        let end = inner.iter().position(|byte| *byte == b'>')?;
        let target = std::str::from_utf8(trim(inner.get(..end)?)).ok()?.to_owned();
        let is_reference =
            !target.is_empty() && !target.contains(|c: char| c.is_control() || c == ' ');
        let mut link = Self {
            target: is_reference.then_some(target)?,
            relations: None,
            priority: None,
            location: None,
            is_metalink: false,
        };
        for (name, value) in parameters(inner.get(end..)?) {
            let Ok(value) = String::from_utf8(value) else { continue };
            match name.to_ascii_lowercase().as_slice() {
                // The first one applies (RFC 8288 section 3.3).
                b"rel" if link.relations.is_none() => {
                    link.relations = Some(value.to_ascii_lowercase());
                }
                b"pri" => link.priority = Some(priority(Some(&value))),
                b"geo" => link.location = country(Some(&value)),
                b"type" => {
                    let media_type = value.trim();
                    link.is_metalink = [MEDIA_TYPE, MEDIA_TYPE_3]
                        .iter()
                        .any(|known| media_type.eq_ignore_ascii_case(known));
                }
                _ => {}
            }
        }
        Some(link)
    }

    fn is(&self, relation: &str) -> bool {
        self.relations.iter().any(|all| all.split_ascii_whitespace().any(|it| it == relation))
    }
}
