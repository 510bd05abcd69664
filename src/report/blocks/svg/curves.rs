//! Overlaid step curves. Attributes hold what the script needs for zooming; the chart is complete
//! without the script.

use super::shapes::{SvgDrawing, px, series, text_width};
use crate::report::blocks::{Axis, Curve, CurveChart, Stroke, words};
use maud::{Markup, html};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 46.0;
/// Marks per curve that have a label.
const NAMED: usize = 1;

/// Draws the chart.
pub(super) fn draw(curves: &CurveChart, id: &str) -> SvgDrawing {
    let clip = format!("{id}-clip");
    let (x, y) = (&curves.x, &curves.y);
    let (inner, bottom) = (WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM);
    let mut labels = Vec::new();
    let inside = html! {
        defs { clipPath id=(clip) {
            rect x=(px(LEFT)) y="0" width=(px(inner)) height=(px(bottom + 1.0)) {}
        } }
        @for n in ticks(y) {
            line class="grid" x1=(px(LEFT)) x2=(px(WIDTH - RIGHT)) y1=(px(up(y, n)))
                y2=(px(up(y, n))) {}
            text class="tick" x=(px(LEFT - 8.0)) y=(px(up(y, n) + 4.0)) text-anchor="end" {
                (tick_label(y, n))
            }
        }
        g class="xaxis" {
            @for n in ticks(x) {
                line class="grid" x1=(px(along(x, n))) x2=(px(along(x, n))) y1=(px(TOP))
                    y2=(px(bottom)) {}
                text class="tick" x=(px(along(x, n))) y=(px(bottom + 17.0)) text-anchor="middle" {
                    (tick_label(x, n))
                }
            }
        }
        g clip-path=(format!("url(#{clip})")) { g class="zoomed" {
            @for (n, curve) in curves.series.iter().enumerate() {
                (draw_curve(curves, curve, n, &mut labels))
            }
        } }
        line class="axis" x1=(px(LEFT)) x2=(px(WIDTH - RIGHT)) y1=(px(bottom)) y2=(px(bottom)) {}
        text class="axisname" x=(px(LEFT + inner / 2.0)) y=(px(HEIGHT - 8.0)) text-anchor="middle" {
            (x.label)
        }
        text class="axisname" transform=(format!("translate(13 {}) rotate(-90)", px(bottom / 2.0)))
            text-anchor="middle" { (y.label) }
    };
    let scale = if x.log { "log" } else { "linear" };
    let plot = format!("{scale} {} {} {LEFT} {inner} {TOP} {bottom}", x.from, x.to);
    SvgDrawing { class: "curves", width: WIDTH, height: HEIGHT, inside, plot: Some(plot) }
}

/// The position of the label of a mark.
#[derive(Debug, Clone, PartialEq)]
struct MarkLabel {
    /// The end of the label at the mark.
    x: f64,
    /// Whether the label is to the left of the mark.
    is_left: bool,
    /// The baseline.
    y: f64,
    /// The width.
    width: f64,
}

/// The height of a label.
const LINE: f64 = 15.0;

impl MarkLabel {
    /// Places a label next to its mark, below the labels that it would overlap.
    fn place(left: f64, top: f64, text: &str, others: &[MarkLabel]) -> MarkLabel {
        let width = text_width(text, 11.5);
        let is_left = left > WIDTH * 0.7 || left + width > WIDTH - RIGHT;
        let y = if top < 24.0 { top + 4.0 } else { top - 9.0 };
        let x = if is_left { left - 9.0 } else { left + 9.0 };
        let mut label = MarkLabel { x, is_left, y, width };
        while others.iter().any(|other| label.overlaps(other)) {
            label.y += LINE;
        }
        label
    }

    fn overlaps(&self, other: &MarkLabel) -> bool {
        let ((from, to), (start, end)) = (self.span(), other.span());
        from < end && start < to && (self.y - other.y).abs() < LINE
    }

    fn span(&self) -> (f64, f64) {
        if self.is_left { (self.x - self.width, self.x) } else { (self.x, self.x + self.width) }
    }
}

fn draw_curve(curves: &CurveChart, curve: &Curve, n: usize, labels: &mut Vec<MarkLabel>) -> Markup {
    let (x, y) = (&curves.x, &curves.y);
    let named: Vec<MarkLabel> = curve
        .marks
        .iter()
        .take(NAMED)
        .map(|(at, height, text)| {
            let label = MarkLabel::place(along(x, *at), up(y, *height), text, labels);
            labels.push(label.clone());
            label
        })
        .collect();
    html! {
        g class=(format!("curve {}", series(n))) data-steps=(steps(curve)) data-label=(curve.label) {
            @match curves.stroke {
                Stroke::Area => {
                    @let outline = outline(curves, curve, HEIGHT - BOTTOM);
                    path class="area" d=(outline) {}
                    path class="line" d=(outline) {}
                }
                Stroke::Line => path class="line thin" d=(line(curves, curve)) {}
            }
            @for (nth, (at, height, text)) in curve.marks.iter().enumerate() {
            @let (left, top) = (along(x, *at), up(y, *height));
            // A line without length and with round ends is a dot that zooming does not stretch.
            path class="mark" d=(format!("M{} {}h0", px(left), px(top))) { title { (text) } }
            @if let Some(label) = named.get(nth) {
            text class="marked" x=(px(label.x)) y=(px(label.y))
            text-anchor=(if label.is_left { "end" } else { "start" }) { (text) }
                }
            }
        }
    }
}

