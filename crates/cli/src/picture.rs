//! Histograms as pictures: text for a terminal, SVG, PNG.
//!
//! Ticks and numbers are worked out once, in `axis`, for all three. SVG and PNG are the same drawing (`chart`, with
//! plotters) on two surfaces. The letters of both are measured, and those of the PNG drawn, with DejaVu Sans, which the
//! crate `dejavu` carries (Bitstream Vera licence: free to embed), so that a picture looks the same on a machine
//! without fonts. A histogram with more bins than the picture has room for is drawn with neighbours added up.

mod axis;
mod chart;
mod text;

use hither::Histogram;

use crate::exit::Failure;

/// The histogram as text, as wide as the terminal.
pub(crate) fn terminal(histogram: &Histogram, title: &str, label: &str) -> String {
    text::draw(histogram, title, label, text::Paper::from_environment())
}

/// The histogram as an SVG document.
pub(crate) fn svg(histogram: &Histogram, title: &str, label: &str) -> Result<String, Failure> {
    chart::svg(&Bars::new(histogram, chart::MOST_BARS), title, label)
        .map_err(|error| Failure::local("cannot draw the SVG picture", error))
}

/// The histogram as a PNG file.
pub(crate) fn png(histogram: &Histogram, title: &str, label: &str) -> Result<Vec<u8>, Failure> {
    chart::png(&Bars::new(histogram, chart::MOST_BARS), title, label)
        .map_err(|error| Failure::local("cannot draw the PNG picture", error))
}

/// A histogram with few enough bins to be drawn, and what is written beside it.
#[derive(Debug, Clone, PartialEq)]
struct Bars {
    /// Lower edge of the first bar.
    lo: f64,
    /// Width of a bar.
    width: f64,
    /// Heights; all finite.
    heights: Vec<f64>,
    /// Upper edge of the histogram. The last bar may go beyond it.
    hi: f64,
    /// Names and values for the box in the corner.
    facts: Vec<(&'static str, String)>,
}

impl Bars {
    fn new(histogram: &Histogram, most: usize) -> Self {
        let merged = histogram.bins.div_ceil(most.max(1)).max(1);
        let finite = |count: &f64| if count.is_finite() { *count } else { 0.0 };
        let heights: Vec<f64> =
            histogram.counts.chunks(merged).map(|bins| bins.iter().map(finite).sum()).collect();
        let mut facts = vec![
            ("values", axis::grouped(histogram.selected)),
            ("mean", axis::number(histogram.mean, 5)),
            ("std dev", axis::number(histogram.stddev, 5)),
        ];
        if histogram.underflow != 0.0 {
            facts.push(("underflow", axis::number(histogram.underflow, 7)));
        }
        if histogram.overflow != 0.0 {
            facts.push(("overflow", axis::number(histogram.overflow, 7)));
        }
        #[expect(clippy::cast_precision_loss, reason = "there are at most a million bins")]
        let width = (histogram.hi - histogram.lo) / histogram.bins.max(1) as f64 * merged as f64;
        Self { lo: histogram.lo, width, heights, hi: histogram.hi, facts }
    }

    /// The lower edge of bar `i`.
    #[expect(clippy::cast_precision_loss, reason = "there are some hundred bars")]
    fn edge(&self, i: usize) -> f64 {
        (self.lo + self.width * i as f64).min(self.hi)
    }

    /// The lowest and the highest that has to be shown; zero always is.
    fn extent(&self) -> (f64, f64) {
        let low = self.heights.iter().copied().fold(0.0, f64::min);
        let high = self.heights.iter().copied().fold(0.0, f64::max);
        if low == high { (0.0, 1.0) } else { (low, high) }
    }
}

/// `text` without characters that would move the cursor or break a document.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use hither::query::{HistogramBuilder, Selected};

    use super::*;

    /// Bins of 0..10 with the heights of a hill.
    pub(super) fn hill(bins: usize) -> Histogram {
        let mut selected = Selected::default();
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
        builder.finish()
    }

    #[test]
    fn many_bins_are_added_up_and_none_is_lost() {
        let histogram = hill(1000);
        let bars = Bars::new(&histogram, 300);
        assert_eq!(bars.heights.len(), 250);
        assert_eq!(bars.heights.iter().sum::<f64>(), histogram.counts.iter().sum::<f64>());
        assert_eq!((bars.edge(0), bars.edge(250)), (0.0, 10.0));
        assert!(bars.facts.contains(&("overflow", "1".to_owned())));
    }

    #[test]
    fn svg_escapes_what_people_write() {
        let document = svg(&hill(20), "x {E33>5 && a<b}", "a & b\u{1b}").unwrap();
        assert!(document.contains("E33&gt;5 &amp;&amp; a&lt;b"), "{document}");
        assert!(document.starts_with("<svg") && !document.contains('\u{1b}'));
    }

    #[test]
    fn png_is_one() {
        let bytes = png(&hill(20), "x", "x").unwrap();
        assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
        let header = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        assert_eq!(header.info().size(), chart::SIZE);
    }

    #[test]
    fn histograms_without_anything_in_them_are_drawn() {
        for range in [None, Some((-1e300, 1e300)), Some((1e-300, 2e-300)), Some((1e15, 1e15 + 1.0))]
        {
            let histogram = HistogramBuilder::new(7, range).unwrap().finish();
            assert!(svg(&histogram, "", "").unwrap().contains("values"));
            assert!(terminal(&histogram, "", "").contains("values 0"));
        }
    }
}
