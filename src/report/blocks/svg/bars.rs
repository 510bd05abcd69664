//! Bar charts on a logarithmic scale: the rate of each cause, a bar for each document. None and
//! unknown are words, so that neither can be mistaken for the other.

use super::shapes::{SvgDrawing, count, px, series, text_width};
use crate::report::blocks::{BarChart, words};
use maud::html;

const WIDTH: f64 = 860.0;
const BAR: f64 = 15.0;
const BETWEEN: f64 = 12.0;
const TOP: f64 = 6.0;
/// The space for the amount after the longest bar.
const AMOUNT: f64 = 92.0;

/// Draws a bar chart.
pub(super) fn draw(bars: &BarChart) -> SvgDrawing {
    let names = bars.rows.iter().map(|row| text_width(&row.label, 12.5));
    let left = names.fold(60.0_f64, f64::max) + 14.0;
    let (least, most) = bars.range();
    let (from, to) = if least > most { (0.1, 1.0) } else { (decade(least) / 10.0, above(most)) };
    let room = WIDTH - left - AMOUNT;
    let length = |n: f64| room * (n / from).log10() / (to / from).log10();
    let each = BAR * count(bars.series.len().max(1)) + BETWEEN;
    let height = TOP + each * count(bars.rows.len()) + 22.0;
    let bottom = height - 22.0;
    let inside = html! {
        @for n in powers(from * 10.0, to) {
            @let x = px(left + length(n));
            line class="grid" x1=(x) x2=(x) y1="0" y2=(px(bottom)) {}
            text class="tick" x=(x) y=(px(bottom + 15.0)) text-anchor="middle" {
                (words::plain(n))
            }
        }
        @for (nth, row) in bars.rows.iter().enumerate() {
            @let y = TOP + each * count(nth);
            @let middle = y + BAR * count(bars.series.len()) / 2.0 + 4.5;
            text class="label" x=(px(left - 10.0)) y=(px(middle)) text-anchor="end" { (row.label) }
            @for (n, amount) in row.amounts.iter().enumerate() {
                @let y = y + BAR * count(n);
                @match amount {
                    Some(much) if *much > 0.0 => {
                        rect class=(format!("bar {}", series(n))) x=(px(left)) y=(px(y))
                            width=(px(length(*much).max(2.0))) height=(px(BAR - 2.0)) rx="2" {}
                        text class="amount" x=(px(left + length(*much) + 6.0)) y=(px(y + 10.5)) {
                            (words::plain(*much)) " " (bars.unit)
                        }
                    }
                    Some(_) => {
                        text class="amount none" x=(px(left + 4.0)) y=(px(y + 10.5)) { "none" }
                    }
                    None => {
                        text class="amount unknown" x=(px(left + 4.0)) y=(px(y + 10.5)) {
                            "? unknown"
                        }
                    }
                }
            }
        }
        line class="axis" x1=(px(left)) x2=(px(left)) y1="0" y2=(px(bottom)) {}
    };
    SvgDrawing { class: "bars", width: WIDTH, height, inside, plot: None }
}

fn decade(n: f64) -> f64 {
    10.0_f64.powf(n.log10().floor())
}

/// The power of ten above a number.
fn above(n: f64) -> f64 {
    10.0_f64.powf((n * 1.001).log10().ceil())
}

fn powers(from: f64, to: f64) -> Vec<f64> {
    let powers = std::iter::successors(Some(from), |n| Some(n * 10.0));
    powers.take(30).take_while(|n| *n <= to * 1.001).collect()
}
