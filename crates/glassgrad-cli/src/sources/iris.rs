//! Fisher's irises, in the program.

use glassgrad::Tensor;
use glassgrad::data::{Labelled, Source};
use glassgrad::error::Error;

/// The table, as shipped with scikit-learn: a line of counts and names, then four lengths and the species.
pub(crate) const IRIS: &str = include_str!("../../../glassgrad/examples/data/iris.csv");

const LENGTHS: [&str; 4] = ["sepal length", "sepal width", "petal length", "petal width"];
const SPECIES: [&str; 3] = ["setosa", "versicolor", "virginica"];

/// 150 flowers of three species, by four lengths in centimetres.
pub(crate) fn iris() -> Result<Source, Error> {
    let (mut lengths, mut species) = (Vec::new(), Vec::new());
    for line in IRIS.lines().skip(1) {
        let numbers: Vec<f32> = line.split(',').filter_map(|number| number.parse().ok()).collect();
        lengths.extend_from_slice(&numbers[..4]);
        species.push(numbers[4] as i64);
    }
    let features = Tensor::new(&lengths, [species.len(), LENGTHS.len()]);
    Ok(Source {
        name: "iris".to_owned(),
        title: "Fisher's irises: three species by four lengths in centimetres".to_owned(),
        feature_names: LENGTHS.map(str::to_owned).to_vec(),
        examples: Labelled::classes(features, Tensor::from(species), SPECIES.map(str::to_owned).to_vec())?,
        test: None,
    })
}
