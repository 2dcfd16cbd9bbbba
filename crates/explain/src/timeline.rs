//! The timeline of a job: what it waited for, over time, as text and as an SVG image.

use super::JobEvidence;
use super::activity::{JobPhase, Segment, segments};
use crate::evidence::{float, ratio};
use std::fmt::Write;

/// The colours of the phases in an image, in their order.
const COLOURS: [&str; 7] =
    ["#4477aa", "#cc3311", "#ee7733", "#aa3377", "#ddaa33", "#882255", "#999999"];
/// Characters for shares of a column, in eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const WIDTH: f64 = 800.0;
const ROW: f64 = 24.0;
const LABELS: f64 = 130.0;

/// The timeline in lines of `columns` characters, one for each phase that there is, and one for the
/// rate.
#[must_use]
pub fn to_text(job: &JobEvidence, columns: usize) -> String {
    let all = segments(job);
    let columns = columns.max(1);
    let width = job.seconds / float(columns as u64);
    let starts: Vec<f64> = (0..columns as u64).map(|at| float(at) * width).collect();
    let mut text = String::new();
    for phase in JobPhase::ALL {
        let of_phase: Vec<&Segment> = all.iter().filter(|it| it.phase == phase).collect();
        if of_phase.is_empty() {
            continue;
        }
        let share = |start: &f64| {
            let end = start + width;
            let overlap = |it: &&Segment| (it.end.min(end) - it.start.max(*start)).max(0.0);
            ratio(of_phase.iter().map(overlap).sum(), width)
        };
        let line: String = starts.iter().map(|it| bar(share(it))).collect();
        let total: f64 = of_phase.iter().map(|it| it.end - it.start).sum();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:<16}|{line}| {total:8.3} s", phase.name());
    }
    let rates: Vec<f64> =
        starts.iter().map(|it| ratio(job.arrivals.between(*it, it + width), width)).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let line: String = rates.iter().map(|it| bar(ratio(*it, most))).collect();
    let _ = writeln!(text, "  {:<16}|{line}| at most {:.2} MB/s", "rate", most / 1e6);
    let _ = writeln!(text, "  {:<16} 0{:>columns$.3} s", "", job.seconds);
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index of nine characters"
)]
fn bar(share: f64) -> char {
    let eighths = (share.clamp(0.0, 1.0) * 8.0).ceil() as usize;
    BARS.get(eighths).copied().unwrap_or(' ')
}

/// The timeline as an SVG image: a row for each phase, a row for the rate, and a row of bars for
/// each of the first connections.
#[must_use]
pub fn to_svg(job: &JobEvidence) -> String {
    let scale = ratio(WIDTH, job.seconds);
    let mut rows = String::new();
    let mut top = 4.0;
    let label = |rows: &mut String, top: f64, text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let y = top + ROW * 0.65;
        let _ = writeln!(rows, "<text x=\"4\" y=\"{y:.1}\">{text}</text>");
    };
    let rectangle = |rows: &mut String, top: f64, from: f64, to: f64, colour: &str| {
        let x = LABELS + from * scale;
        let width = ((to - from) * scale).max(0.5);
        let height = ROW - 6.0;
        let _ = writeln!(
            rows,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
        );
    };
    let all = segments(job);
    for (phase, colour) in JobPhase::ALL.into_iter().zip(COLOURS) {
        let mut of_phase = all.iter().filter(|it| it.phase == phase).peekable();
        if of_phase.peek().is_none() {
            continue;
        }
        label(&mut rows, top, phase.name());
        for it in of_phase {
            rectangle(&mut rows, top, it.start, it.end, colour);
        }
        top += ROW;
    }
    for connection in job.connections.iter().take(16) {
        label(&mut rows, top, connection.server.rsplit("//").next().unwrap_or_default());
        let opened = connection.secured.or(connection.connected).unwrap_or(job.seconds);
        rectangle(&mut rows, top, connection.dialed, opened, "#ddaa33");
        for request in &connection.requests {
            let first = request.first_byte.unwrap_or(request.last_byte);
            rectangle(&mut rows, top, request.sent, first, "#ee7733");
            rectangle(&mut rows, top, first, request.last_byte, "#4477aa");
        }
        top += ROW;
    }
    let end = LABELS + WIDTH;
    let width = end + 10.0;
    let height = top + ROW;
    let y = top + ROW * 0.65;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n{rows}<text x=\"{LABELS}\" y=\"{y:.1}\">0</text>\n<text x=\"{end}\" y=\"{y:.1}\" text-anchor=\"end\">{:.3} s</text>\n</svg>\n",
        job.seconds
    )
}
