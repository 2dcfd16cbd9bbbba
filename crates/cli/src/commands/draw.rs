//! `hither draw`: draws a histogram of an expression.

use crate::arguments::Draw;
use crate::exit::CommandError;
use crate::output::{connections, human_bytes, print, print_notices};
use crate::per_argument::tree_target;
use crate::plot::{self, PlotData};
use crate::progress_bar;
use hither::{Client, DrawRequest, DrawResult};
use hither_core::error::counted;
use serde_json::json;

pub(super) fn run(client: &Client, arguments: &Draw, json: bool) -> Result<(), CommandError> {
    let drawing = draw(client, arguments)?;
    if json {
        print(&format!("{}\n", as_json(arguments, &drawing)))?;
    } else {
        let data = PlotData::from(&drawing.histogram);
        print(&plot::terminal(&data, &title(arguments), &arguments.expression))?;
        let report = &drawing.report;
        print(&format!(
            "{} of {} in {:.2} s: {}, {} on {}, {} received\n",
            counted(drawing.histogram.selected, "value"),
            counted(drawing.entries, "entry"),
            report.seconds,
            counted(report.round_trips, "round trip"),
            counted(report.requests, "request"),
            connections(report.connections),
            human_bytes(report.bytes_received),
        ))?;
    }
    Ok(())
}

/// Draws, and writes the requested image files.
pub(super) fn draw(client: &Client, arguments: &Draw) -> Result<DrawResult, CommandError> {
    let target = tree_target(client, &arguments.target)?;
    let mut request = DrawRequest::new(&arguments.expression, arguments.cut.as_deref());
    request.bins = usize::try_from(arguments.bins).unwrap_or(usize::MAX);
    request.range = arguments.range;
    if let Some((first, end)) = arguments.entries {
        request.entries = first..end;
    }
    let drawing =
        progress_bar::with_progress_bar(|progress| client.draw(&target, &request, progress))
            .map_err(|error| client.block_on(client.explain_read(&target.url, error)))?;
    print_notices(&drawing.report.notices);
    let data = PlotData::from(&drawing.histogram);
    plot::write(&data, &title(arguments), &arguments.expression, &arguments.images)?;
    Ok(drawing)
}

/// The result as JSON.
pub(super) fn as_json(arguments: &Draw, drawing: &DrawResult) -> serde_json::Value {
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