/// The steps as numbers, for the script.
fn steps(curve: &Curve) -> String {
    let mut text = String::new();
    for (from, to, height) in &curve.steps {
        // Writing to a string does not fail.
        let _ = write!(text, "{from:.0},{to:.0},{height:.0} ");
    }
    text
}

/// The steps as a closed outline, which falls to the axis where the next step does not follow.
fn outline(curves: &CurveChart, curve: &Curve, bottom: f64) -> String {
    let (x, y) = (&curves.x, &curves.y);
    let mut path = String::new();
    let mut last = None;
    for (from, to, height) in &curve.steps {
        let (left, right, top) = (px(along(x, *from)), px(along(x, *to)), px(up(y, *height)));
        let start = match &last {
            Some(end) if *end == left => String::new(),
            Some(_) => format!("V{}M{left} {}", px(bottom), px(bottom)),
            None => format!("M{left} {}", px(bottom)),
        };
        let _ = write!(path, "{start}V{top}H{right}");
        last = Some(right);
    }
    if last.is_some() {
        let _ = write!(path, "V{}", px(bottom));
    }
    path
}

/// The steps as a line, which is broken where there is no step.
fn line(curves: &CurveChart, curve: &Curve) -> String {
    let (x, y) = (&curves.x, &curves.y);
    let mut path = String::new();
    let mut last = None;
    for (from, to, height) in &curve.steps {
        let (left, right, top) = (px(along(x, *from)), px(along(x, *to)), px(up(y, *height)));
        let start = match &last {
            Some(end) if *end == left => format!("V{top}"),
            _ => format!("M{left} {top}"),
        };
        let _ = write!(path, "{start}H{right}");
        last = Some(right);
    }
    path
}

/// The position of a value on an axis, from 0 to 1.
fn part(axis: &Axis, value: f64) -> f64 {
    let part = if axis.log {
        (value.max(axis.from) / axis.from).ln() / (axis.to / axis.from).ln()
    } else {
        (value - axis.from) / (axis.to - axis.from)
    };
    part.clamp(0.0, 1.0)
}

fn along(axis: &Axis, value: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * part(axis, value)
}

fn up(axis: &Axis, value: f64) -> f64 {
    let bottom = HEIGHT - BOTTOM;
    bottom - (bottom - TOP) * part(axis, value)
}

fn tick_label(axis: &Axis, value: f64) -> String {
    if axis.is_time { words::time(value) } else { words::plain(value) }
}

/// Round values on an axis: powers of ten, or about eight equal steps.
fn ticks(axis: &Axis) -> Vec<f64> {
    if !axis.log {
        let step = words::round_step(axis.to - axis.from, axis.is_time);
        let first = (axis.from / step).ceil() * step;
        let all = std::iter::successors(Some(first), |n| Some(n + step));
        return all.take(20).take_while(|n| *n <= axis.to * 1.000_001).collect();
    }
    let decades = (axis.to / axis.from).log10();
    let first = 10.0_f64.powf(axis.from.log10().floor());
    let marks: &[f64] =
        if decades < if axis.is_time { 4.0 } else { 2.5 } { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = (0..30).flat_map(|power| marks.iter().map(move |m| first * 10.0_f64.powi(power) * m));
    let least = if axis.is_time { 0.0 } else { 1.0 };
    all.filter(|n| *n >= least && *n >= axis.from * 0.999 && *n <= axis.to * 1.001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(steps: &[(f64, f64, f64)]) -> (CurveChart, Curve) {
        let axis = |log, from| Axis { label: String::new(), from, to: 1e3, log, is_time: true };
        let (steps, marks, label) = (steps.to_vec(), Vec::new(), String::new());
        let curve = Curve { label, steps, marks };
        let series = Vec::new();
        (
            CurveChart { x: axis(false, 0.0), y: axis(true, 1.0), stroke: Stroke::Line, series },
            curve,
        )
    }

    #[test]
    fn a_gap_breaks_the_line_and_never_falls_to_the_axis() {
        let (curves, curve) =
            curves(&[(0.0, 100.0, 10.0), (100.0, 200.0, 20.0), (300.0, 400.0, 10.0)]);
        let path = line(&curves, &curve);
        assert_eq!(path.matches('M').count(), 2, "{path}");
        let bottom = px(HEIGHT - BOTTOM);
        assert!(!path.contains(&format!("V{bottom}")), "{path}");
    }

    #[test]
    fn labels_of_marks_in_one_place_do_not_overlap() {
        let mut labels: Vec<MarkLabel> = Vec::new();
        for _ in 0..3 {
            let label = MarkLabel::place(400.0, 100.0, "49.00 ms on CPU 3 at 12.30 s", &labels);
            assert!(labels.iter().all(|other| !label.overlaps(other)), "{labels:?}");
            labels.push(label);
        }
        let far = MarkLabel::place(100.0, 100.0, "1 ms", &labels);
        assert_eq!(far.y, labels[0].y, "a label elsewhere is not moved");
    }
}
