//! Checkpoints: parts of a function of which nothing is kept for the way back.
//!
//! A checkpoint is a region of the graph: one operation, whose inside is computed when an output is read. Its derivative is a
//! region again, which recomputes the inside from the same inputs and then the cotangents; it waits until
//! cotangents arrive, so that what it makes does not live through everything in between. Regions are opened after
//! common subexpressions have been found, since what is computed anew is just that.

use std::panic::Location;
use std::sync::Arc;

use super::batch::batched;
use super::forward::pushforward;
use super::reverse::{Parts, Seed, swept};
use super::transforms::{Outcome, failed_like, trace};
use crate::dtype::DType;
use crate::expr::{MultiOp, Region, Subgraph, Tensor};
use crate::shape::Shape;
use crate::tree::Tree;

/// The same function, of which reverse mode keeps nothing but the arguments: what is inside is computed anew when its
/// cotangent arrives. Values and derivatives are the same; memory goes down, and the inside runs once more.
///
/// ```
/// use glassgrad::{Tensor, checkpoint, grad};
/// let layer = |x: &Tensor| x.sin().exp().tanh();
/// let x = Tensor::from([0.1, 0.2]);
/// let plain = grad(|x: &Tensor| layer(&layer(x)).sum())(&x);
/// let anew = grad(|x: &Tensor| checkpoint(layer)(&checkpoint(layer)(x)).sum())(&x);
/// assert_eq!(anew.to_string(), plain.to_string());
/// ```
#[track_caller]
pub fn checkpoint<X: Tree, R: Outcome>(function: impl Fn(&X) -> R) -> impl Fn(&X) -> R::Tree {
    let origin = Location::caller();
    move |x| {
        let since = Tensor::placeholder(Shape::scalar(), DType::F32).0.id;
        let traced = trace(&function, x);
        let (inputs, results) = (x.flatten(), traced.result.flatten());
        if let Some(error) = inputs.iter().chain(&results).find_map(Tensor::error) {
            return failed_like(&traced.result, &error.clone());
        }
        let body = Subgraph { parameters: traced.variables.flatten(), outputs: results, since: Some(since) };
        traced.result.with_leaves(region(body, &inputs, Vec::new(), origin))
    }
}

/// The results of a region, whose parameters stand for these inputs.
pub(super) fn region(
    body: Subgraph,
    inputs: &[Tensor],
    awaited: Vec<usize>,
    origin: &'static Location<'static>,
) -> Vec<Tensor> {
    MultiOp::Remat(Arc::new(Region { body, awaited })).outputs(inputs, origin)
}

/// What stands for an input inside: a parameter, or a captured tensor itself.
fn inside<'t>(body: &'t Subgraph, inputs: &'t [Tensor], number: usize) -> &'t Tensor {
    body.parameters.get(number).unwrap_or(&inputs[number])
}

/// The cotangents of the requested inputs: a region that computes everything anew, once those of the results
/// are there.
pub(super) fn pull(
    body: &Subgraph,
    inputs: &[Tensor],
    requested: &[bool],
    parts: &Parts,
    lead: &[usize],
    snapshots: Option<usize>,
) -> Vec<Option<(Tensor, bool)>> {
    let mut numbers: Vec<usize> = parts.keys().copied().collect();
    numbers.sort_unstable();
    let results = numbers.iter().map(|number| &body.outputs[*number]);
    let led = |result: &Tensor| Shape::from(lead).followed_by(result.shape());
    let seed = |(result, number): (&Tensor, &usize)| -> Seed {
        (result.clone(), Tensor::placeholder(led(result), result.dtype()), parts[number].1)
    };
    let seeds: Vec<Seed> = results.zip(&numbers).map(seed).collect();
    let variables: Vec<&Tensor> =
        (0..inputs.len()).filter(|number| requested[*number]).map(|number| inside(body, inputs, number)).collect();
    let found = swept(&seeds, &variables, lead, false, snapshots);
    let count = body.parameters.len();
    let parameters = body.parameters.iter().chain(seeds.iter().map(|(_, seed, _)| seed)).cloned().collect();
    let cotangents = numbers.iter().map(|number| parts[number].0.clone());
    let given: Vec<Tensor> = inputs[..count].iter().cloned().chain(cotangents).collect();
    let pulled: Vec<Option<&(Tensor, bool)>> = (0..inputs.len())
        .map(|number| requested[number].then(|| found.get(&inside(body, inputs, number).0.id)).flatten())
        .collect();
    let outputs = pulled.iter().flatten().map(|(cotangent, _)| cotangent.clone()).collect();
    let awaited = (count..count + numbers.len()).collect();
    let body = Subgraph { parameters, outputs, since: body.since };
    let mut created = region(body, &given, awaited, Location::caller()).into_iter();
    pulled.into_iter().map(|found| found.and_then(|(_, masked)| Some((created.next()?, *masked)))).collect()
}

/// The tangents of the results that have one.
pub(super) fn push(
    region: &Region,
    inputs: &[Tensor],
    moved: &[Option<Tensor>],
    lead: &[usize],
) -> Vec<Option<Tensor>> {
    let body = &region.body;
    let mut parameters = body.parameters.clone();
    let mut given = inputs[..parameters.len()].to_vec();
    let mut variables: Vec<(&Tensor, Tensor)> = Vec::new();
    for (number, tangent) in moved.iter().enumerate() {
        let Some(tangent) = tangent else { continue };
        let placeholder = Tensor::placeholder(tangent.shape().clone(), tangent.dtype());
        variables.push((inside(body, inputs, number), placeholder.clone()));
        parameters.push(placeholder);
        given.push(tangent.clone());
    }
    let pushed = pushforward(&body.outputs.iter().collect::<Vec<_>>(), &variables, lead);
    let outputs = pushed.iter().flatten().cloned().collect();
    let body = Subgraph { parameters, outputs, since: body.since };
    let mut created = self::region(body, &given, region.awaited.clone(), Location::caller()).into_iter();
    pushed.into_iter().map(|found| found.and_then(|_| created.next())).collect()
}

/// All results with a leading axis, when some inputs have one.
pub(super) fn batch(
    region: &Region,
    originals: &[Tensor],
    inputs: &[Tensor],
    with_axis: &[bool],
    size: usize,
) -> Vec<Tensor> {
    // A captured tensor with the axis was created before this; what depends on no example stays outside.
    let Region { body, awaited } = region;
    let since = body.since.map(|_| Tensor::placeholder(Shape::scalar(), DType::F32).0.id);
    let count = body.parameters.len();
    let mut parameters = body.parameters.clone();
    let mut replaced: Vec<(&Tensor, Tensor)> = Vec::new();
    for (number, parameter) in parameters.iter_mut().enumerate().filter(|(number, _)| with_axis[*number]) {
        let wide = Shape::from(size).followed_by(parameter.shape());
        *parameter = Tensor::placeholder(wide, parameter.dtype());
        replaced.push((&body.parameters[number], parameter.clone()));
    }
    for number in (count..inputs.len()).filter(|number| with_axis[*number]) {
        replaced.push((&originals[number], inputs[number].clone()));
    }
    let outputs = batched(&body.outputs.iter().collect::<Vec<_>>(), &replaced, size);
    self::region(Subgraph { parameters, outputs, since }, &inputs[..count], awaited.clone(), Location::caller())
}
