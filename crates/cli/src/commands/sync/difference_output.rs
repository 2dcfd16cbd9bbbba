//! Differences of trees, printed as they are found: as lines, or as an array in a JSON object.

use crate::output::{JsonArray, date, print};
use hither::{DifferenceKind, DirEntry, TreeDifference};
use hither_core::text::escape_controls;
use serde_json::{Value, json};

/// The output of differences.
#[derive(Debug)]
pub(in crate::commands) struct DifferenceOutput {
    json: Option<JsonArray>,
}

impl DifferenceOutput {
    pub(in crate::commands) fn new(json: bool) -> Self {
        Self { json: json.then(|| JsonArray::new("differences")) }
    }

    /// Prints a difference: `+` for an entry that only the source has, `-` for an entry that only
    /// the destination has, `*` for an entry that differs.
    pub(in crate::commands) fn show(&self, difference: &TreeDifference) {
        let path = escape_controls(&difference.path);
        let shown = match (&self.json, difference.kind) {
            (Some(array), _) => array.push(&object(difference)),
            (None, DifferenceKind::OnlyInSource) => print(&format!("+ {path}\n")),
            (None, DifferenceKind::OnlyInTarget) => print(&format!("- {path}\n")),
            (None, kind) => print(&format!("* {path} ({})\n", kind.name())),
        };
        // If the output is closed, the exit code still reports that there are differences.
        drop(shown);
    }

    /// Ends the JSON object with the members of `object`.
    pub(in crate::commands) fn end(&self, object: &Value) -> std::io::Result<()> {
        self.json.as_ref().map_or(Ok(()), |array| array.end(object))
    }
}

fn object(difference: &TreeDifference) -> Value {
    let entry = |entry: &DirEntry| {
        json!({
            "size": entry.size,
            "modified": entry.modified.map(|time| format!("{}Z", date(time).replace(' ', "T"))),
        })
    };
    json!({
        "path": difference.path,
        "difference": difference.kind.name(),
        "source": difference.source.as_ref().map(entry),
        "destination": difference.target.as_ref().map(entry),
    })
}
