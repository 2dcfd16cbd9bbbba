//! A histogram as text.
//!
//! A column of the plot is one bar, half of a bar, or several bars. Block characters show its
//! height in eighths of a line; without Unicode, `#` and `:` show halves.

use super::{Bars, PlotData};
use hither_chart::axis::{labels, number, ticks};
use hither_core::text::escape_controls;

/// The size and character set of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paper {
    /// Characters in a line.
    pub(super) columns: usize,
    /// Lines for the bars.
    pub(super) lines: usize,
    /// True if the output may contain Unicode.
    pub(super) unicode: bool,
}

impl Paper {
    /// The width is `COLUMNS`, or 80; the character set is ASCII unless the locale is UTF-8.
    pub(super) fn from_environment() -> Self {
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Self {
            columns: columns.unwrap_or(80).clamp(40, 200),
            lines: 15,
            unicode: locale.is_none_or(|locale| {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            }),
        }
    }
}

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HALVES: [char; 3] = [' ', ':', '#'];

/// The characters of which lines consist.
struct Ink {
    blocks: &'static [char],
    side: char,
    side_tick: char,
    floor: char,
    floor_tick: char,
    corner: char,
}

const UNICODE: Ink =
    Ink {
        blocks: &EIGHTHS, side: '│', side_tick: '┤', floor: '─', floor_tick: '┬', corner: '└'
    };
const ASCII: Ink =
    Ink { blocks: &HALVES, side: '|', side_tick: '+', floor: '-', floor_tick: '+', corner: '+' };

/// The picture of `data`: title, bars with their axes, and facts. Lines end with a line feed.
pub(super) fn draw(data: &PlotData, title: &str, label: &str, paper: Paper) -> String {
    let ink = if paper.unicode { &UNICODE } else { &ASCII };
    let (low, high) = Bars::new(data, usize::MAX).extent();
    let margin = labels(&ticks(low, high, 4)).iter().map(String::len).max().unwrap_or(1).max(5) + 1;
    let room = paper.columns.saturating_sub(margin + 3).max(10);
    let bars = Bars::new(data, room);
    let repeat = (room / bars.heights.len().max(1)).max(1);
    let width = repeat * bars.heights.len();

    let mut picture = String::new();
    let facts: Vec<String> =
        bars.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    for line in wrapped(&escape_controls(title), &facts, paper.columns) {
        push_line(&mut picture, &line);
    }
    draw_bars(&mut picture, &bars, repeat, margin, paper.lines, ink);
    draw_floor(&mut picture, &bars, width, margin, &escape_controls(label), ink);
    if paper.unicode { picture } else { picture.chars().map(ascii).collect() }
}

fn ascii(c: char) -> char {
    if c.is_ascii() { c } else { '?' }
}

fn push_line(picture: &mut String, line: &str) {
    picture.push_str(line.trim_end());
    picture.push('\n');
}

/// Title and facts on one line if it has space for them, otherwise on separate lines.
fn wrapped(title: &str, facts: &[String], columns: usize) -> Vec<String> {
    let joined = facts.join("   ");
    let used = title.chars().count() + joined.chars().count();
    if used + 3 <= columns {
        return vec![format!("{title}{}{joined}", " ".repeat(columns - used))];
    }
    let mut lines = vec![if title.chars().count() > columns {
        title.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect()
    } else {
        title.to_owned()
    }];
    let mut line = String::new();
    for fact in facts {
        if !line.is_empty() && line.chars().count() + 3 + fact.chars().count() > columns {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(if line.is_empty() { "" } else { "   " });
        line.push_str(fact);
    }
    lines.push(line);
    lines
}

/// Draws the lines with bars, from the top.
fn draw_bars(
    picture: &mut String,
    bars: &Bars,
    repeat: usize,
    margin: usize,
    lines: usize,
    ink: &Ink,
) {
    #[expect(clippy::cast_precision_loss, reason = "a few lines")]
    let count = lines.max(1) as f64;
    let steps = ink.blocks.len() - 1;
    let (low, high) = bars.extent();
    let marks = ticks(low, high, 5);
    let names = labels(&marks);
    // In lines from the bottom.
    let level = |height: f64| (height - low) / (high - low) * count;
    let whole = |x: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the picture"
        )]
        let whole = x.clamp(0.0, 1e6).round() as usize;
        whole
    };
    for line in (0..lines).rev() {
        let mark = marks.iter().position(|mark| {
            let at = level(*mark);
            whole((at - 0.5).max(0.0)) == line && at > 0.0
        });
        let name = mark.and_then(|mark| names.get(mark)).map_or("", String::as_str);
        let side = if mark.is_some() { ink.side_tick } else { ink.side };
        let mut text = format!("{name:>margin$} {side}");
        for height in &bars.heights {
            #[expect(clippy::cast_precision_loss, reason = "a few lines")]
            let filled = level(*height) - line as f64;
            #[expect(clippy::cast_precision_loss, reason = "eight steps")]
            let mut step = whole(filled * steps as f64).min(steps);
            // A positive value is always visible, however small.
            if line == 0 && step == 0 && *height > 0.0 {
                step = 1;
            }
            let block = ink.blocks.get(step).copied().unwrap_or(' ');
            text.extend(std::iter::repeat_n(block, repeat));
        }
        push_line(picture, &text);
    }
}

