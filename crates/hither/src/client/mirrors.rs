//! Replicas that the user has configured.

use hither_transport::http_form;

/// A rule: every file below `prefix` has replicas below each of `elsewhere`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// The beginning of a URL, up to the end of a path component; or a whole URL.
    pub prefix: String,
    /// The prefixes of the replicas, the best first.
    pub elsewhere: Vec<String>,
}

/// The replica rules of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors(Vec<Mirror>);

impl Mirrors {
    /// Adds a rule.
    pub fn add(&mut self, mirror: Mirror) {
        self.0.push(mirror);
    }

    /// The URLs of the replicas of the file at `url`, in the order of the rules.
    ///
    /// ```
    /// use hither::{Mirror, Mirrors};
    /// let mut mirrors = Mirrors::default();
    /// let prefix = "http://a/data/".to_owned();
    /// mirrors.add(Mirror { prefix, elsewhere: vec!["http://b/copy/".to_owned()] });
    /// assert_eq!(mirrors.of("http://a/data/run1.root"), ["http://b/copy/run1.root"]);
    /// assert_eq!(mirrors.of("dav://a/data/run1.root"), ["http://b/copy/run1.root"]);
    /// assert!(mirrors.of("http://a/database").is_empty());
    /// ```
    #[must_use]
    pub fn of(&self, url: &str) -> Vec<String> {
        let mut found = Vec::new();
        let url = http_form(url);
        for Mirror { prefix, elsewhere } in &self.0 {
            let Some(rest) = url.strip_prefix(&*http_form(prefix)) else { continue };
            let at_border =
                prefix.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?']);
            if at_border {
                found.extend(elsewhere.iter().map(|base| format!("{base}{rest}")));
            }
        }
        found
    }
}
