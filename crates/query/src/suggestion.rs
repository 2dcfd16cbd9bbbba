//! Suggestions in place of unknown names.

use hither_core::error::suggest::closest_names;

/// `, did you mean ...` with the near matches, or nothing.
pub(crate) fn suggestion<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = closest_names(name, candidates, 3);
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!(", did you mean {}", near.join(" or "))
}
