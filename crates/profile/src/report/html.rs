//! The report of a profile as an HTML page.

use super::Profile;
use crate::category::Category;
use hither_chart::html;
use std::fmt::Write;

/// The page with a bar for each category.
pub(super) fn page(profile: &Profile) -> String {
    let mut table = "<table>\n".to_owned();
    for category in Category::ALL {
        let share = profile.share(*category);
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "<tr><td>{}<td class=\"n\">{share:.2}&nbsp;%<td class=\"b\"><div style=\"width:{share}%\"></div>",
            category.title(),
        );
    }
    html::page(&profile.target, &(table + "</table>\n"), &profile.to_text())
}
