//! Histograms of the weights and gradients of each parameter, from the first layer to the last.
//!
//! ```text
//! live: { "examples": count, "parameters": [{ "path": text, "shape": [extent, …],
//!           "numbers": { "low": number, "high": number, "counts": [24 counts], "lost": count, "size": number },
//!           "gradients": the same }, …] }
//! ```
//!
//! The bins are equally wide from `low` to `high`; `lost` numbers are not finite; the size is the root of the mean square of
//! all. Gradients are those of the loss of the first examples of the training set, without dropout.

use glassgrad::error::Error;
use glassgrad::expr::Tensor;
use glassgrad::tree::Tree as _;
use glassgrad::{compile, grad};
use serde_json::{Value, json};

use super::LiveView;
use crate::encode::rounded;
use crate::experiment::network::Network;
use crate::experiment::predictions::Histogram;
use crate::experiment::study::Study;

const BINS: usize = 24;
const MOST_PARAMETERS: usize = 200;

/// From a network to the gradients of its loss.
type Gradients<'s> = Box<dyn Fn(&Network) -> Result<Network, Error> + 's>;

struct Histograms<'s> {
    examples: usize,
    gradients: Gradients<'s>,
}

pub(super) fn make(study: &Study) -> Result<Option<Box<dyn LiveView + '_>>, Error> {
    let sample = study.sample()?.realise()?;
    let examples = sample.0.shape().first().copied().unwrap_or(0);
    let gradients = compile(|(network, batch): &(Network, (Tensor, Tensor))| {
        grad(|network: &Network| study.objective.of_batch_plainly(network, batch))(network)
    });
    let gradients = move |network: &Network| gradients.call(&(network.clone(), sample.clone()));
    Ok(Some(Box::new(Histograms { examples, gradients: Box::new(gradients) })))
}

impl LiveView for Histograms<'_> {
    fn evaluate(&mut self, network: &Network) -> Result<Value, Error> {
        let gradients = (self.gradients)(network)?.flatten();
        let leaves = network.leaves().into_iter().zip(gradients).filter(|((_, leaf), _)| leaf.is_float());
        let parameter = |((path, leaf), gradients): ((glassgrad::tree::Path, Tensor), Tensor)| {
            Ok(json!({ "path": path.to_string(), "shape": leaf.shape().to_vec(), "numbers": spread(&leaf)?,
                       "gradients": spread(&gradients)? }))
        };
        let parameters = leaves.take(MOST_PARAMETERS).map(parameter).collect::<Result<Vec<Value>, Error>>()?;
        Ok(json!({ "examples": self.examples, "parameters": parameters }))
    }
}

/// The numbers of a tensor, counted.
fn spread(tensor: &Tensor) -> Result<Value, Error> {
    let numbers = tensor.to_f64_vec()?;
    let Histogram { low, high, counts, lost } = Histogram::of(&numbers, BINS);
    let squares: f64 = numbers.iter().map(|number| number * number).sum();
    let size = if numbers.is_empty() { 0.0 } else { (squares / numbers.len() as f64).sqrt() };
    Ok(json!({ "low": rounded(low), "high": rounded(high), "counts": counts, "lost": lost, "size": rounded(size) }))
}

#[cfg(test)]
mod tests {
    use glassgrad::tree::Tree as _;

    use crate::experiment::settings::{Model, Number};
    use crate::experiment::units::parameter;
    use crate::views::tests::{live_and_fixed, moved, spoiled, suited};

    #[test]
    fn every_number_is_counted_and_gradients_are_gradients() {
        // Finite differences are computed in 64 bits.
        let study = suited("iris", |settings| settings.dtype = Number::F64);
        let (_, live) = live_and_fixed("histograms", &study, &study.start);
        let sample = study.sample().expect("examples");
        let loss = |network: &_| study.objective.of_batch_plainly(network, &sample).item().expect("a loss");
        for shown in live["parameters"].as_array().expect("parameters") {
            let path = shown["path"].as_str().expect("a path");
            let leaf = parameter(&study.start, path).expect("the parameter");
            let elements = leaf.shape().elements();
            for of in ["numbers", "gradients"] {
                let counts = shown[of]["counts"].as_array().expect("counts");
                let sum: u64 = counts.iter().filter_map(serde_json::Value::as_u64).sum();
                assert_eq!((counts.len(), sum as usize), (24, elements));
            }
            let step = 1e-5;
            let gradient = |place: usize| {
                let [after, before] = [step, -step].map(|step| loss(&moved(&study.start, path, place, step)));
                (after - before) / (2.0 * step)
            };
            let gradients: Vec<f64> = (0..elements).map(gradient).collect();
            let size = (gradients.iter().map(|gradient| gradient * gradient).sum::<f64>() / elements as f64).sqrt();
            let shown_size = shown["gradients"]["size"].as_f64().expect("a size");
            assert!((shown_size - size).abs() <= 1e-5 * size, "{path}: {shown_size} and {size}");
            let largest = gradients.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(
                (shown["gradients"]["high"].as_f64().expect("an end") - largest).abs() <= 1e-6 + 1e-5 * largest.abs()
            );
        }
        assert_eq!(live["examples"].as_u64(), Some(120));
    }

    #[test]
    fn spoiled_weights_are_lost_and_whole_numbers_left_out() {
        let study = suited("moons", |settings| (settings.model, settings.layers) = (Model::Sparse, vec![6]));
        let (_, live) = live_and_fixed("histograms", &study, &spoiled(&study.start));
        let parameters = live["parameters"].as_array().expect("parameters");
        let floats = study.start.flatten().iter().filter(|leaf| leaf.is_float()).count();
        assert_eq!(parameters.len(), floats);
        assert!(floats < study.start.flatten().len(), "wires are whole numbers");
        for shown in parameters {
            assert_eq!(shown["numbers"]["size"], "NaN");
            assert!(shown["numbers"]["lost"].as_u64() > Some(0));
        }
    }
}
