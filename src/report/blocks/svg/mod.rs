//! Charts → SVG, inside a page or as a file. Colours come from the style sheet, so they follow the
//! reader's light or dark mode.

mod bars;
mod curves;
mod map;
mod shapes;

pub(super) use shapes::series;

use super::clean::clean;
use super::{Drawing, Picture};
use maud::{Markup, PreEscaped, html};
use shapes::{SvgDrawing, count, px};

/// The colours of the charts, for the page and for a standalone SVG.
pub const STYLE: &str = include_str!("../picture.css");

/// The SVG of a chart inside a page.
#[must_use]
pub fn inline(picture: &Picture) -> Markup {
    let name = format!("{}-title", picture.id);
    let about = format!("{}-about", picture.id);
    let drawn = draw(picture);
    html! {
        svg class=(drawn.class) role="img" aria-labelledby=(name) aria-describedby=(about)
            viewBox=(format!("0 0 {:.0} {:.0}", drawn.width, drawn.height))
            width=(format!("{:.0}", drawn.width)) height=(format!("{:.0}", drawn.height))
            data-plot=[drawn.plot] {
            title id=(name) { (picture.title) }
            desc id=(about) { (picture.about) }
            (drawn.inside)
        }
    }
}

/// A chart as a standalone SVG file.
#[must_use]
pub fn standalone(picture: &Picture) -> String {
    let drawn = draw(picture);
    let legend = legend(&picture.drawing, drawn.height + 8.0);
    let (width, height) = (drawn.width + 24.0, drawn.height + legend.1 + 52.0);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" class=(drawn.class)
            viewBox=(format!("0 0 {width:.0} {height:.0}"))
            width=(format!("{width:.0}")) height=(format!("{height:.0}")) {
            title { (picture.title) }
            desc { (picture.about) }
            style { (PreEscaped(STYLE)) }
            rect class="paper" width="100%" height="100%" {}
            text class="headline" x="12" y="26" { (picture.title) }
            g transform="translate(12 40)" { (drawn.inside) (legend.0) }
        }
    };
    clean(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", svg.into_string()))
}

fn draw(picture: &Picture) -> SvgDrawing {
    match &picture.drawing {
        Drawing::Map(map) => map::draw(map),
        Drawing::Bars(bars) => bars::draw(bars),
        Drawing::Curves(curves) => curves::draw(curves, &picture.id),
    }
}

/// The names of the series below a standalone chart, and the height of that legend.
fn legend(drawing: &Drawing, top: f64) -> (Markup, f64) {
    let names = drawing.series();
    if names.is_empty() {
        return (html! {}, 0.0);
    }
    let markup = html! {
    @for (n, name) in names.iter().enumerate() {
    @let y = top + 18.0 * count(n);
    rect class=(format!("key {}", series(n))) x="8" y=(px(y)) width="22" height="11" {}
    text class="label" x="38" y=(px(y + 10.0)) { (name) }
        }
    };
    (markup, 18.0 * count(names.len()) + 12.0)
}
