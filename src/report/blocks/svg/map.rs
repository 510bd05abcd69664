//! The map of CPUs: packages, NUMA nodes and L3, L2, cores, threads, as nested frames.

use super::shapes::{SvgDrawing, px, text_width};
use crate::documents::count_text::joined;
use crate::report::blocks::{Cluster, Core, CpuMap, MapRole, NodeGroup, Package};
use cpushield_linux::CpuSet;
use maud::{Markup, html};

const CPU: (f64, f64) = (88.0, 46.0);
const GAP: f64 = 6.0;
const PAD: f64 = 8.0;
/// The height of the name of a frame.
const NAME: f64 = 18.0;
/// The largest width of a frame, unless a single core is wider.
const WIDTH: f64 = 840.0;

/// A laid-out element: its size, and a function that draws it at a position.
struct MapPiece {
    width: f64,
    height: f64,
    draw: Box<dyn FnOnce(f64, f64) -> Markup>,
}

/// Draws the map.
pub(super) fn draw(map: &CpuMap) -> SvgDrawing {
    let mut pieces: Vec<MapPiece> = map.packages.iter().map(package).collect();
    if !map.offline.is_empty() {
        pieces.push(offline(&map.offline));
    }
    let flow = flow(pieces, WIDTH + 4.0 * PAD);
    let (width, height) = (flow.width + 2.0, flow.height + 2.0);
    SvgDrawing { class: "map", width, height, inside: (flow.draw)(1.0, 1.0), plot: None }
}

fn package(package: &Package) -> MapPiece {
    let groups = package.groups.iter().map(group).collect();
    frame("package", package.name.clone(), flow(groups, WIDTH + 2.0 * PAD))
}

fn group(group: &NodeGroup) -> MapPiece {
    // Cores with an L2 each need no cluster frame.
    let apart = group.clusters.iter().any(|cluster| cluster.cores.len() > 1);
    let clusters: Vec<MapPiece> = if apart {
        group.clusters.iter().map(cluster).collect()
    } else {
        let cores = group.clusters.iter().flat_map(|c| c.cores.iter().map(|core| (core, &c.name)));
        cores.map(|(inner, name)| core(inner, name)).collect()
    };
    let inside = flow(clusters, WIDTH);
    if group.name.is_empty() { inside } else { frame("node", group.name.clone(), inside) }
}

fn cluster(cluster: &Cluster) -> MapPiece {
    let cores = cluster.cores.iter().map(|inner| core(inner, "")).collect();
    frame("cluster", cluster.name.clone(), flow(cores, WIDTH - 2.0 * PAD))
}

fn core(core: &Core, cache: &str) -> MapPiece {
    let cpus = core.cpus.iter().map(|(number, role)| cpu(*number, *role)).collect();
    let parts = [core.name.as_str(), cache].into_iter().filter(|part| !part.is_empty());
    let name = joined(parts, " · ");
    frame("core", name, flow(cpus, WIDTH))
}

fn offline(cpus: &CpuSet) -> MapPiece {
    let pieces = cpus.iter().map(|number| cpu(number, MapRole::Offline)).collect();
    frame("package", "offline".to_owned(), flow(pieces, WIDTH))
}

fn cpu(number: usize, role: MapRole) -> MapPiece {
    let (width, height) = CPU;
    let class = match role {
        MapRole::Shielded => "cpu shielded",
        MapRole::Idle => "cpu idle",
        MapRole::Housekeeping => "cpu house",
        MapRole::Isolated => "cpu isolated",
        MapRole::Used => "cpu used",
        MapRole::Offline => "cpu offline",
    };
    let draw = move |x: f64, y: f64| {
        html! {
            g class=(class) {
                rect x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) rx="5" {}
                @if role == MapRole::Shielded {
                    path class="glyph" d=(format!("M{} {}l7 -3 7 3v5q0 6 -7 9q-7 -3 -7 -9z",
                        px(x + 7.0), px(y + 9.0))) {}
                }
                text class="number" x=(px(x + if role == MapRole::Shielded { 26.0 } else { 9.0 }))
                    y=(px(y + 21.0)) { "CPU " (number) }
                text class="role" x=(px(x + 9.0)) y=(px(y + 38.0)) { (role.word()) }
            }
        }
    };
    MapPiece { width, height, draw: Box::new(draw) }
}

/// A named frame around an element.
fn frame(class: &'static str, name: String, inside: MapPiece) -> MapPiece {
    let size = if class == "core" { 10.5 } else { 12.0 };
    let top = if name.is_empty() { PAD } else { NAME + 4.0 };
    let width = (inside.width + 2.0 * PAD).max(text_width(&name, size) + 2.0 * PAD);
    let height = inside.height + top + PAD;
    let draw = move |x: f64, y: f64| {
        html! {
            g class=(class) {
                rect x=(px(x)) y=(px(y)) width=(px(width)) height=(px(height)) rx="8" {}
                text class="name" x=(px(x + PAD)) y=(px(y + 16.0)) { (name) }
            }
            ((inside.draw)(x + PAD, y + top))
        }
    };
    MapPiece { width, height, draw: Box::new(draw) }
}

/// Arranges elements in rows no wider than `width`.
fn flow(pieces: Vec<MapPiece>, width: f64) -> MapPiece {
    let (mut x, mut y, mut row, mut widest) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let mut placed = Vec::new();
    for piece in pieces {
        if x > 0.0 && x + piece.width > width {
            y += row + GAP;
            (x, row) = (0.0, 0.0);
        }
        let at = (x, y);
        x += piece.width + GAP;
        row = row.max(piece.height);
        widest = widest.max(x - GAP);
        placed.push((at, piece));
    }
    let height = y + row;
    let draw = move |left: f64, top: f64| {
        html! { @for ((x, y), piece) in placed { ((piece.draw)(left + x, top + y)) } }
    };
    MapPiece { width: widest, height, draw: Box::new(draw) }
}
