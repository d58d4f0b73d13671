//! Fisher's irises, in the program.

use glassgrad::data::Source;
use glassgrad::data::files::Table;
use glassgrad::error::Error;

/// The table, as shipped with scikit-learn: a line of counts and names, then four lengths and the species.
pub const IRIS: &str = include_str!("../../../glassgrad/examples/data/iris.csv");

const LENGTHS: [&str; 4] = ["sepal length", "sepal width", "petal length", "petal width"];

/// 150 flowers of three species, by four lengths in centimetres.
pub fn iris() -> Result<Source, Error> {
    Ok(Source {
        title: "Fisher's irises: three species by four lengths in centimetres".to_owned(),
        feature_names: LENGTHS.map(str::to_owned).to_vec(),
        ..Table::parse(IRIS)?.source("iris", None, None)?
    })
}
