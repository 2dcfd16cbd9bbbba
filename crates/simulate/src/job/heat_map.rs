//! Heat maps: the duration of the job over latency and another setting, as in figure 5 of Furano
//! and others, "Latencies and data access", CHEP 2006.
//!
//! A field shows the fastest run with its two settings, so that further axes do not multiply the
//! number of maps. Colours are logarithmic between the shortest and the longest duration of all
//! maps of a page.

use super::report::{milliseconds, rate, seconds, size};
use super::{Case, Grid, JobSettings, Method};
use hither_chart::svg::{Anchor, BLACK, Svg};

/// Pixels of a field.
const WIDTH: f64 = 92.0;
/// See [`WIDTH`].
const HEIGHT: f64 = 34.0;
/// Pixels for the names of the rows.
const ROOM: f64 = 110.0;
/// Pixels for the names of the columns.
const TOP: f64 = 46.0;

/// A setting with several values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    kind: AxisKind,
    /// The names of the values.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisKind {
    Latency,
    Bandwidth,
    Cache,
    Block,
    ReadAhead,
    Connections,
}

impl AxisKind {
    const ALL: [Self; 6] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Cache,
        Self::Block,
        Self::ReadAhead,
        Self::Connections,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Cache => "cache",
            Self::Block => "block",
            Self::ReadAhead => "read-ahead",
            Self::Connections => "connections",
        }
    }

    /// The name of the value in the settings of a run.
    fn value(self, settings: &JobSettings) -> String {
        match self {
            Self::Latency => milliseconds(settings.link.rtt),
            Self::Bandwidth => bandwidth(settings.link.bandwidth),
            Self::Cache => size(settings.cache_bytes),
            Self::Block => settings.block_bytes.map_or_else(|| "learned".to_owned(), size),
            Self::ReadAhead => settings.read_ahead_bytes.map_or_else(|| "auto".to_owned(), size),
            Self::Connections => settings.connections.to_string(),
        }
    }

    fn values(self, grid: &Grid) -> Vec<String> {
        let optional = |values: &[Option<u64>], default: &str| {
            values.iter().map(|it| it.map_or_else(|| default.to_owned(), size)).collect()
        };
        match self {
            Self::Latency => grid.latencies.iter().copied().map(milliseconds).collect(),
            Self::Bandwidth => grid.bandwidths.iter().copied().map(bandwidth).collect(),
            Self::Cache => grid.caches.iter().copied().map(size).collect(),
            Self::Block => optional(&grid.blocks, "learned"),
            Self::ReadAhead => optional(&grid.read_aheads, "auto"),
            Self::Connections => grid.connections.iter().map(ToString::to_string).collect(),
        }
    }
}

fn bandwidth(bits: Option<u64>) -> String {
    bits.map_or_else(|| "unlimited".to_owned(), rate)
}

impl Axis {
    /// The axes of a grid that have more than one value.
    pub(super) fn varied(grid: &Grid) -> Vec<Self> {
        let axes = AxisKind::ALL.map(|kind| Self { kind, values: kind.values(grid) });
        axes.into_iter().filter(|axis| axis.values.len() > 1).collect()
    }
}

/// The maps of the first axis against each other axis, with their titles.
pub(super) fn heat_maps(axes: &[Axis], cases: &[Case]) -> Vec<(String, String)> {
    let Some((across, others)) = axes.split_first() else { return Vec::new() };
    let durations = || {
        let with = cases.iter().filter(|case| case.method == Method::Prefetch);
        with.filter_map(|case| Some((&case.settings, case.result?.seconds)))
    };
    let shortest = durations().map(|it| it.1).fold(f64::INFINITY, f64::min);
    let longest = durations().map(|it| it.1).fold(0.0, f64::max);
    let map = |down: &Axis| {
        let title = format!(
            "Duration with prefetching by {} and {}",
            across.kind.title(),
            down.kind.title()
        );
        let field = |column: &str, row: &str| {
            let here = durations().filter(|(settings, _)| {
                across.kind.value(settings) == column && down.kind.value(settings) == row
            });
            here.map(|it| it.1).reduce(f64::min)
        };
        (title, draw(across, down, field, shortest..longest))
    };
    others.iter().map(map).collect()
}

fn draw(
    across: &Axis,
    down: &Axis,
    field: impl Fn(&str, &str) -> Option<f64>,
    limits: std::ops::Range<f64>,
) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few rows and columns")]
    let corner = |x: usize, y: usize| (ROOM + WIDTH * x as f64, TOP + HEIGHT * y as f64);
    let (right, bottom) = corner(across.values.len(), down.values.len());
    let mut svg = Svg::new(right + 4.0, bottom + 4.0);
    svg.text((ROOM, 14.0), Anchor::Start, BLACK, across.kind.title());
    svg.text((2.0, TOP - 10.0), Anchor::Start, BLACK, down.kind.title());
    for (x, column) in across.values.iter().enumerate() {
        let middle = corner(x, 0).0 + WIDTH / 2.0;
        svg.text((middle, TOP - 10.0), Anchor::Middle, BLACK, column);
    }
    for (y, row) in down.values.iter().enumerate() {
        let base = corner(0, y).1 + HEIGHT / 2.0 + 4.0;
        svg.text((ROOM - 8.0, base), Anchor::End, BLACK, row);
        for (x, column) in across.values.iter().enumerate() {
            let (left, top) = corner(x, y);
            let Some(duration) = field(column, row) else { continue };
            let (fill, ink) = colours(duration, &limits);
            svg.rectangle((left + 0.5, top + 0.5), (WIDTH - 1.0, HEIGHT - 1.0), &fill);
            svg.text((left + WIDTH / 2.0, base), Anchor::Middle, ink, &seconds(duration));
        }
    }
    svg.to_element()
}

/// The colour of a field, from pale yellow to dark violet, and the colour of its text.
fn colours(duration: f64, limits: &std::ops::Range<f64>) -> (String, &'static str) {
    let span = (limits.end / limits.start).ln();
    let share =
        if span > 0.0 && span.is_finite() { (duration / limits.start).ln() / span } else { 0.0 };
    let mix = |short: f64, long: f64| short + (long - short) * share.clamp(0.0, 1.0);
    let [red, green, blue] = [mix(255.0, 74.0), mix(243.0, 20.0), mix(196.0, 110.0)];
    let ink = if share > 0.5 { "#fff" } else { BLACK };
    (format!("rgb({red:.0},{green:.0},{blue:.0})"), ink)
}
