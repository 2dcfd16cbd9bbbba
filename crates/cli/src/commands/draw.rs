//! `hither draw`: a histogram.

use super::print;
use crate::arguments::Draw;
use crate::exit::Failure;
use crate::picture;
use crate::progress;
use hither::{Client, DrawRequest, Drawing, Target};
use serde_json::json;
use std::path::Path;

pub(super) fn run(client: &Client, arguments: &Draw, json: bool) -> Result<(), Failure> {
    let drawing = draw(client, arguments)?;
    if json {
        print(&format!("{}\n", as_json(arguments, &drawing)))?;
    } else {
        print(&picture::terminal(&drawing.histogram, &title(arguments), &arguments.expression))?;
        let report = &drawing.report;
        print(&format!(
            "{} values of {} entries in {:.2} s: {} round trips, {} requests on {} connections, {} received\n",
            drawing.histogram.selected,
            drawing.entries,
            report.seconds,
            report.round_trips,
            report.requests,
            report.connections,
            super::human(report.bytes_received),
        ))?;
    }
    Ok(())
}

/// Draws, and writes the pictures asked for.
pub(super) fn draw(client: &Client, arguments: &Draw) -> Result<Drawing, Failure> {
    let target = Target::parse(&arguments.target);
    let mut request = DrawRequest::new(&arguments.expression, arguments.cut.as_deref())?;
    request.bins = usize::try_from(arguments.bins).unwrap_or(usize::MAX);
    request.range = arguments.range;
    if let Some((first, end)) = arguments.entries {
        request.entries = first..end;
    }
    let drawing = progress::watched(|progress| client.draw(&target, &request, progress))?;
    super::tell(&drawing.report.notices);
    if let Some(path) = &arguments.png {
        write(path, &picture::png(&drawing.histogram, &title(arguments), &arguments.expression)?)?;
    }
    if let Some(path) = &arguments.svg {
        write(
            path,
            picture::svg(&drawing.histogram, &title(arguments), &arguments.expression)?.as_bytes(),
        )?;
    }
    Ok(drawing)
}

/// The result as an object.
pub(super) fn as_json(arguments: &Draw, drawing: &Drawing) -> serde_json::Value {
    json!({
        "url": drawing.url,
        "tree": drawing.tree,
        "expression": arguments.expression,
        "where": arguments.cut,
        "entries": drawing.entries,
        "selected": drawing.histogram.selected,
        "mean": drawing.histogram.mean,
        "stddev": drawing.histogram.stddev,
        "histogram": drawing.histogram,
        "report": drawing.report,
    })
}

fn title(arguments: &Draw) -> String {
    match &arguments.cut {
        Some(cut) => format!("{} {{{cut}}}", arguments.expression),
        None => arguments.expression.clone(),
    }
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error| Failure::local(format!("cannot write {}", path.display()), error);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    std::fs::write(&part, bytes).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}
