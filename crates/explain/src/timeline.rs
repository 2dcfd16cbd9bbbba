//! The timeline of a job: its phases over time, as text and as an SVG image.

use super::JobEvidence;
use super::activity::{JobPhase, Segment, segments};
use crate::evidence::{float, ratio};
use hither_chart::svg::{Anchor, BLACK, Svg};
use std::fmt::Write;

/// The colours of the phases in an image, in their order.
const COLOURS: [&str; 7] =
    ["#4477aa", "#cc3311", "#ee7733", "#aa3377", "#ddaa33", "#882255", "#999999"];
/// Characters for shares of a column, in eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const WIDTH: f64 = 800.0;
const ROW: f64 = 24.0;
/// Distance from the top of a row to the base line of its text.
const BASE: f64 = ROW * 0.65;
const LABELS: f64 = 130.0;

/// The timeline in lines of `columns` characters: one for each phase that occurs, and one for the
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

/// The timeline as an SVG image: one row for each phase, and one row of bars for each of the first
/// connections.
#[must_use]
pub fn to_svg(job: &JobEvidence) -> String {
    let all = segments(job);
    let of = |phase| all.iter().filter(move |it| it.phase == phase);
    let mut rows = Vec::new();
    for (phase, colour) in JobPhase::ALL.into_iter().zip(COLOURS) {
        let bars: Vec<_> = of(phase).map(|it| (it.start, it.end, colour)).collect();
        if !bars.is_empty() {
            rows.push((phase.name(), bars));
        }
    }
    for connection in job.connections.iter().take(16) {
        let opened = connection.secured.or(connection.connected).unwrap_or(job.seconds);
        let mut bars = vec![(connection.dialed, opened, "#ddaa33")];
        for request in &connection.requests {
            let first = request.first_byte.unwrap_or(request.last_byte);
            bars.push((request.sent, first, "#ee7733"));
            bars.push((first, request.last_byte, "#4477aa"));
        }
        rows.push((connection.server.rsplit("//").next().unwrap_or_default(), bars));
    }
    let scale = ratio(WIDTH, job.seconds);
    let end = LABELS + WIDTH;
    let mut top = 4.0;
    let mut svg = Svg::new(end + 10.0, top + ROW * float(rows.len() as u64 + 1));
    for (name, bars) in rows {
        svg.text((4.0, top + BASE), Anchor::Start, BLACK, name);
        for (from, to, colour) in bars {
            let width = ((to - from) * scale).max(0.5);
            svg.rectangle((LABELS + from * scale, top), (width, ROW - 6.0), colour);
        }
        top += ROW;
    }
    svg.text((LABELS, top + BASE), Anchor::Start, BLACK, "0");
    svg.text((end, top + BASE), Anchor::End, BLACK, &format!("{:.3} s", job.seconds));
    svg.to_file()
}
