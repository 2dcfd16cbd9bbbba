//! Listings of the mock WebDAV server: bodies of status 207, and HTML indexes.

use super::behaviour::{ReadFault, StatedSizes};
use super::message::{Response, encoded};

/// A name of a listing.
#[derive(Debug)]
pub(super) struct ListedName {
    pub(super) path: String,
    pub(super) tag: Option<String>,
    pub(super) date: Option<String>,
    /// The size; none for a directory.
    pub(super) size: Option<u64>,
}

/// A listing. The first name is the listed resource; the others are its members.
pub(super) fn multistatus(
    names: &[ListedName],
    sizes: StatedSizes,
    fault: Option<&ReadFault>,
) -> Response {
    let has_members = names.len() > 1;
    let mut responses = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let is_last = has_members && number + 1 == names.len();
        match fault {
            Some(ReadFault::Omits) if is_last => {}
            Some(ReadFault::Refuses(status)) if is_last => {
                responses.push(refused(&name.path, *status));
            }
            _ => responses.push(properties(name, sizes, fault)),
        }
    }
    if fault == Some(&ReadFault::Insufficient) {
        let directory = names.first().map_or("", |it| &*it.path);
        responses.pop();
        responses.push(refused(directory, 507));
    }
    let body = format!(
        "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{}</D:multistatus>",
        responses.concat()
    );
    Response::page(207, "application/xml", &body)
}

fn refused(path: &str, status: u16) -> String {
    let href = encoded(path);
    format!(
        "<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 {status} Status</D:status></D:response>"
    )
}

fn properties(name: &ListedName, sizes: StatedSizes, fault: Option<&ReadFault>) -> String {
    let size = name.size.filter(|_| sizes == StatedSizes::Always).and_then(|size| match fault {
        Some(ReadFault::NoSizes) => None,
        Some(ReadFault::ZeroSizes) => Some(0),
        Some(ReadFault::WrongSizes(more)) => Some(size + more),
        _ => Some(size),
    });
    let element = |name: &str, value: Option<String>| {
        value.map(|it| format!("<D:{name}>{it}</D:{name}>")).unwrap_or_default()
    };
    let kind = if name.size.is_none() { "<D:collection/>" } else { "" };
    format!(
        "<D:response><D:href>{}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>{}{}{}\
         </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
        encoded(&name.path),
        element("getcontentlength", size.map(|size| size.to_string())),
        element("getetag", name.tag.clone().filter(|_| name.size.is_some())),
        element("getlastmodified", name.date.clone()),
    )
}

/// An HTML index of a directory, which omits names that begin with a dot.
pub(super) fn index(names: &[ListedName], fault: Option<&ReadFault>) -> Response {
    let directory = names.first().map_or("", |it| &*it.path);
    let shown = |it: &&ListedName| !it.path.trim_start_matches(directory).starts_with('.');
    let members: Vec<_> = names.iter().skip(1).filter(shown).collect();
    let is_omitted = fault == Some(&ReadFault::Omits);
    let count = members.len().saturating_sub(usize::from(is_omitted));
    let links: String = members
        .iter()
        .take(count)
        .map(|it| {
            let name = it.path.strip_prefix(directory).unwrap_or_default();
            format!("<a href=\"./{0}\">{0}</a>\n", encoded(name))
        })
        .collect();
    let body = format!(
        "<html><head><title>Index of {directory}</title></head><body><pre><a href=\"../\">../</a>\n{links}</pre></body></html>"
    );
    Response::page(200, "text/html", &body)
}
