//! Histogram plots as text for a terminal, as SVG and as PNG.
//!
//! Ticks and numbers are computed once, in `hither_chart::axis`, for all three. SVG and PNG are the
//! same drawing (`image`, with plotters) on two backends. Text is measured in both, and drawn in
//! the PNG, with DejaVu Sans, which the crate `dejavu` contains (Bitstream Vera licence: free to
//! embed), so a plot looks the same on a machine without fonts. If a histogram has more bins than
//! the plot has space for, neighbouring bins are added.

mod image;
mod text;

use crate::arguments::ImageFiles;
use crate::exit::CommandError;
use hither::Histogram;
use hither_chart::axis::{grouped, labels, number, ticks};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The histogram as text with the width of the terminal.
pub(crate) fn terminal(data: &PlotData, title: &str, label: &str) -> String {
    text::draw(data, title, label, text::Paper::from_environment())
}

/// The histogram as an SVG document.
pub(crate) fn svg(data: &PlotData, title: &str, label: &str) -> Result<String, CommandError> {
    image::svg(&Bars::new(data, image::MAX_BARS), title, label)
        .map_err(|error| CommandError::local("cannot draw the SVG image", error))
}

/// The histogram as a PNG file.
pub(crate) fn png(data: &PlotData, title: &str, label: &str) -> Result<Vec<u8>, CommandError> {
    image::png(&Bars::new(data, image::MAX_BARS), title, label)
        .map_err(|error| CommandError::local("cannot draw the PNG image", error))
}

/// Writes the requested image files, each atomically.
pub(crate) fn write(
    data: &PlotData,
    title: &str,
    label: &str,
    files: &ImageFiles,
) -> Result<(), CommandError> {
    if let Some(path) = &files.png {
        write_whole(path, &png(data, title, label)?)?;
    }
    if let Some(path) = &files.svg {
        write_whole(path, svg(data, title, label)?.as_bytes())?;
    }
    Ok(())
}

/// Writes a file under a name that nobody can know before, and renames it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let write = || -> io::Result<()> {
        let mut part = tempfile::Builder::new()
            .prefix(".hither-")
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder.unwrap_or_else(|| Path::new(".")))?;
        part.write_all(bytes)?;
        part.persist(path)?;
        Ok(())
    };
    let what = || format!("cannot write {}", path.display());
    write().map_err(|error| CommandError::local(what(), error))
}

/// The data of a plot: bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlotData {
    /// Lower edge of the first bin.
    pub(crate) lo: f64,
    /// Upper edge of the last bin.
    pub(crate) hi: f64,
    /// The contents of the bins.
    pub(crate) counts: Vec<f64>,
    /// Names and values in the box in the corner.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Positions and labels of the ticks on the horizontal axis; computed if none.
    pub(crate) marks: Option<Vec<(f64, String)>>,
    /// The noun that the bins count.
    pub(crate) counted: &'static str,
}

impl From<&Histogram> for PlotData {
    fn from(histogram: &Histogram) -> Self {
        let mut facts = vec![
            ("values", grouped(histogram.selected)),
            ("mean", number(histogram.mean, 5)),
            ("std dev", number(histogram.stddev, 5)),
        ];
        if histogram.underflow != 0.0 {
            facts.push(("underflow", number(histogram.underflow, 7)));
        }
        if histogram.overflow != 0.0 {
            facts.push(("overflow", number(histogram.overflow, 7)));
        }
        let lo = histogram.lo;
        let hi = histogram.hi;
        let counts = histogram.counts.clone();
        Self { lo, hi, counts, facts, marks: None, counted: "values" }
    }
}

/// A histogram with few enough bins to be drawn, and its texts.
#[derive(Debug, Clone, PartialEq)]
struct Bars {
    /// Lower edge of the first bar.
    lo: f64,
    /// Width of a bar.
    width: f64,
    /// Heights; all finite.
    heights: Vec<f64>,
    /// Upper edge of the histogram, which the last bar may exceed.
    hi: f64,
    /// Names and values in the box in the corner.
    facts: Vec<(&'static str, String)>,
    /// See [`PlotData::marks`].
    marks: Option<Vec<(f64, String)>>,
    /// The title of the vertical axis.
    counted: String,
}

impl Bars {
    fn new(data: &PlotData, max: usize) -> Self {
        let merged = data.counts.len().div_ceil(max.max(1)).max(1);
        let finite = |count: &f64| if count.is_finite() { *count } else { 0.0 };
        let heights: Vec<f64> =
            data.counts.chunks(merged).map(|bins| bins.iter().map(finite).sum()).collect();
        #[expect(clippy::cast_precision_loss, reason = "there are at most a million bins")]
        let width = (data.hi - data.lo) / data.counts.len().max(1) as f64 * merged as f64;
        let counted = match &data.marks {
            None => format!("{} per {}", data.counted, number(width, 4)),
            Some(_) => data.counted.to_owned(),
        };
        Self {
            lo: data.lo,
            width,
            heights,
            hi: data.hi,
            facts: data.facts.clone(),
            marks: data.marks.clone(),
            counted,
        }
    }

