//! A drawing with its size, and the numbers, names and text widths that all charts need. Pure.

use maud::Markup;
use unicode_width::UnicodeWidthStr;

/// A drawing and its size.
pub(super) struct SvgDrawing {
    /// The class of the SVG element.
    pub(super) class: &'static str,
    /// The width in pixels.
    pub(super) width: f64,
    /// The height in pixels.
    pub(super) height: f64,
    /// The elements.
    pub(super) inside: Markup,
    /// The position of the axes, for zooming.
    pub(super) plot: Option<String>,
}

/// The class of the n-th series; colours and patterns repeat after eight.
pub(in crate::report::blocks) fn series(n: usize) -> String {
    format!("s{}", n % 8)
}

/// A small count as a float.
pub(super) fn count(n: usize) -> f64 {
    n as f64
}

/// A length, rounded to a tenth.
pub(super) fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The approximate width of a text in a font of this size.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    count(text.width()) * size * 0.58
}
