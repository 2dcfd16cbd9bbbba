//! Meaning of a scope: the rules of WLCG and SciTokens.
//!
//! A scope is a list of words. A word is an ability and, after a colon, the path to which it
//! applies:
//!
//! | word | allows |
//! |---|---|
//! | `storage.read:/p` | read, list |
//! | `storage.create:/p` | new files and folders; not to overwrite or remove |
//! | `storage.modify:/p` | all that create allows, overwrite, rename, remove |
//! | `storage.stage:/p` | all that read allows, bring from tape |
//! | `read:/p`, `write:/p` | SciTokens: read, list; create, modify. Without a path: everything |
//!
//! A path covers itself and everything below it, by whole components: `/a` covers `/a` and `/a/b`,
//! not `/ab`. A `storage.*` word without a path is invalid (WLCG profile; servers that interpreted
//! it as `/` had to be corrected).
//!
//! Paths are relative to a folder that the *server* has configured for the issuer. A client does
//! not know it: with the base `/atlas`, `storage.read:/data` covers the URL path `/atlas/data/x`.
//! So a client has a third result besides granted and not granted: [`Permission::GrantedBelow`].

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that a scope cannot contain (RFC 6749 section 3.3), and the percent sign.
const IN_SCOPE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'\\').add(b'%');

/// The operation of a request on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Read a file or its properties.
    Read,
    /// List a folder.
    List,
    /// Create a new file or folder.
    Create,
    /// Overwrite, rename or remove.
    Modify,
}

impl Action {
    /// The verb for messages.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::List => "listing",
            Self::Create => "creating",
            Self::Modify => "changing",
        }
    }

    /// The ability that the action requires.
    pub(crate) fn wanted(self) -> &'static str {
        match self {
            Self::Read | Self::List => "storage.read",
            Self::Create => "storage.create",
            Self::Modify => "storage.modify",
        }
    }

    /// The word of a scope that allows the action for an unencoded path of a server.
    #[must_use]
    pub fn scope(self, path: &str) -> String {
        let path = utf8_percent_encode(path.trim_matches('/'), IN_SCOPE);
        format!("{}:/{path}", self.wanted())
    }
}

/// Result of a check of an action against a scope, as far as a client can know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// A word covers the path.
    Granted,
    /// A word covers the path if the server's base for this issuer is `base`.
    GrantedBelow {
        /// The leading part of the URL's path that the scope lacks.
        base: String,
    },
    /// There are words for this action, but with other paths.
    OtherPaths {
        /// Those paths.
        paths: Vec<String>,
    },
    /// No word allows this action.
    OtherActions,
}

impl Permission {
    /// Checks `action` on the path of a URL (percent-encoded or not) against the words of a scope.
    #[must_use]
    pub fn of<S: AsRef<str>>(scope: &[S], action: Action, path: &str) -> Self {
        let wanted = components(path);
        let mut bases = Vec::new();
        let mut paths = Vec::new();
        for word in scope {
            let Some(granted) = granted_path(word.as_ref(), action) else { continue };
            let covered = components(granted);
            if wanted.starts_with(&covered) {
                return Self::Granted;
            }
            let at = (1..wanted.len())
                .find(|&at| wanted.get(at..).is_some_and(|w| w.starts_with(&covered)));
            if let Some(base) = at.and_then(|at| wanted.get(..at)) {
                bases.push(format!("/{}", base.join("/")));
            }
            paths.push(granted.to_owned());
        }
        match (bases.into_iter().next(), paths.is_empty()) {
            (Some(base), _) => Self::GrantedBelow { base },
            (None, false) => Self::OtherPaths { paths },
            (None, true) => Self::OtherActions,
        }
    }
}

/// The invalid words of a scope: `storage.*` without a path.
pub(crate) fn without_path<S: AsRef<str>>(scope: &[S]) -> impl Iterator<Item = &str> {
    scope.iter().map(AsRef::as_ref).filter(|word| {
        word.starts_with("storage.")
            && word.split_once(':').is_none_or(|(_, path)| !path.starts_with('/'))
    })
}

/// Returns the path to which `word` applies if it allows `action`; otherwise `None`.
pub(crate) fn granted_path(word: &str, action: Action) -> Option<&str> {
    let (ability, path) = match word.split_once(':') {
        Some((ability, path)) => (ability, Some(path)),
        None => (word, None),
    };
    let able = match ability {
        "storage.read" | "storage.stage" | "read" => matches!(action, Action::Read | Action::List),
        "storage.create" => action == Action::Create,
        "storage.modify" | "write" => matches!(action, Action::Create | Action::Modify),
        _ => false,
    };
    let path = match path {
        None if !ability.starts_with("storage.") => "/",
        Some(path) if path.starts_with('/') => path,
        _ => return None,
    };
    able.then_some(path)
}

