//! SVG images of text, rectangles, lines and dots.

use crate::html::escape;
use std::fmt::Write;

/// An SVG image. Each shape covers those drawn before it.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    shapes: String,
}

/// The part of a text that is placed at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// The default colour of texts.
pub const BLACK: &str = "#000";

/// A position or a size in pixels, from the left and from the top.
type Pixels = (f64, f64);

impl Svg {
    /// An empty image.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: String::new() }
    }

    /// The image as an element of an HTML page.
    #[must_use]
    pub fn to_element(&self) -> String {
        let Self { width, height, shapes } = self;
        format!(
            "<svg width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             {shapes}</svg>\n"
        )
    }

    /// The image as a file of its own.
    #[must_use]
    pub fn to_file(&self) -> String {
        self.to_element().replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1)
    }

    /// Draws a line of text, whose base line is at `at`.
    pub fn text(&mut self, (x, y): Pixels, anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.shape(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// Draws a filled rectangle; `at` is its upper left corner.
    pub fn rectangle(&mut self, (x, y): Pixels, (width, height): Pixels, colour: &str) {
        self.shape(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    /// Draws a line through all points.
    pub fn line(&mut self, points: &[Pixels], width: f64, colour: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.shape(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"{points}\"/>"
        ));
    }

    /// Draws a filled circle around `centre`.
    pub fn dot(&mut self, (x, y): Pixels, radius: f64, colour: &str) {
        self.shape(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>"
        ));
    }

    fn shape(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.shapes, "{shape}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_in_their_order_and_text_is_escaped() {
        let mut svg = Svg::new(20.0, 10.5);
        svg.rectangle((0.0, 1.25), (10.0, 5.0), "#ddd");
        svg.line(&[(1.0, 2.0), (3.0, 4.0)], 2.0, "#000");
        svg.dot((1.0, 2.0), 3.0, "#000");
        svg.text((2.0, 8.0), Anchor::End, "#000", "a<b");
        assert_eq!(
            svg.to_file(),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"20\" height=\"10.5\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect x=\"0.0\" y=\"1.2\" width=\"10.0\" height=\"5.0\" fill=\"#ddd\"/>\n\
             <polyline fill=\"none\" stroke=\"#000\" stroke-width=\"2\" points=\"1.0,2.0 3.0,4.0\"/>\n\
             <circle cx=\"1.0\" cy=\"2.0\" r=\"3\" fill=\"#000\"/>\n\
             <text x=\"2.0\" y=\"8.0\" text-anchor=\"end\" fill=\"#000\">a&lt;b</text>\n</svg>\n"
        );
    }
}
