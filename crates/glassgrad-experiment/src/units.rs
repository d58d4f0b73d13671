//! First-layer weights as images, where examples are images.

use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;

use super::network::Network;
use super::task::View;

/// The weights of the first units, each as an image.
pub struct Units {
    /// The weights of each, row by row.
    pub tiles: Vec<Vec<f64>>,
    /// The width of an image of weights.
    pub width: usize,
    /// The total number of units.
    pub all: usize,
    /// Their name: units, or kernels.
    pub what: &'static str,
}

/// A parameter of a network by its path.
pub fn parameter(network: &Network, path: &str) -> Option<Tensor> {
    network.leaves().into_iter().find(|(own, _)| own.to_string() == path).map(|(_, leaf)| leaf)
}

impl Units {
    /// At most `most` units of a network with weights for every pixel, or with small windows.
    pub fn of(view: View, network: &Network, most: usize) -> Result<Option<Units>, Error> {
        let View::Image { height, width } = view else { return Ok(None) };
        let (weights, width, what) =
            match (parameter(network, "layers.0.weight"), parameter(network, "convolutions.0.weight")) {
                // A column for each unit.
                (Some(weight), _) if weight.shape().first() == Some(&(height * width)) && weight.shape().len() == 2 => {
                    (weight.transpose(), width, "units")
                }
                (_, Some(kernels)) if kernels.shape().len() == 4 && kernels.shape()[1] == 1 => {
                    let width = kernels.shape()[3];
                    (kernels, width, "kernels")
                }
                _ => return Ok(None),
            };
        let all = weights.shape().first().copied().unwrap_or(0);
        let mut tiles = rows(&weights)?;
        tiles.truncate(most);
        Ok(Some(Units { tiles, width, all, what }))
    }
}

/// The numbers of a tensor, a list for each place of its first axis.
fn rows(tensor: &Tensor) -> Result<Vec<Vec<f64>>, Error> {
    let count = tensor.shape().first().copied().unwrap_or(0);
    let numbers = tensor.to_f64_vec()?;
    Ok(numbers.chunks((numbers.len() / count.max(1)).max(1)).map(<[f64]>::to_vec).collect())
}
