//! All weights as pictures, and those of the first units as images where examples are images.
//!
//! ```text
//! live: { "units": { "what": "units" or "kernels", "all": count, "width": pixels, "height": pixels,
//!                    "tiles": [{ "cells": signed bytes, "scale": number }, …] } or null,
//!         "parameters": [{ "path": text, "shape": [extent, …], "rows": count, "columns": count,
//!                          "step": [rows, columns], "cells": signed bytes, "scale": number }, …] }
//! ```
//!
//! There are at most 32 tiles, and at most 64 rows and columns of each parameter: if it has more, every second, third, … is
//! shown, as `step` says. The rows are the places of the first axis, the columns those of all others; a vector is one row.
//! `scale` is the size that the bytes 1 and 255 stand for.

use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;
use serde_json::{Value, json};

use super::LiveView;
use crate::encode::signed;
use crate::experiment::network::Network;
use crate::experiment::study::Study;
use crate::experiment::units::Units;

const MOST_TILES: usize = 32;
const MOST_CELLS: usize = 64;
const MOST_PARAMETERS: usize = 100;

struct Weights<'s>(&'s Study);

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    Ok(Some(Box::new(Weights(study))))
}

impl LiveView for Weights<'_> {
    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let units = Units::of(self.0.task.about.view, network, MOST_TILES)?.map(|units| {
            let tile = |weights: &Vec<f64>| {
                let (cells, scale) = signed(weights);
                json!({ "cells": cells, "scale": scale })
            };
            let height = units.tiles.first().map_or(0, Vec::len) / units.width.max(1);
            json!({ "what": units.what, "all": units.all, "width": units.width, "height": height,
                    "tiles": units.tiles.iter().map(tile).collect::<Vec<Value>>() })
        });
        let leaves = network.leaves().into_iter().filter(|(_, leaf)| leaf.is_float());
        let parameters: Vec<Value> = leaves
            .take(MOST_PARAMETERS)
            .map(|(path, leaf)| cells(&path.to_string(), &leaf))
            .collect::<Result<_, Error>>()?;
        Ok(json!({ "units": units, "parameters": parameters }))
    }
}

/// One parameter as a picture.
fn cells(path: &str, leaf: &Tensor) -> Result<Value, Error> {
    let numbers = leaf.to_f64_vec()?;
    let shape: Vec<usize> = leaf.shape().to_vec();
    let rows = if shape.len() > 1 { shape[0] } else { 1 };
    let columns = numbers.len() / rows.max(1);
    let [down, along] = [rows, columns].map(|count| count.div_ceil(MOST_CELLS).max(1));
    let row = |row: usize| (0..columns).step_by(along).map(move |column| row * columns + column);
    let shown: Vec<f64> = (0..rows).step_by(down).flat_map(row).map(|place| numbers[place]).collect();
    let (cells, scale) = signed(&shown);
    Ok(json!({ "path": path, "shape": shape, "rows": rows.div_ceil(down), "columns": columns.div_ceil(along),
               "step": [down, along], "cells": cells, "scale": scale }))
}

#[cfg(test)]
mod tests {
    use glassgrad::expr::Tensor;
    use serde_json::Value;

    use super::cells;
    use crate::encode::tests::read;
    use crate::experiment::settings::{Model, Number};
    use crate::experiment::units::parameter;
    use crate::views::tests::{live_and_fixed, spoiled, suited};

    fn close(byte: u8, scale: &Value, weight: f64) {
        let scale = scale.as_f64().expect("a scale");
        let shown = (f64::from(byte) - 128.0) / 127.0 * scale;
        assert!((shown - weight).abs() <= 0.51 / 127.0 * scale, "{shown} and {weight}");
    }

    #[test]
    fn tiles_are_columns_of_the_first_weights() {
        for dtype in [Number::F32, Number::F64] {
            let study = suited("digits", |settings| settings.dtype = dtype);
            let (_, live) = live_and_fixed("weights", &study, &study.start);
            let weights = parameter(&study.start, "layers.0.weight").expect("weights").to_f64_vec().expect("numbers");
            let tiles = live["units"]["tiles"].as_array().expect("tiles");
            assert_eq!(
                (tiles.len(), live["units"]["all"].as_u64(), live["units"]["height"].as_u64()),
                (32, Some(256), Some(8))
            );
            for (unit, pixel) in [(0, 0), (31, 63), (5, 17)] {
                close(read(&tiles[unit]["cells"])[pixel], &tiles[unit]["scale"], weights[256 * pixel + unit]);
            }
            let first = &live["parameters"][0];
            assert_eq!((first["path"].as_str(), &first["step"]), (Some("layers.0.weight"), &[1, 4].into()));
            let bytes = read(&first["cells"]);
            assert_eq!(bytes.len(), 64 * 64);
            for (row, column) in [(0, 0), (63, 63), (7, 21)] {
                close(bytes[64 * row + column], &first["scale"], weights[256 * row + 4 * column]);
            }
        }
    }

    #[test]
    fn every_family_and_shape_has_pictures() {
        for model in [Model::Sparse, Model::Cnn, Model::Lstm, Model::Transformer] {
            let study = suited("digits", |settings| {
                settings.model = model;
                settings.layers = if model == Model::Cnn { vec![5, 8] } else { vec![8] };
            });
            let (_, live) = live_and_fixed("weights", &study, &spoiled(&study.start));
            assert_eq!(live["units"]["what"].as_str(), (model == Model::Cnn).then_some("kernels"));
            for parameter in live["parameters"].as_array().expect("parameters") {
                let count = |side: &str| parameter[side].as_u64().expect("a count") as usize;
                assert_eq!(read(&parameter["cells"]), vec![0; count("rows") * count("columns")]);
            }
        }
        let vector = cells("bias", &Tensor::from([0.0, -1.0])).expect("a picture");
        assert_eq!((&vector["rows"], &vector["columns"], read(&vector["cells"])), (&1.into(), &2.into(), vec![128, 1]));
        for odd in [Tensor::from(2.0), Tensor::ones([0, 3]), Tensor::ones([2, 3, 4])] {
            let picture = cells("odd", &odd).expect("a picture");
            assert_eq!(read(&picture["cells"]).len(), odd.shape().elements());
        }
    }
}
