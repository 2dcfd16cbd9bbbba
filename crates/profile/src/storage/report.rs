//! The result, as data and as text.

use super::case::{Case, Direction, Engine, Pattern, Series};
use super::knee::{Knee, knee};
use super::layer::Layer;
use super::small_files::SmallFiles;
use super::workload::Done;
use serde::Serialize;
use std::fmt::Write;

/// One measured case.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measurement {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Number of completed requests.
    pub operations: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// The time; for writes it includes fdatasync(2).
    pub seconds: f64,
    /// `bytes / seconds`.
    pub bytes_per_second: f64,
    /// `operations / seconds`.
    pub operations_per_second: f64,
    /// The share of the file that was in the page cache before a buffered read; none for other
    /// cases, and if the layer does not report it.
    pub cached_percent: Option<f64>,
    /// The rate in percent of that of the device below; none if that was not measured.
    pub percent_of_device: Option<f64>,
}

impl Measurement {
    pub(super) fn new(case: Case, done: Done, cached_percent: Option<f64>) -> Self {
        let Done { operations, bytes, seconds } = done;
        let bytes_per_second = bytes as f64 / seconds;
        let operations_per_second = operations as f64 / seconds;
        Self {
            case,
            operations,
            bytes,
            seconds,
            bytes_per_second,
            operations_per_second,
            cached_percent,
            percent_of_device: None,
        }
    }
}

/// The knee of a series in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KneeOfSeries {
    /// The series.
    pub series: Series,
    /// The direction.
    pub direction: Direction,
    /// The knee by block size, or by requests in flight.
    #[serde(flatten)]
    pub knee: Knee,
}

/// The writes of copies to the storage, through the page cache, and the measured rates of such
/// writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CopyWrites {
    /// Bytes of a write.
    pub block_bytes: u64,
    /// Writes at a time.
    pub in_flight: usize,
    /// The rate of sequential writes of this kind; none if it was not measured.
    pub bytes_per_second: Option<f64>,
    /// This rate in percent of the best rate of all sequential writes.
    pub percent_of_best: Option<f64>,
}

/// A profile of storage. Sizes are in bytes, times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StorageProfile {
    /// The directory or device.
    pub path: String,
    /// The layer on which it lies.
    pub layer: Layer,
    /// The duration of the profile.
    pub seconds: f64,
    /// The size of the file, or of the device.
    pub file_bytes: u64,
    /// True if the layer takes requests past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// True if the kernel lets this process use `io_uring`.
    pub io_uring: bool,
    /// The measured cases.
    pub cases: Vec<Measurement>,
    /// The knee of each series and direction.
    pub knees: Vec<KneeOfSeries>,
    /// Rates of operations on small files.
    pub small_files: Vec<SmallFiles>,
    /// The writes of hither's copies.
    pub copies: CopyWrites,
    /// Cases that could not be measured, and advice on the measured ones.
    pub notes: Vec<String>,
}

impl StorageProfile {
    /// Adds the results that follow from the cases.
    pub(super) fn conclude(&mut self) {
        for series in Series::ALL.into_iter().filter(|it| *it != Series::Device) {
            for direction in [Direction::Read, Direction::Write] {
                let curve: Vec<_> = self
                    .of(series, direction)
                    .map(|it| (it.case.at(), it.bytes_per_second))
                    .collect();
                let found = knee(&curve).map(|knee| KneeOfSeries { series, direction, knee });
                self.knees.extend(found);
            }
        }
        let device: Vec<_> = self.of(Series::Device, Direction::Read).cloned().collect();
        for file in self.cases.iter_mut().filter(|it| it.case.series != Series::Device) {
            let below = device.iter().find(|it| it.case.is_below(&file.case));
            let percent = |it: &Measurement| 100.0 * file.bytes_per_second / it.bytes_per_second;
            file.percent_of_device = below.map(percent);
        }
        let writes = self.cases.iter().filter(|it| it.case.direction == Direction::Write);
        let sequential = writes.filter(|it| it.case.pattern == Pattern::Sequential);
        let best = sequential.map(|it| it.bytes_per_second).fold(0.0, f64::max);
        let CopyWrites { block_bytes, in_flight, .. } = self.copies;
        let rate = self
            .of(Series::BufferedThreads, Direction::Write)
            .find(|it| (it.case.block_bytes, it.case.in_flight) == (block_bytes, in_flight))
            .map(|it| it.bytes_per_second);
        self.copies.bytes_per_second = rate;
        self.copies.percent_of_best = rate.map(|rate| 100.0 * rate / best);
    }