/// Draws the horizontal axis, its numbers, and its label.
fn draw_floor(
    picture: &mut String,
    bars: &Bars,
    width: usize,
    margin: usize,
    label: &str,
    ink: &Ink,
) {
    let mut floor = vec![ink.floor; width + 1];
    let mut numbers = vec![' '; width + margin + 24];
    let mut free = 0;
    for (mark, name) in bars.marks((width / 12).clamp(2, 9)) {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred columns")]
        let at = (mark - bars.lo) / (bars.hi - bars.lo) * width as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the picture"
        )]
        let at = (at.clamp(0.0, width as f64).round() as usize).min(width);
        let start = (margin + 2 + at)
            .saturating_sub(name.len() / 2)
            .min((margin + 3 + width).saturating_sub(name.len()));
        if start < free {
            continue;
        }
        free = start + name.len() + 2;
        if let Some(place) = floor.get_mut(at) {
            *place = ink.floor_tick;
        }
        for (place, c) in numbers.iter_mut().skip(start).zip(name.chars()) {
            *place = c;
        }
    }
    let zero = number(bars.extent().0, 5);
    let floor: String = floor.into_iter().collect();
    push_line(picture, &format!("{zero:>margin$} {}{floor}", ink.corner));
    push_line(picture, &numbers.into_iter().collect::<String>());
    let label: String = label.chars().take(width).collect();
    let indent = margin + 2 + width.saturating_sub(label.chars().count());
    push_line(picture, &format!("{}{label}", " ".repeat(indent)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::hill;
    use super::*;

    const PAPER: Paper = Paper { columns: 60, lines: 6, unicode: true };

    #[test]
    fn the_picture_fits_its_paper() {
        for (columns, bins) in [(40, 1000), (60, 20), (80, 100), (200, 3)] {
            let picture = draw(&hill(bins), "hill", "x", Paper { columns, ..PAPER });
            let widest = picture.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{widest:?} of {columns}\n{picture}");
        }
    }

    #[test]
    fn ascii_is_enough() {
        let picture = draw(&hill(40), "hill é", "x", Paper { unicode: false, ..PAPER });
        assert!(picture.is_ascii() && picture.contains('#'), "{picture}");
    }

    #[test]
    fn bars_are_as_high_as_their_bins() {
        let histogram = hill(10);
        let picture = draw(&histogram, "hill", "x", PAPER);
        let side = picture.lines().find_map(|line| line.chars().position(|c| c == '┤')).unwrap();
        let highest = histogram.counts.iter().copied().fold(0.0, f64::max);
        for (bin, count) in histogram.counts.iter().enumerate() {
            // Fifty columns for ten bins.
            let column = side + 3 + 5 * bin;
            let eighths: usize = picture
                .lines()
                .skip(1)
                .filter_map(|line| line.chars().nth(column))
                .filter_map(|c| EIGHTHS.iter().position(|block| *block == c))
                .sum();
            let expected = count / highest * 6.0 * 8.0;
            assert!((eighths as f64 - expected).abs() <= 0.5, "bin {bin}: {eighths}\n{picture}");
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let picture = draw(&hill(10), "a\u{1b}[31m", "b\u{7}", PAPER);
        assert!(!picture.contains(['\u{1b}', '\u{7}']));
    }
}
