//! The mock server over S3.

use super::answers::Site;
use super::behaviour::ReadFault;
use super::message::{Request, Response, decoded};
use std::collections::BTreeSet;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Site {
    pub(super) fn carry_out_s3(
        &mut self,
        path: &str,
        request: &Request,
        fault: Option<&ReadFault>,
    ) -> Response {
        let is_there = self.resources.get(path).is_some_and(|it| it.bytes.is_some());
        match &*request.method {
            "GET" if request.parameter("list-type").is_some() => self.list_objects(path, request),
            "GET" | "HEAD" if is_there => self.read(path, request, fault),
            "PUT" => self.put_object(path, is_there, request),
            // A missing object is not an error.
            "DELETE" => {
                if request.field("if-match").is_some_and(|tag| !self.has_tag(path, tag)) {
                    return Response::plain(412);
                }
                self.remove(path);
                Response::plain(204)
            }
            "GET" | "HEAD" => Response::plain(404),
            _ => Response::plain(501),
        }
    }

    fn put_object(&mut self, path: &str, is_there: bool, request: &Request) -> Response {
        if request.field("if-match").is_some_and(|tag| !self.has_tag(path, tag))
            || request.field("if-none-match").is_some() && is_there
        {
            return Response::plain(412);
        }
        let Some(source) = request.field("x-amz-copy-source") else {
            self.insert(path, Some(request.body.clone()));
            let fields = format!("ETag: {}\r\n", self.tag(path).unwrap_or_default());
            return Response::new(200, fields, Vec::new());
        };
        let source = decoded(&format!("/{}", source.trim_start_matches('/')));
        let condition = request.field("x-amz-copy-source-if-match");
        if condition.is_some_and(|tag| !self.has_tag(&source, tag)) {
            return Response::plain(412);
        }
        let Some(bytes) = self.resources.get(&source).and_then(|it| it.bytes.clone()) else {
            return Response::plain(404);
        };
        self.insert(path, Some(bytes));
        let tag = self.tag(path).unwrap_or_default();
        let body = format!("<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>");
        Response::page(200, "application/xml", &body)
    }

    fn list_objects(&self, bucket: &str, request: &Request) -> Response {
        let bucket = format!("{}/", bucket.trim_end_matches('/'));
        let prefix = request.parameter("prefix").unwrap_or_default();
        let delimiter = request.parameter("delimiter").filter(|it| !it.is_empty());
        let mut prefixes = BTreeSet::new();
        let mut body = format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Name>{}</Name><Prefix>{prefix}</Prefix>",
            bucket.trim_matches('/')
        );
        for (path, resource) in &self.resources {
            let Some((key, bytes)) = path.strip_prefix(&*bucket).zip(resource.bytes.as_ref())
            else {
                continue;
            };
            let Some(rest) = key.strip_prefix(&*prefix) else { continue };
            let folder = delimiter.as_ref().and_then(|it| rest.split_once(&**it));
            if let Some((folder, _)) = folder {
                prefixes.insert(format!("{prefix}{folder}/"));
                continue;
            }
            body += &format!(
                "<Contents><Key>{key}</Key><LastModified>{}</LastModified><ETag>{}</ETag>\
                 <Size>{}</Size></Contents>",
                self.date(path).map(|date| iso(&date)).unwrap_or_default(),
                self.tag(path).unwrap_or_default().replace('"', "&quot;"),
                bytes.len()
            );
        }
        for prefix in prefixes {
            body += &format!("<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>");
        }
        body += "<IsTruncated>false</IsTruncated></ListBucketResult>";
        Response::page(200, "application/xml", &body)
    }
}

/// A date of HTTP in the form of ISO 8601.
fn iso(date: &str) -> String {
    let words: Vec<_> = date.split(' ').collect();
    let [_, day, month, year, time, _] = words[..] else { return String::new() };
    let month = MONTHS.iter().position(|it| *it == month).unwrap_or_default() + 1;
    format!("{year}-{month:02}-{day}T{time}Z")
}
