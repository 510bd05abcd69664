//! Curves of steps over each other. What the script needs for zooming stands in attributes; without
//! it the picture is whole all the same.

use super::{SvgDrawing, px, series, text_width};
use crate::report::page::block::{Axis, Curve, CurveChart, Stroke};
use crate::report::page::words;
use maud::{Markup, html};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 46.0;
/// Marks that have their words beside them.
const NAMED: usize = 1;

/// Draws them.
pub(super) fn draw(curves: &CurveChart, id: &str) -> SvgDrawing {
    let clip = format!("{id}-clip");
    let (x, y) = (&curves.x, &curves.y);
    let (inner, bottom) = (WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM);
    let mut named = Vec::new();
    let inside = html! {
        defs { clipPath id=(clip) {
            rect x=(px(LEFT)) y="0" width=(px(inner)) height=(px(bottom + 1.0)) {}
        } }
        @for n in ticks(y) {
            line class="grid" x1=(px(LEFT)) x2=(px(WIDTH - RIGHT)) y1=(px(up(y, n)))
                y2=(px(up(y, n))) {}
            text class="tick" x=(px(LEFT - 8.0)) y=(px(up(y, n) + 4.0)) text-anchor="end" {
                (word(y, n))
            }
        }
        g class="xaxis" {
            @for n in ticks(x) {
                line class="grid" x1=(px(along(x, n))) x2=(px(along(x, n))) y1=(px(TOP))
                    y2=(px(bottom)) {}
                text class="tick" x=(px(along(x, n))) y=(px(bottom + 17.0)) text-anchor="middle" {
                    (word(x, n))
                }
            }
        }
        g clip-path=(format!("url(#{clip})")) { g class="zoomed" {
            @for (n, curve) in curves.series.iter().enumerate() {
                (drawn(curves, curve, n, &mut named))
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

/// The words of a mark and where they stand.
#[derive(Debug, Clone, PartialEq)]
struct MarkLabel {
    /// The side of the words that the mark is at.
    x: f64,
    /// They stand to the left of the mark.
    is_left: bool,
    /// The line they stand on.
    y: f64,
    /// How far they reach.
    width: f64,
}

/// The height of a line of words.
const LINE: f64 = 15.0;

impl MarkLabel {
    /// Beside a mark, below those that would stand in the same place.
    fn place(left: f64, top: f64, said: &str, others: &[MarkLabel]) -> MarkLabel {
        let width = text_width(said, 11.5);
        let is_left = left > WIDTH * 0.7 || left + width > WIDTH - RIGHT;
        let y = if top < 24.0 { top + 4.0 } else { top - 9.0 };
        let x = if is_left { left - 9.0 } else { left + 9.0 };
        let mut name = MarkLabel { x, is_left, y, width };
        while others.iter().any(|other| name.meets(other)) {
            name.y += LINE;
        }
        name
    }

    fn meets(&self, other: &MarkLabel) -> bool {
        let ((from, to), (start, end)) = (self.span(), other.span());
        from < end && start < to && (self.y - other.y).abs() < LINE
    }

    fn span(&self) -> (f64, f64) {
        if self.is_left { (self.x - self.width, self.x) } else { (self.x, self.x + self.width) }
    }
}

fn drawn(curves: &CurveChart, curve: &Curve, n: usize, named: &mut Vec<MarkLabel>) -> Markup {
    let (x, y) = (&curves.x, &curves.y);
    let names: Vec<MarkLabel> = curve
        .marks
        .iter()
        .take(NAMED)
        .map(|(at, much, said)| {
            let name = MarkLabel::place(along(x, *at), up(y, *much), said, named);
            named.push(name.clone());
            name
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
            @for (nth, (at, much, said)) in curve.marks.iter().enumerate() {
                @let (left, top) = (along(x, *at), up(y, *much));
                // A dot that zooming does not stretch: a line of no length with a round end.
                path class="mark" d=(format!("M{} {}h0", px(left), px(top))) { title { (said) } }
                @if let Some(name) = names.get(nth) {
                    text class="marked" x=(px(name.x)) y=(px(name.y))
                        text-anchor=(if name.is_left { "end" } else { "start" }) { (said) }
                }
            }
        }
    }
}

/// The steps as numbers, for reading values off.
fn steps(curve: &Curve) -> String {
    let mut text = String::new();
    for (from, to, much) in &curve.steps {
        // Writing to a string does not fail.
        let _ = write!(text, "{from:.0},{to:.0},{much:.0} ");
    }
    text
}

/// Steps as a path: up, along, down again where nothing follows at once.
fn outline(curves: &CurveChart, curve: &Curve, bottom: f64) -> String {
    let (x, y) = (&curves.x, &curves.y);
    let mut path = String::new();
    let mut last = None;
    for (from, to, much) in &curve.steps {
        let (left, right, top) = (px(along(x, *from)), px(along(x, *to)), px(up(y, *much)));
        let begins = match &last {
            Some(end) if *end == left => String::new(),
            Some(_) => format!("V{}M{left} {}", px(bottom), px(bottom)),
            None => format!("M{left} {}", px(bottom)),
        };
        let _ = write!(path, "{begins}V{top}H{right}");
        last = Some(right);
    }
    if last.is_some() {
        let _ = write!(path, "V{}", px(bottom));
    }
    path
}

/// Steps as a path that begins anew where nothing is known.
fn line(curves: &CurveChart, curve: &Curve) -> String {
    let (x, y) = (&curves.x, &curves.y);
    let mut path = String::new();
    let mut last = None;
    for (from, to, much) in &curve.steps {
        let (left, right, top) = (px(along(x, *from)), px(along(x, *to)), px(up(y, *much)));
        let begins = match &last {
            Some(end) if *end == left => format!("V{top}"),
            _ => format!("M{left} {top}"),
        };
        let _ = write!(path, "{begins}H{right}");
        last = Some(right);
    }
    path
}

/// The part of an axis that lies before a value.
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

fn word(axis: &Axis, value: f64) -> String {
    if axis.is_time { words::time(value) } else { words::plain(value) }
}

/// Round values: powers of ten, or about eight equal steps.
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
    let whole = |n: &f64| axis.is_time || *n >= 1.0;
    all.filter(|n| whole(n) && *n >= axis.from * 0.999 && *n <= axis.to * 1.001).collect()
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
    fn words_of_marks_in_one_place_stand_below_each_other() {
        let mut named: Vec<MarkLabel> = Vec::new();
        for _ in 0..3 {
            let name = MarkLabel::place(400.0, 100.0, "49.00 ms on CPU 3 at 12.30 s", &named);
            assert!(named.iter().all(|other| !name.meets(other)), "{named:?}");
            named.push(name);
        }
        let far = MarkLabel::place(100.0, 100.0, "1 ms", &named);
        assert_eq!(far.y, named[0].y, "what is elsewhere stays where it is");
    }
}
