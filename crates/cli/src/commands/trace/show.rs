//! `hither trace show`: shows the access pattern of a program.

use crate::arguments::{Histogram, Show};
use crate::exit::CommandError;
use crate::output::{human_bytes, print, print_notices};
use crate::plot::{self, PlotData};
use hither::trace::{self, Bin, FileStatistics, TraceSummary};
use hither_chart::axis::grouped;
use hither_core::error::counted;
use hither_core::text::escape_controls;
use serde_json::json;
use std::fmt::Write;

/// Maximum number of files in the text; `--json` lists all.
const MAX_FILES: usize = 20;

pub(crate) fn run(request: &Show, json: bool) -> Result<(), CommandError> {
    let summary = trace::summarize(&request.file)?;
    if summary.cut_bytes > 0 {
        print_notices(&[format!(
            "the last {} bytes of {} are an incomplete block and were skipped",
            summary.cut_bytes,
            request.file.display()
        )]);
    }
    let title = request.file.file_name().unwrap_or_default().to_string_lossy();
    let (data, label) = data(&summary.statistics.all, request.histogram);
    plot::write(&data, &title, label, &request.images)?;
    if json {
        let object = json!({ "trace": request.file, "statistics": summary });
        print(&format!("{object}\n"))?;
        return Ok(());
    }
    print(&text(&summary))?;
    if !data.counts.is_empty() {
        print(&plot::terminal(&data, &title, label))?;
    }
    Ok(())
}

fn text(summary: &TraceSummary) -> String {
    let all = &summary.statistics;
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "{} read in {:.3} s by {}, waiting {:.3} s, {} of the time",
        counted(all.files.len(), "file"),
        all.seconds,
        counted(all.threads, "thread"),
        all.waited_seconds,
        percent(all.waited_share()),
    );
    if all.files.len() != 1 {
        push(&mut text, "all files", &all.all);
    }
    let mut files: Vec<_> = all.files.iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    for file in files.iter().take(MAX_FILES) {
        push(&mut text, &escape_controls(&file.name), file);
    }
    if let Some(more) = files.len().checked_sub(MAX_FILES).filter(|more| *more > 0) {
        let more = counted(more, "file");
        let _ = writeln!(text, "... and {more} with fewer bytes");
    }
    text
}

fn push(text: &mut String, title: &str, file: &FileStatistics) {
    let _ = writeln!(text, "{title}");
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<22} {value}");
    };
    let vectors = match file.vector_reads {
        0 => String::new(),
        _ => format!(", {} of them vector reads, {} ranges", file.vector_reads, file.ranges),
    };
    line("reads", format!("{}{vectors}", file.reads));
    line("bytes", format!("{} ({})", file.bytes, human_bytes(file.bytes)));
    line(
        "read again",
        format!("{}: {} bytes are distinct", percent(file.reread_share()), file.distinct_bytes),
    );
    line(
        "found",
        format!(
            "{} present, {} in flight, {} in part, {} absent: {} missed",
            file.present,
            file.in_flight,
            file.partial,
            file.absent,
            percent(file.miss_share())
        ),
    );
    line(
        "waited",
        format!("{:.3} s, at most {:.6} s", file.waited_seconds, file.longest_wait_seconds),
    );
    let away = &file.displacements;
    line(
        "displacements",
        format!(
            "{} within 500,000 bytes; {} sequential, {} backward of {}",
            percent(away.near_share()),
            away.sequential,
            away.backward,
            away.count
        ),
    );
    let runs = &file.runs;
    line(
        "runs",
        format!(
            "{}, the longest of {}, the largest of {}",
            runs.count,
            counted(runs.longest_ranges, "range"),
            human_bytes(runs.longest_bytes)
        ),
    );
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The data of a histogram, and the title of its horizontal axis.
fn data(file: &FileStatistics, histogram: Histogram) -> (PlotData, &'static str) {
    let away = &file.displacements;
    let facts = vec![
        ("ranges", grouped(file.ranges)),
        ("sequential", grouped(away.sequential)),
        ("within 500 kB", percent(away.near_share())),
    ];
    match histogram {
        Histogram::Displacements => (
            unequal(&away.logarithmic, facts, "reads", decimal),
            "displacement from the end of the read before, in bytes",
        ),
        Histogram::Plain => (
            PlotData {
                lo: float(away.plain.lo),
                hi: float(away.plain.hi),
                counts: away.plain.counts.iter().map(|count| count_of(*count)).collect(),
                facts: [
                    facts,
                    vec![
                        ("below", grouped(away.plain.below)),
                        ("above", grouped(away.plain.above)),
                    ],
                ]
                .concat(),
                marks: None,
                counted: "reads",
            },
            "displacement from the end of the read before, in bytes",
        ),
        Histogram::Sizes => {
            (unequal(&file.sizes, facts, "reads", binary), "size of a read in bytes")
        }
        Histogram::Runs => {
            (unequal(&file.runs.lengths, facts, "runs", binary), "reads in a row without a gap")
        }
    }
}

