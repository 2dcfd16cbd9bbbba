//! A histogram as SVG and PNG: one drawing for both backends.

use std::error::Error;

use hither_chart::axis::{labels, ticks};
use hither_core::text::escape_controls;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::Bars;

/// Width and height in pixels.
pub(super) const SIZE: (u32, u32) = (1000, 640);

/// Maximum number of bars: with more, bars would be narrower than two pixels.
pub(super) const MAX_BARS: usize = 450;

/// Maximum number of ticks on the horizontal axis.
const MAX_MARKS: usize = 9;

const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(222, 225, 230);
const LINE: RGBColor = RGBColor(31, 90, 150);
const FILL: RGBColor = RGBColor(190, 211, 232);

type Drawn<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The drawing as an SVG document.
pub(super) fn svg(bars: &Bars, title: &str, label: &str) -> Drawn<String> {
    let mut document = String::new();
    draw(SVGBackend::with_string(&mut document, SIZE), bars, title, label)?;
    Ok(document)
}

/// The drawing as a PNG file.
pub(super) fn png(bars: &Bars, title: &str, label: &str) -> Drawn<Vec<u8>> {
    let (width, height) = SIZE;
    let mut pixels = vec![255_u8; width as usize * height as usize * 3];
    draw(BitMapBackend::with_buffer(&mut pixels, SIZE), bars, title, label)?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(file)
}

/// The rectangle of the axes: left, top, right, bottom.
const FRAME: (i32, i32, i32, i32) = (96, 64, 968, 562);

type Area<B> = DrawingArea<B, plotters::coord::Shift>;
/// The result of drawing with backend `B`.
type Painted<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// The mapping of values to pixels.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn x(&self, x: f64) -> i32 {
        between(x, self.x, FRAME.0, FRAME.2)
    }

    fn y(&self, y: f64) -> i32 {
        between(y, self.y, FRAME.3, FRAME.1)
    }
}

/// The pixel of `x`: `start` at the lower limit, `end` at the upper one.
fn between(x: f64, (lo, hi): (f64, f64), start: i32, end: i32) -> i32 {
    let share = (x / (hi - lo) - lo / (hi - lo)).clamp(-1.0, 2.0);
    #[expect(clippy::cast_possible_truncation, reason = "not far from the picture")]
    let steps = (share * f64::from(end - start)).round() as i32;
    start + steps
}

fn draw<B: DrawingBackend>(backend: B, bars: &Bars, title: &str, label: &str) -> Drawn<()>
where
    B::ErrorType: 'static,
{
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the built-in font cannot be read")?;
    let area = backend.into_drawing_area();
    let (low, high) = bars.extent();
    let room = (high - low) * 0.06;
    let bottom = if low < 0.0 { low - room } else { low };
    let facts = Facts::beside(bars);
    // Bars end below the box.
    let below = f64::from(FRAME.3 - FRAME.1 - facts.height - 10) / f64::from(FRAME.3 - FRAME.1);
    let top = (high + room).max(bottom + (facts.highest - bottom) / below.max(0.1));
    let scale = Scale { x: (bars.lo, bars.hi), y: (bottom, top) };
    let draw_all = || {
        area.fill(&WHITE)?;
        draw_grid(&area, bars, &scale)?;
        draw_bars(&area, bars, &scale)?;
        draw_frame(&area, bars, &scale)?;
        draw_names(&area, bars, title, label)?;
        draw_facts(&area, bars, &facts)?;
        area.present()
    };
    draw_all().map_err(|error| error.to_string().into())
}

/// Draws grid lines at the ticks, and their labels.
fn draw_grid<B: DrawingBackend>(area: &Area<B>, bars: &Bars, scale: &Scale) -> Painted<B> {
    let (left, top, right, bottom) = FRAME;
    for (mark, name) in bars.marks(MAX_MARKS) {
        let x = scale.x(mark);
        area.draw(&PathElement::new([(x, top), (x, bottom)], FAINT))?;
        area.draw_text(&name, &text(16).pos(Pos::new(HPos::Center, VPos::Top)), (x, bottom + 10))?;
    }
    let up = ticks(scale.y.0, scale.y.1, 7);
    for (tick, name) in up.iter().zip(labels(&up)) {
        let y = scale.y(*tick);
        area.draw(&PathElement::new([(left, y), (right, y)], FAINT))?;
        area.draw_text(
            &name,
            &text(16).pos(Pos::new(HPos::Right, VPos::Center)),
            (left - 10, y + 2),
        )?;
    }
    Ok(())
}

