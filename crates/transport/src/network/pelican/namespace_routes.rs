//! The servers of namespaces, from the answers of directors.

use crate::location::Location;
use hither_http::metalink::MetalinkLinks;
use http::Method;
use percent_encoding::percent_decode_str;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which an answer is kept, as by Pelican's own client.
const KEEP: Duration = Duration::from_secs(5 * 60);
/// Maximum number of answers that are kept; the oldest is forgotten first.
const MAX_ROUTES: usize = 1_000;
/// Maximum number of servers that are kept of an answer; directors name six.
const MAX_SERVERS: usize = 20;

/// Answers of directors.
#[derive(Debug, Default)]
pub(crate) struct NamespaceRoutes {
    /// The oldest first.
    routes: Vec<NamespaceRoute>,
}

/// An answer.
#[derive(Debug)]
struct NamespaceRoute {
    key: RouteKey,
    /// The namespace, absolute and without a slash at the end.
    prefix: String,
    /// The servers by the root of their URLs, and the path there that the path of a file follows.
    servers: Vec<(Location, String)>,
    until: Instant,
}

/// The key of an answer besides the namespace: federation, method and query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RouteKey {
    federation: String,
    method: Method,
    query: String,
}

impl RouteKey {
    fn of(location: &Location, method: &Method) -> Self {
        // Both go to caches.
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        let target = location.target();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        Self { federation: location.original_origin().to_string(), method, query: query.to_owned() }
    }
}

impl NamespaceRoutes {
    /// The URLs of a file at the servers of its namespace, best first.
    pub(super) fn servers(&self, named: &Location, method: &Method, now: Instant) -> Vec<Location> {
        let path = decoded(named.path());
        let Some(route) = self.position(named, method, &path).and_then(|at| self.routes.get(at))
        else {
            return Vec::new();
        };
        if now >= route.until {
            return Vec::new();
        }
        let is_directory = path.ends_with('/');
        let at =
            |(root, base): &(Location, String)| root.below(&format!("{base}{path}"), is_directory);
        route.servers.iter().map(at).collect()
    }

    /// Keeps the servers that a director named for its URL of a file.
    pub(super) fn learn(
        &mut self,
        director: &Location,
        method: &Method,
        to: &Location,
        links: &MetalinkLinks,
        now: Instant,
    ) {
        let Some(namespace) = to.namespace() else { return };
        let path = decoded(director.path());
        if !namespace.holds(path.trim_end_matches('/')) {
            return;
        }
        let linked = links.replicas.iter().filter_map(|link| to.beside(&link.url).ok());
        let mut servers: Vec<_> =
            linked.take(MAX_SERVERS).filter_map(|server| root_and_base(&server, &path)).collect();
        if servers.is_empty() {
            servers.extend(root_and_base(to, &path));
        }
        let key = RouteKey::of(director, method);
        self.routes.retain(|it| now < it.until && (it.key != key || it.prefix != namespace.path));
        if servers.is_empty() {
            return;
        }
        if self.routes.len() >= MAX_ROUTES {
            self.routes.remove(0);
        }
        let prefix = namespace.path.clone();
        self.routes.push(NamespaceRoute { key, prefix, servers, until: now + KEEP });
    }

    /// Forgets the servers of the namespace of a file.
    pub(super) fn forget(&mut self, named: &Location, method: &Method) {
        if let Some(at) = self.position(named, method, &decoded(named.path())) {
            self.routes.remove(at);
        }
    }

    /// The route of the deepest namespace that a path is in.
    fn position(&self, named: &Location, method: &Method, path: &str) -> Option<usize> {
        let key = RouteKey::of(named, method);
        let holds = |route: &NamespaceRoute| {
            let rest = path.strip_prefix(&*route.prefix);
            route.key == key && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let held = self.routes.iter().enumerate().filter(|(_, route)| holds(route));
        held.max_by_key(|(_, route)| route.prefix.len()).map(|(at, _)| at)
    }
}

/// The root of a server and its path before that of the file; `None` if its URL does not end with
/// the path of the file.
fn root_and_base(server: &Location, path: &str) -> Option<(Location, String)> {
    let there = decoded(server.path());
    let base = there.trim_end_matches('/').strip_suffix(path.trim_end_matches('/'))?;
    let root = server.root();
    // The query of a redirect is for one file.
    Some((root.without_query(), base.to_owned()))
}

fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hither_http::metalink::links;
    use hither_http::{PelicanNamespace, pelican::NAMESPACE};
    use http::HeaderMap;

    fn named(path: &str) -> Location {
        Location::parse(&format!("pelican://fed.example{path}")).unwrap()
    }

    /// Keeps an answer to a GET for `path` of the namespace /ns, from a cache at `base`.
    fn learned(path: &str, base: &str) -> NamespaceRoutes {
        let director = named(path).at_director("https://director.example").unwrap();
        let field = "namespace=/ns, require-token=false".parse().unwrap();
        let headers = HeaderMap::from_iter([(NAMESPACE.parse().unwrap(), field)]);
        let namespace = PelicanNamespace::of(&headers);
        let end = path.split('?').next().unwrap();
        let to = director.at_server(&format!("{base}{end}?for=this"), namespace, &Method::GET);
        let link = format!(
            "<https://far.example:8443{end}>; rel=duplicate; pri=2, <{base}{end}>; rel=\"duplicate\"; pri=1; depth=1"
        );
        let headers = HeaderMap::from_iter([(http::header::LINK, link.parse().unwrap())]);
        let mut routes = NamespaceRoutes::default();
        routes.learn(&director, &Method::GET, &to.unwrap(), &links(&headers), Instant::now());
        routes
    }

    fn found(routes: &NamespaceRoutes, path: &str, method: &Method) -> Vec<String> {
        let servers = routes.servers(&named(path), method, Instant::now());
        servers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_answer_is_used_for_its_namespace_method_and_query_only() {
        let routes = learned("/ns/a%20b/f", "https://cache.example/data");
        let other = ["https://cache.example/data/ns/d/", "https://far.example:8443/ns/d/"];
        // The second server has another base: each keeps its own.
        assert_eq!(found(&routes, "/ns/d/", &Method::GET), other);
        assert_eq!(
            found(&routes, "/ns/x%25y", &Method::HEAD),
            ["https://cache.example/data/ns/x%25y", "https://far.example:8443/ns/x%25y"]
        );
        for (path, method) in [
            ("/nsx/f", Method::GET),
            ("/other", Method::GET),
            ("/ns/f", Method::PUT),
            ("/ns/f?directread", Method::GET),
        ] {
            assert!(found(&routes, path, &method).is_empty(), "{method} {path}");
        }
        let elsewhere = Location::parse("pelican://fed2.example/ns/f").unwrap();
        assert!(routes.servers(&elsewhere, &Method::GET, Instant::now()).is_empty());
    }

    #[test]
    fn an_answer_expires_and_can_be_forgotten() {
        let mut routes = learned("/ns/f", "https://cache.example");
        assert!(routes.servers(&named("/ns/g"), &Method::GET, Instant::now() + KEEP).is_empty());
        assert_eq!(found(&routes, "/ns/g", &Method::GET).len(), 2);
        routes.forget(&named("/ns/g"), &Method::GET);
        assert!(found(&routes, "/ns/g", &Method::GET).is_empty());
    }

    #[test]
    fn an_answer_for_other_files_than_the_requested_one_is_not_kept() {
        let routes = learned("/elsewhere/f", "https://cache.example");
        assert!(found(&routes, "/ns/f", &Method::GET).is_empty());
        assert!(found(&routes, "/elsewhere/f", &Method::GET).is_empty());
    }
}