    /// Positions and labels of the ticks on the horizontal axis: at most `max`, or twice as many if
    /// the labels are given, because those are short.
    fn marks(&self, max: usize) -> Vec<(f64, String)> {
        let Some(marks) = &self.marks else {
            let ticks = ticks(self.lo, self.hi, max);
            let labels = labels(&ticks);
            return ticks.into_iter().zip(labels).collect();
        };
        let every = marks.len().div_ceil((max * 2).max(1)).max(1);
        // The label of zero is kept.
        let first = marks.iter().position(|(_, name)| name == "0").unwrap_or(0) % every;
        marks.iter().skip(first).step_by(every).cloned().collect()
    }

    /// The lower edge of bar `i`.
    #[expect(clippy::cast_precision_loss, reason = "there are some hundred bars")]
    fn edge(&self, i: usize) -> f64 {
        (self.lo + self.width * i as f64).min(self.hi)
    }

    /// The lowest and the highest value of the vertical axis, which always includes zero.
    fn extent(&self) -> (f64, f64) {
        let low = self.heights.iter().copied().fold(0.0, f64::min);
        let high = self.heights.iter().copied().fold(0.0, f64::max);
        if low == high { (0.0, 1.0) } else { (low, high) }
    }
}

#[cfg(test)]
mod tests {
    use hither_query::{HistogramBuilder, SelectedValues};

    use super::*;

    /// A histogram of 0..10 in the shape of a hill.
    pub(super) fn hill(bins: usize) -> PlotData {
        let mut selected = SelectedValues::default();
        for i in 0..20_000_u32 {
            let x = f64::from(i % 200) / 20.0;
            let height = 8.0 * (-(x - 4.0) * (x - 4.0) / 4.0).exp();
            if f64::from(i / 200 % 8) < height {
                selected.values.push(x);
            }
        }
        selected.values.push(11.0);
        let mut builder = HistogramBuilder::new(bins, Some((0.0, 10.0))).unwrap();
        builder.fill(&selected);
        PlotData::from(&builder.finish())
    }

    #[test]
    fn neighbouring_bins_are_added_and_none_is_lost() {
        let histogram = hill(1000);
        let bars = Bars::new(&histogram, 300);
        assert_eq!(bars.heights.len(), 250);
        assert_eq!(bars.heights.iter().sum::<f64>(), histogram.counts.iter().sum::<f64>());
        assert_eq!((bars.edge(0), bars.edge(250)), (0.0, 10.0));
        assert!(bars.facts.contains(&("overflow", "1".to_owned())));
    }

    #[test]
    fn svg_escapes_markup_in_titles() {
        let document = svg(&hill(20), "x {E33>5 && a<b}", "a & b\u{1b}").unwrap();
        assert!(document.contains("E33&gt;5 &amp;&amp; a&lt;b"), "{document}");
        assert!(document.starts_with("<svg") && !document.contains('\u{1b}'));
    }

    #[test]
    fn a_png_is_a_valid_image() {
        let bytes = png(&hill(20), "x", "x").unwrap();
        assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
        let header = png::Decoder::new(io::Cursor::new(&bytes)).read_info().unwrap();
        assert_eq!(header.info().size(), image::SIZE);
    }

    #[test]
    fn an_image_is_written_under_no_name_that_another_user_can_take() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("other"), "kept").unwrap();
        std::os::unix::fs::symlink(at("other"), at("plot.png.part")).unwrap();
        std::fs::write(at("plain"), "as others").unwrap();
        for content in ["first", "second"] {
            write_whole(&at("plot.png"), content.as_bytes()).unwrap();
            assert_eq!(std::fs::read(at("plot.png")).unwrap(), content.as_bytes());
        }
        assert_eq!(std::fs::read(at("other")).unwrap(), b"kept");
        let mode = |name: &str| at(name).symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode("plot.png"), mode("plain"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 4);
        let error = write_whole(&at("none/plot.png"), b"").unwrap_err();
        assert!(error.object().to_string().contains("none/plot.png"));
    }

    #[test]
    fn marks_with_names_stay_few_and_keep_zero() {
        let names = (-30..=30).map(|i| (f64::from(i), i.to_string())).collect();
        let data = PlotData { lo: -31.0, hi: 31.0, marks: Some(names), ..hill(62) };
        for max in [2, 5, 9] {
            let marks = Bars::new(&data, 100).marks(max);
            assert!(marks.len() <= 2 * max && marks.contains(&(0.0, "0".to_owned())), "{marks:?}");
        }
        assert!(svg(&data, "", "").is_ok());
    }

    #[test]
    fn empty_histograms_are_drawn() {
        for range in [None, Some((-1e300, 1e300)), Some((1e-300, 2e-300)), Some((1e15, 1e15 + 1.0))]
        {
            let histogram = PlotData::from(&HistogramBuilder::new(7, range).unwrap().finish());
            assert!(svg(&histogram, "", "").unwrap().contains("values"));
            assert!(terminal(&histogram, "", "").contains("values 0"));
        }
    }
}
