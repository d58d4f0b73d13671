//! Places for the nodes of a layered graph.

use crate::sorting::IndirectSort;

/// How often the order inside the layers is improved.
const ROUNDS: usize = 12;

/// The input of the layout: the width of each box, its height in rows, and the edges from parents to children.
pub(super) struct LayoutGraph {
    pub(super) widths: Vec<f64>,
    pub(super) rows: Vec<f64>,
    pub(super) edges: Vec<(usize, usize)>,
}

/// The layout: the centre of each box, and the polyline of each edge.
pub(super) struct Layout {
    pub(super) centres: Vec<(f64, f64)>,
    pub(super) paths: Vec<Vec<(f64, f64)>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The distances of a layout.
pub(super) struct Spacing {
    pub(super) row: f64,
    pub(super) gap: f64,
    pub(super) margin: f64,
}

/// Lays a graph out from left to right. Nodes must stand after their parents.
///
/// An edge over several layers gets a waypoint in each layer between, which takes part in the
/// ordering like a node, so that long edges do not run through boxes.
pub(super) fn layered(graph: &LayoutGraph, spacing: &Spacing) -> Layout {
    let count = graph.widths.len();
    let mut layer_of: Vec<usize> = vec![0; count];
    for (parent, child) in &graph.edges {
        layer_of[*child] = layer_of[*child].max(layer_of[*parent] + 1);
    }
    // An input used only late stands next to its first use, not far to the left.
    for node in 0..count {
        let is_root = graph.edges.iter().all(|(_, child)| *child != node);
        let first_use =
            graph.edges.iter().filter(|(parent, _)| *parent == node).map(|(_, child)| layer_of[*child]).min();
        if let (true, Some(first_use)) = (is_root, first_use) {
            layer_of[node] = first_use - 1;
        }
    }
    let mut links: Vec<(usize, usize)> = Vec::new();
    let mut chains: Vec<Vec<usize>> = Vec::new();
    for (parent, child) in &graph.edges {
        let mut chain = vec![*parent];
        for layer in layer_of[*parent] + 1..layer_of[*child] {
            layer_of.push(layer);
            chain.push(layer_of.len() - 1);
        }
        chain.push(*child);
        links.extend(chain.windows(2).map(|pair| (pair[0], pair[1])));
        chains.push(chain);
    }
    let layers = ordered_layers(&layer_of, &links);
    // A waypoint takes one row.
    let tall = |node: usize| graph.rows.get(node).copied().unwrap_or(1.0);
    let rows = relaxed_rows(&layers, &links, layer_of.len(), &tall);
    let mut left = spacing.margin;
    let mut x_of = vec![0.0; layer_of.len()];
    for layer in &layers {
        let widest = layer.iter().filter(|node| **node < count).map(|node| graph.widths[*node]).fold(0.0, f64::max);
        for node in layer {
            x_of[*node] = left + widest / 2.0;
        }
        left += widest + spacing.gap;
    }
    let edge = |side: f64| rows.iter().enumerate().map(move |(node, row)| row + side * tall(node) / 2.0);
    let (top, bottom) = (edge(-1.0).fold(f64::INFINITY, f64::min), edge(1.0).fold(f64::NEG_INFINITY, f64::max));
    let y_of = |node: usize| spacing.margin + spacing.row * (rows[node] - top);
    Layout {
        centres: (0..count).map(|node| (x_of[node], y_of(node))).collect(),
        paths: chains.iter().map(|chain| chain.iter().map(|node| (x_of[*node], y_of(*node))).collect()).collect(),
        width: left - spacing.gap + spacing.margin,
        height: 2.0 * spacing.margin + spacing.row * (bottom - top),
    }
}

/// The nodes of each layer, in an order with few crossings: each node goes to the mean place of its
/// neighbours in the layer before, then in the layer after, in turns.
fn ordered_layers(layer_of: &[usize], links: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); layer_of.iter().max().map_or(0, |last| last + 1)];
    for (node, layer) in layer_of.iter().enumerate() {
        layers[*layer].push(node);
    }
    let (parents, children) = neighbours(links, layer_of.len());
    let mut best = (crossings(&layers, links, layer_of), layers.clone());
    for round in 0..ROUNDS {
        let forward = round % 2 == 0;
        let order: Vec<usize> =
            if forward { (1..layers.len()).collect() } else { (0..layers.len().saturating_sub(1)).rev().collect() };
        for layer in order {
            let place = places(&layers, layer_of.len());
            let near = if forward { &parents } else { &children };
            let mean = |node: &usize| match near[*node].len() {
                0 => place[*node],
                degree => near[*node].iter().map(|other| place[*other]).sum::<f64>() / degree as f64,
            };
            let mut keyed: Vec<(f64, usize)> = layers[layer].iter().map(|node| (mean(node), *node)).collect();
            keyed.indirect_sort_by(|a, b| a.0.total_cmp(&b.0));
            layers[layer] = keyed.into_iter().map(|(_, node)| node).collect();
        }
        let now = crossings(&layers, links, layer_of);
        if now < best.0 {
            best = (now, layers.clone());
        }
    }
    best.1
}