/// Draws the outline of the bars, filled down to zero.
fn draw_bars<B: DrawingBackend>(area: &Area<B>, bars: &Bars, scale: &Scale) -> Painted<B> {
    let floor = scale.y(0.0);
    let mut outline = vec![(scale.x(bars.edge(0)), floor)];
    for (i, height) in bars.heights.iter().enumerate() {
        let left = scale.x(bars.edge(i));
        let right = scale.x(bars.edge(i + 1));
        let y = scale.y(*height);
        let top = y.min(floor);
        let bottom = y.max(floor);
        if top < bottom {
            area.draw(&Rectangle::new([(left, top), (right, bottom)], FILL.filled()))?;
        }
        outline.extend([(left, y), (right, y)]);
    }
    outline.push((scale.x(bars.edge(bars.heights.len())), floor));
    area.draw(&PathElement::new(outline, LINE.stroke_width(2)))
}

/// Draws the frame around the bars, with its ticks.
fn draw_frame<B: DrawingBackend>(area: &Area<B>, bars: &Bars, scale: &Scale) -> Painted<B> {
    let (left, top, right, bottom) = FRAME;
    area.draw(&Rectangle::new([(left, top), (right, bottom)], INK.stroke_width(1)))?;
    for (mark, _) in bars.marks(MAX_MARKS) {
        let x = scale.x(mark);
        area.draw(&PathElement::new([(x, bottom - 7), (x, bottom)], INK))?;
    }
    for tick in ticks(scale.y.0, scale.y.1, 7) {
        let y = scale.y(tick);
        area.draw(&PathElement::new([(left, y), (left + 7, y)], INK))?;
    }
    Ok(())
}

/// Draws the title and the labels of the axes.
fn draw_names<B: DrawingBackend>(
    area: &Area<B>,
    bars: &Bars,
    title: &str,
    label: &str,
) -> Painted<B> {
    let (left, top, right, bottom) = FRAME;
    let title_style = text(22).pos(Pos::new(HPos::Left, VPos::Bottom));
    area.draw_text(&shortened(&escape_controls(title), 70), &title_style, (left, top - 16))?;
    let label_style = text(18).pos(Pos::new(HPos::Right, VPos::Top));
    area.draw_text(&shortened(&escape_controls(label), 90), &label_style, (right, bottom + 40))?;
    let upwards =
        TextStyle::from(("sans-serif", 18).into_font().transform(FontTransform::Rotate270));
    let upwards = upwards.color(&INK).pos(Pos::new(HPos::Right, VPos::Top));
    area.draw_text(&bars.counted, &upwards, (14, top))
}

/// The box with numbers, in the upper corner where it covers fewer bars.
struct Facts {
    left: i32,
    height: i32,
    /// The highest bar under the box.
    highest: f64,
}

impl Facts {
    const WIDTH: i32 = 206;
    const LINE: i32 = 24;

    fn beside(bars: &Bars) -> Self {
        let height = 16 + Self::LINE * i32::try_from(bars.facts.len()).unwrap_or(0);
        let scale = Scale { x: (bars.lo, bars.hi), y: (0.0, 1.0) };
        let at = |left: i32| {
            let covered = (0..bars.heights.len()).filter(|i| {
                scale.x(bars.edge(i + 1)) >= left && scale.x(bars.edge(*i)) <= left + Self::WIDTH
            });
            let heights = covered.filter_map(|i| bars.heights.get(i).copied());
            Self { left, height, highest: heights.fold(0.0, f64::max) }
        };
        let left = at(FRAME.0);
        let right = at(FRAME.2 - Self::WIDTH);
        if left.highest < right.highest { left } else { right }
    }
}

fn draw_facts<B: DrawingBackend>(area: &Area<B>, bars: &Bars, facts: &Facts) -> Painted<B> {
    let left = facts.left;
    let top = FRAME.1;
    let right = left + Facts::WIDTH;
    let frame = [(left, top), (right, top + facts.height)];
    area.draw(&Rectangle::new(frame, WHITE.filled()))?;
    area.draw(&Rectangle::new(frame, INK.stroke_width(1)))?;
    let mut y = top + 14;
    for (name, value) in &bars.facts {
        area.draw_text(name, &text(16), (left + 12, y))?;
        let flush = text(16).pos(Pos::new(HPos::Right, VPos::Top));
        area.draw_text(value, &flush, (right - 12, y))?;
        y += Facts::LINE;
    }
    Ok(())
}

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

/// `text` with at most `most` characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}