/// Bins of different widths, drawn with equal widths. `name` returns the label of a limit, if it
/// has one.
fn unequal(
    bins: &[Bin],
    facts: Vec<(&'static str, String)>,
    counted: &'static str,
    name: fn(i64) -> Option<String>,
) -> PlotData {
    let mut marks = Vec::new();
    for (at, bin) in (0..).zip(bins) {
        let mut mark = |at: f64, limit: i64| marks.extend(name(limit).map(|name| (at, name)));
        match (bin.from, bin.to) {
            (0, 1) => mark(f64::from(at) + 0.5, 0),
            (from, _) if from < 0 => mark(f64::from(at), from),
            // A label at 1 would overlap the label of zero.
            (from, _) if from > 1 => mark(f64::from(at), from),
            _ => {}
        }
    }
    let hi = float(i64::try_from(bins.len().max(1)).unwrap_or(i64::MAX));
    let counts = bins.iter().map(|bin| count_of(bin.count)).collect();
    PlotData { lo: 0.0, hi, counts, facts, marks: Some(marks), counted }
}

/// Labels of powers of ten: `-10k`, `1M`.
fn decimal(limit: i64) -> Option<String> {
    let size = limit.unsigned_abs();
    let decade = size.checked_ilog10().unwrap_or(0);
    let is_power = size == 0 || size == 10_u64.pow(decade);
    let unit = ["", "k", "M", "G", "T", "P", "E"].get(decade as usize / 3)?;
    let sign = if limit < 0 { "-" } else { "" };
    let value = if size == 0 { 0 } else { 10_u64.pow(decade % 3) };
    is_power.then(|| format!("{sign}{value}{unit}"))
}

/// Labels of powers of two: `512`, `1Ki`.
fn binary(limit: i64) -> Option<String> {
    let size = limit.unsigned_abs();
    let bits = size.checked_ilog2().unwrap_or(0);
    let unit = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(bits as usize / 10)?;
    let value = if size == 0 { 0 } else { 1_u64 << (bits % 10) };
    (size == 0 || size.is_power_of_two()).then(|| format!("{value}{unit}"))
}

#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn float(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "for a picture")]
fn count_of(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_short_names() {
        let names = [0, 1, -10, 2000, 100_000, -1_000_000, 1_000_000_000_000_000_000].map(decimal);
        let expected = ["0", "1", "-10", "", "100k", "-1M", "1E"];
        assert_eq!(names.map(Option::unwrap_or_default), expected);
        let names = [0, 1, 512, 1024, 1 << 25, i64::MAX].map(binary);
        assert_eq!(names.map(Option::unwrap_or_default), ["0", "1", "512", "1Ki", "32Mi", ""]);
    }

    #[test]
    fn zero_is_marked_in_the_middle_of_its_bin() {
        let bin = |from, to| Bin { from, to, count: 1 };
        let bins = [bin(-20, -10), bin(-10, -5), bin(0, 1), bin(1, 2), bin(10, 20)];
        let data = unequal(&bins, Vec::new(), "reads", decimal);
        let marks: Vec<_> = data.marks.unwrap();
        let expected = [(1.0, "-10"), (2.5, "0"), (4.0, "10")];
        assert_eq!(marks, expected.map(|(at, name)| (at, name.to_owned())));
        assert_eq!((data.lo, data.hi, data.counts.len()), (0.0, 5.0, 5));
    }
}