fn neighbours(links: &[(usize, usize)], count: usize) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let (mut parents, mut children) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (parent, child) in links {
        parents[*child].push(*parent);
        children[*parent].push(*child);
    }
    (parents, children)
}

fn places(layers: &[Vec<usize>], count: usize) -> Vec<f64> {
    let mut place = vec![0.0; count];
    for layer in layers {
        for (index, node) in layer.iter().enumerate() {
            place[*node] = index as f64 - (layer.len() - 1) as f64 / 2.0;
        }
    }
    place
}

/// How many pairs of links between neighbouring layers cross.
fn crossings(layers: &[Vec<usize>], links: &[(usize, usize)], layer_of: &[usize]) -> usize {
    let place = places(layers, layer_of.len());
    let mut by_layer: Vec<Vec<(f64, f64)>> = vec![Vec::new(); layers.len()];
    for (parent, child) in links {
        by_layer[layer_of[*parent]].push((place[*parent], place[*child]));
    }
    let cross = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0) * (a.1 - b.1) < 0.0;
    by_layer
        .iter()
        .map(|links| {
            links.iter().enumerate().map(|(k, a)| links[..k].iter().filter(|b| cross(a, b)).count()).sum::<usize>()
        })
        .sum()
}

/// The row of each node: near the mean of its neighbours, and far enough from the next in its layer that both
/// have room.
fn relaxed_rows(
    layers: &[Vec<usize>],
    links: &[(usize, usize)],
    count: usize,
    tall: &impl Fn(usize) -> f64,
) -> Vec<f64> {
    let (parents, children) = neighbours(links, count);
    let mut rows = places(layers, count);
    for round in 0..ROUNDS {
        let indices: Vec<usize> =
            if round % 2 == 0 { (0..layers.len()).collect() } else { (0..layers.len()).rev().collect() };
        for layer in indices {
            let wished: Vec<f64> = layers[layer]
                .iter()
                .map(|node| {
                    let near: Vec<f64> =
                        parents[*node].iter().chain(&children[*node]).map(|other| rows[*other]).collect();
                    if near.is_empty() { rows[*node] } else { near.iter().sum::<f64>() / near.len() as f64 }
                })
                .collect();
            // Pushed apart from the top and from the bottom, the mean of both is fair to all.
            let apart = |k: usize| (tall(layers[layer][k - 1]) + tall(layers[layer][k])) / 2.0;
            let mut down = wished.clone();
            for k in 1..down.len() {
                down[k] = down[k].max(down[k - 1] + apart(k));
            }
            let mut up = wished;
            for k in (1..up.len()).rev() {
                up[k - 1] = up[k - 1].min(up[k] - apart(k));
            }
            for (k, node) in layers[layer].iter().enumerate() {
                rows[*node] = (down[k] + up[k]) / 2.0;
            }
        }
    }
    rows
}