/// Splits a path into decoded components. Drops empty ones and `.`; resolves `..`, which never
/// leads above the root.
fn components(path: &str) -> Vec<String> {
    let mut components: Vec<String> = Vec::new();
    for component in path.split('/') {
        match &*percent_decode_str(component).decode_utf8_lossy() {
            "" | "." => {}
            ".." => drop(components.pop()),
            name => components.push(name.to_owned()),
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(scope: &str, action: Action, path: &str) -> Permission {
        let words: Vec<&str> = scope.split_whitespace().collect();
        Permission::of(&words, action, path)
    }

    #[test]
    fn words_allow_what_the_profiles_say() {
        use Action::{Create, List, Modify, Read};
        let all = [Read, List, Create, Modify];
        for (scope, allowed) in [
            ("storage.read:/", vec![Read, List]),
            ("storage.stage:/", vec![Read, List]),
            ("storage.create:/", vec![Create]),
            ("storage.modify:/", vec![Create, Modify]),
            ("read:/", vec![Read, List]),
            ("read", vec![Read, List]),
            ("write:/", vec![Create, Modify]),
            ("storage.read:/ storage.modify:/", all.to_vec()),
            ("openid profile compute.read storage.poll:/ wlcg.groups", vec![]),
            // Invalid without a path.
            ("storage.read storage.modify storage.stage: storage.create:x", vec![]),
            ("read:x", vec![]),
            ("STORAGE.READ:/", vec![]),
            ("", vec![]),
        ] {
            for action in all {
                let expected = if allowed.contains(&action) {
                    Permission::Granted
                } else {
                    Permission::OtherActions
                };
                assert_eq!(judge(scope, action, "/a/b"), expected, "{scope:?} {action:?}");
            }
        }
    }

    #[test]
    fn paths_cover_whole_components() {
        for (granted, path, covers) in [
            ("/", "/anything", true),
            ("/", "/", true),
            ("/a", "/a", true),
            ("/a/", "/a", true),
            ("/a", "/a/b/c", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
            ("//a/./b", "/a//b/c", true),
            ("/a%20b", "/a b/c", true),
            ("/a b", "/a%20b/c", true),
            ("/a", "/a/../c", false),
            ("/c", "/a/../c", true),
            ("/a/../c", "/c/d", true),
            ("/a", "/%61/x", true),
            ("/a", "/%2e%2e/a", true),
            ("/a", "/A", false),
        ] {
            let scope = [format!("storage.read:{granted}")];
            let verdict = Permission::of(&scope, Action::Read, path);
            assert_eq!(verdict == Permission::Granted, covers, "{granted} {path}: {verdict:?}");
        }
    }

    #[test]
    fn the_servers_base_is_thought_of() {
        let base = |base: &str| Permission::GrantedBelow { base: base.into() };
        assert_eq!(
            judge("storage.read:/data", Action::Read, "/atlas/disk/data/x"),
            base("/atlas/disk")
        );
        let paths = vec!["/data".to_owned(), "/user".to_owned()];
        let others = Permission::OtherPaths { paths };
        assert_eq!(
            judge("storage.read:/data read:/user write:/", Action::Read, "/atlas/x"),
            others
        );
    }

    #[test]
    fn the_word_for_a_path_allows_it() {
        let word = Action::Create.scope("a b/\"%/ü");
        assert_eq!(word, "storage.create:/a%20b/%22%25/%C3%BC");
        assert_eq!(judge(&word, Action::Create, "/a b/\"%/ü/x"), Permission::Granted);
        assert_eq!(Action::Read.scope(""), "storage.read:/");
    }

    #[test]
    fn words_without_a_path_are_found() {
        let scope = ["storage.read", "storage.read:/a", "read", "storage.stage:", "openid"];
        assert_eq!(without_path(&scope).collect::<Vec<_>>(), ["storage.read", "storage.stage:"]);
    }

    proptest! {
        #[test]
        fn what_is_below_is_covered_and_siblings_are_not(
            granted in prop::collection::vec("[a-z]{1,3}", 1..4),
            below in prop::collection::vec("[a-z]{1,3}", 0..3),
            tail in "[a-z]{1,3}",
        ) {
            let path = format!("/{}", granted.join("/"));
            let scope = [format!("storage.read:{path}")];
            let inside = format!("{path}/{}", below.join("/"));
            prop_assert_eq!(Permission::of(&scope, Action::Read, &inside), Permission::Granted);
            let sibling = format!("{path}{tail}/{}", below.join("/"));
            prop_assert_ne!(Permission::of(&scope, Action::Read, &sibling), Permission::Granted);
        }

        #[test]
        fn any_scope_and_path_are_judged(word in "(storage.read|read|:|/|%|%2|%2f|\\.\\.|é|x){0,12}", path in "(/|%|%c3|\\.\\.|é|x){0,12}") {
            let _verdict = Permission::of(&[word], Action::Read, &path);
        }
    }
}
