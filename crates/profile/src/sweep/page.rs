//! The page with plots of rate, load and CPU time for each axis, in one HTML file.
//!
//! A line is one server and direction. If several axes vary, the others have the values of the
//! line's fastest point, so that a reader can tell the lines apart.

use super::experiment::Axis;
use super::report::{Interval, PointReport, SweepReport, digits, short};
use hither_chart::axis::round_steps;
use hither_chart::html;
use hither_chart::svg::{Anchor, BLACK, Svg};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const COLOURS: [&str; 8] =
    ["#3b6ea5", "#c44e52", "#55a868", "#8172b2", "#cc8a2e", "#4c9fa8", "#8c5a3c", "#666666"];
const TITLES: [&str; 3] = ["MB/s", "load of the server, % of one CPU", "CPU seconds per GB"];
/// Pixels of a plot: the frame, and the margin for numbers to the left of and below it.
const WIDTH: f64 = 235.0;
const HEIGHT: f64 = 180.0;
const ROOM: f64 = 40.0;
/// Maximum number of grid lines of a plot.
const MAX_TICKS: f64 = 5.0;

/// The points of one server and direction over an axis.
struct Line<'a> {
    colour: &'static str,
    points: Vec<&'a PointReport>,
}

pub(super) fn page(report: &SweepReport) -> String {
    let mut plots = String::new();
    for (axis, settings) in report.axes() {
        if settings.len() < 2 {
            continue;
        }
        let lines = lines(report, axis);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(plots, "<h2>{}</h2>", axis.key());
        for (result, title) in TITLES.iter().enumerate() {
            plots += &plot(title, axis, &settings, &lines, |it| it.results()[result]);
        }
        plots += "<p>";
        for Line { colour, points } in &lines {
            let name = points.first().map(|it| name(report, it, axis)).unwrap_or_default();
            let name = html::escape(&name);
            let _ = writeln!(plots, "<span style=\"color:{colour}\">&#9632;</span> {name}<br>");
        }
        plots += "</p>\n";
    }
    html::page(&format!("Sweep of {}", report.experiment), &plots, &report.to_text())
}

/// The lines over an axis.
fn lines(report: &SweepReport, axis: Axis) -> Vec<Line<'_>> {
    let group = |it: &PointReport| {
        let direction = it.settings.get(&Axis::Direction).filter(|_| axis != Axis::Direction);
        (it.server.clone(), direction.cloned())
    };
    let others = |it: &PointReport| -> BTreeMap<Axis, String> {
        let others = it.settings.iter().filter(|(other, _)| **other != axis);
        others.map(|(other, setting)| (*other, setting.clone())).collect()
    };
    let rate = |it: &&PointReport| it.bytes_per_second.map_or(0.0, |it| it.median);
    let groups: BTreeSet<_> = report.points.iter().map(group).collect();
    let line = |(wanted, colour): ((String, Option<String>), _)| {
        let of_group = || report.points.iter().filter(|it| group(it) == wanted);
        let fastest = of_group().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let points = of_group().filter(|it| others(it) == others(fastest)).collect();
        Some(Line { colour, points })
    };
    groups.into_iter().zip(COLOURS.into_iter().cycle()).filter_map(line).collect()
}

/// The server, and the settings of other axes that vary.
fn name(report: &SweepReport, point: &PointReport, axis: Axis) -> String {
    let varied = report.axes().into_iter().filter(|(it, all)| *it != axis && all.len() > 1);
    let settings = varied
        .filter_map(|(it, _)| Some(format!(", {} {}", it.key(), short(point.settings.get(&it)?))));
    settings.fold(point.server.clone(), |name, setting| name + &setting)
}

/// A plot of one result; empty if it was not measured.
fn plot(
    title: &str,
    axis: Axis,
    settings: &[&str],
    lines: &[Line<'_>],
    result: impl Fn(&PointReport) -> Option<Interval>,
) -> String {
    let measured = lines.iter().flat_map(|it| &it.points).filter_map(|it| result(it));
    let Some(highest) = measured.map(|it| it.high).reduce(f64::max).filter(|it| *it > 0.0) else {
        return String::new();
    };
    let Some(tick) = round_steps(highest / MAX_TICKS).next() else { return String::new() };
    let top = tick * (highest / tick).ceil();
    let x = |setting: &str| {
        let at = settings.iter().position(|it| *it == setting).unwrap_or_default();
        ROOM + WIDTH * (at as f64 + 0.5) / settings.len() as f64
    };
    let y = |value: f64| 20.0 + HEIGHT * (1.0 - value / top);
    let mut svg = Svg::new(ROOM + WIDTH + 10.0, HEIGHT + 45.0);
    svg.text((ROOM, 12.0), Anchor::Start, BLACK, title);
    let ticks = std::iter::successors(Some(0.0), |it| Some(it + tick));
    for value in ticks.take_while(|it| *it < top + tick / 2.0) {
        svg.line(&[(ROOM, y(value)), (ROOM + WIDTH, y(value))], 1.0, "#ddd");
        svg.text((ROOM - 5.0, y(value)), Anchor::End, BLACK, &digits(value));
    }
    for setting in settings {
        svg.text((x(setting), HEIGHT + 38.0), Anchor::Middle, BLACK, &short(setting));
    }
    for Line { colour, points } in lines {
        let mut medians = Vec::new();
        let found = points.iter().filter_map(|it| Some((it.settings.get(&axis)?, result(it)?)));
        for (setting, Interval { median, low, high }) in found {
            let x = x(setting);
            svg.line(&[(x, y(low)), (x, y(high))], 1.0, colour);
            svg.dot((x, y(median)), 3.0, colour);
            medians.push((x, y(median)));
        }
        svg.line(&medians, 2.0, colour);
    }
    svg.to_element()
}
