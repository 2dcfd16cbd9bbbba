//! Charts of reports: SVG images, the HTML pages around them, and the ticks of axes.
//!
//! Timelines, heat maps and plots of sweeps are drawn with [`svg::Svg`]. The histograms of the
//! command are PNG images, too: plotters draws both formats from one drawing, with the ticks of
//! [`axis`].
//!
//! # Where to start reading
//!
//! - how an image is drawn: `src/svg.rs`; which numbers stand at its axes: `src/axis.rs`;
//! - the page around it, without scripts: `src/html.rs`.

pub mod axis;
pub mod html;
pub mod svg;
