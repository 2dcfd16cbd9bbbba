//! `hither trace import`: imports the record of another program as a trace.

use crate::arguments::Import;
use crate::exit::CommandError;
use crate::output::print;
use crate::output::standard_streams::standard_input;
use hither::trace;
use hither_core::error::counted;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub(crate) fn run(request: &Import, json: bool) -> Result<(), CommandError> {
    let failed =
        |error| CommandError::local(format!("cannot read {}", request.file.display()), error);
    let input: Box<dyn BufRead> = if request.file == Path::new("-") {
        Box::new(standard_input().map_err(failed)?.lock())
    } else {
        Box::new(BufReader::new(File::open(&request.file).map_err(failed)?))
    };
    let only = request.only.as_deref().unwrap_or_default();
    let summary = trace::import(request.format, input, only, &request.output)?;
    if json {
        print(&format!("{}\n", json!({ "trace": request.output, "imported": summary })))?;
        return Ok(());
    }
    print(&format!(
        "{} of {}; {} skipped\n",
        counted(summary.reads, "read"),
        counted(summary.files, "file"),
        counted(summary.lines_skipped, "line")
    ))?;
    Ok(())
}