    fn of(&self, series: Series, direction: Direction) -> impl Iterator<Item = &Measurement> {
        let is_of =
            move |it: &&Measurement| it.case.series == series && it.case.direction == direction;
        self.cases.iter().filter(is_of)
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut page = String::new();
        let layer = &self.layer;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            page,
            "{}: {} ({}) from {}; {} measured in {:.1} s",
            self.path,
            layer.file_system,
            layer.kind,
            layer.source,
            size(self.file_bytes),
            self.seconds,
        );
        for series in Series::ALL {
            self.write_series(&mut page, series);
        }
        self.write_small_files(&mut page);
        let CopyWrites { block_bytes, in_flight, bytes_per_second, percent_of_best } = self.copies;
        if let (Some(rate), Some(percent)) = (bytes_per_second, percent_of_best) {
            let _ = writeln!(
                page,
                "\nhither cp to here writes {} through the page cache, {in_flight} at a time or more, \
                 whatever was\nmeasured here: {:.1} MB/s, {percent:.0} % of the best rate",
                size(block_bytes),
                rate / 1e6
            );
        }
        for note in &self.notes {
            let _ = writeln!(page, "note: {note}");
        }
        page
    }

    fn write_series(&self, page: &mut String, series: Series) {
        let of_series = || self.cases.iter().filter(|it| it.case.series == series);
        let Some(first) = of_series().next() else { return };
        let is_random = series != Series::Device && first.case.pattern == Pattern::Random;
        let unit = if is_random { "requests/s" } else { "MB/s" };
        let _ = writeln!(page, "\n{:<60} {:>10} {:>10}", title(&first.case), "read", "write");
        for read in of_series().filter(|it| it.case.direction == Direction::Read) {
            let rate = |it: &Measurement| {
                if is_random {
                    format!("{:.0}", it.operations_per_second)
                } else {
                    format!("{:.1}", it.bytes_per_second / 1e6)
                }
            };
            let at = read.case.at();
            let write = self.of(series, Direction::Write).find(|it| it.case.at() == at).map(rate);
            let label = match series {
                Series::BlockSize => size(at),
                Series::Device => {
                    format!("{:?}, {}, {at}", read.case.pattern, size(read.case.block_bytes))
                }
                _ => at.to_string(),
            };
            let mut file = self.cases.iter().filter(|it| read.case.is_below(&it.case));
            let share = file.find_map(|it| it.percent_of_device);
            let share = share.filter(|_| series == Series::Device);
            let share = share.map(|it| format!("   the file {it:.0} %")).unwrap_or_default();
            let write = write.unwrap_or_default();
            let _ = writeln!(page, "  {label:<58} {:>10} {write:>10} {unit}{share}", rate(read));
        }
        let knee = |direction| {
            let mut knees = self.knees.iter();
            let found = knees.find(|it| (it.series, it.direction) == (series, direction));
            found.map_or(String::new(), |it| {
                let at = if series == Series::BlockSize {
                    size(it.knee.at)
                } else {
                    it.knee.at.to_string()
                };
                if it.knee.is_reached { at } else { format!(">= {at}") }
            })
        };
        if series != Series::Device {
            let read = knee(Direction::Read);
            let write = knee(Direction::Write);
            let label = "knee: more adds less than 10 %";
            let _ = writeln!(page, "  {label:<58} {read:>10} {write:>10}");
        }
    }

    fn write_small_files(&self, page: &mut String) {
        if self.small_files.is_empty() {
            return;
        }
        let _ = writeln!(
            page,
            "\n{:<19} {:>10} {:>10} {:>10} {:>10}",
            "Files of 4 KiB, 1/s", "create", "stat", "open", "remove"
        );
        for it in &self.small_files {
            let _ = writeln!(
                page,
                "  {:<17} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
                format!("{} thread{}", it.threads, if it.threads == 1 { "" } else { "s" }),
                it.create_per_second,
                it.stat_per_second,
                it.open_per_second,
                it.remove_per_second,
            );
        }
    }
}

fn title(case: &Case) -> String {
    let way = match (case.direct, case.engine) {
        (true, Engine::IoUring) => "direct, io_uring",
        (true, Engine::Threads) => "direct",
        (false, Engine::IoUring) => "buffered, io_uring",
        (false, Engine::Threads) => "buffered",
    };
    let block = size(case.block_bytes);
    match (case.series, case.pattern) {
        (Series::BlockSize, _) => format!("Sequential, {way}, by block size"),
        (Series::Device, _) => format!("The device itself, {way}"),
        (Series::QueueDepth | Series::LargeQueueDepth, pattern) => {
            format!("{pattern:?}, {block}, {way}, by requests in flight")
        }
        (_, pattern) => format!("{pattern:?}, {block}, {way}, by threads"),
    }
}

/// A number of bytes in the largest unit that divides it, or nearly.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}
