//! Checkpoints: parts of a function of which nothing is kept for the way back.
//!
//! A checkpoint is a region of the graph: one node, whose inside is computed when it is read. Its derivative is a
//! region again, which recomputes the inside from the same inputs and then the cotangents; it waits until
//! cotangents arrive, so that what it makes does not live through everything in between. Regions are opened after
//! common subexpressions have been found, since what is computed anew is just that.

use std::panic::Location;

use super::batch::batched;
use super::forward::pushforward;
use super::reverse::{Parts, Seed, swept};
use super::scan::constants;
use super::transforms::{Outcome, failed_like, trace};
use crate::dtype::DType;
use crate::expr::{Op, Region, Tensor};
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
        let parts = region(traced.variables.flatten(), &inputs, results, Vec::new(), Some(since), origin);
        traced.result.with_leaves(parts)
    }
}

/// The results of a region, whose arguments stand for these inputs.
pub(super) fn region(
    arguments: Vec<Tensor>,
    inputs: &[Tensor],
    results: Vec<Tensor>,
    awaited: Vec<usize>,
    since: Option<u64>,
    origin: &'static Location<'static>,
) -> Vec<Tensor> {
    let signatures: Vec<(Shape, DType)> =
        results.iter().map(|tensor| (tensor.shape().clone(), tensor.dtype())).collect();
    let body = Region::body(arguments, results, since);
    let constants = constants(&body);
    let inputs: Vec<&Tensor> = inputs.iter().chain(&constants).collect();
    let op = Op::Remat(std::sync::Arc::new(Region { body: std::sync::Arc::new(body), awaited }));
    let node = Tensor::node_at(op, &inputs, Shape::scalar(), DType::F32, origin);
    let part = |(number, (shape, dtype))| Tensor::node_at(Op::GetOutput(number), &[&node], shape, dtype, origin);
    signatures.into_iter().enumerate().map(part).collect()
}

/// What stands for an input inside: an argument, or a tensor from outside itself.
fn inside<'t>(region: &'t Region, inputs: &'t [Tensor], number: usize) -> &'t Tensor {
    region.body.carries.get(number).unwrap_or(&inputs[number])
}

/// The cotangents of the requested inputs: a region that computes everything anew, once those of the results
/// are there.
pub(super) fn pull(
    region: &Region,
    inputs: &[Tensor],
    requested: &[bool],
    parts: &Parts,
    lead: &[usize],
    snapshots: Option<usize>,
) -> Vec<Option<(Tensor, bool)>> {
    let mut numbers: Vec<usize> = parts.keys().copied().collect();
    numbers.sort_unstable();
    let results = numbers.iter().map(|number| &region.body.carried[*number]);
    let led = |result: &Tensor| Shape::from(lead).followed_by(result.shape());
    let seed = |(result, number): (&Tensor, &usize)| -> Seed {
        (result.clone(), Tensor::placeholder(led(result), result.dtype()), parts[number].1)
    };
    let seeds: Vec<Seed> = results.zip(&numbers).map(seed).collect();
    let variables: Vec<&Tensor> =
        (0..inputs.len()).filter(|number| requested[*number]).map(|number| inside(region, inputs, number)).collect();
    let found = swept(&seeds, &variables, lead, false, snapshots);
    let count = region.body.carries.len();
    let arguments = region.body.carries.iter().cloned().chain(seeds.iter().map(|(_, seed, _)| seed.clone())).collect();
    let cotangents = numbers.iter().map(|number| parts[number].0.clone());
    let given: Vec<Tensor> = inputs[..count].iter().cloned().chain(cotangents).collect();
    let pulled: Vec<Option<&(Tensor, bool)>> = (0..inputs.len())
        .map(|number| requested[number].then(|| found.get(&inside(region, inputs, number).0.id)).flatten())
        .collect();
    let results = pulled.iter().flatten().map(|(cotangent, _)| cotangent.clone()).collect();
    let awaited = (count..count + numbers.len()).collect();
    let mut created =
        self::region(arguments, &given, results, awaited, region.body.since, Location::caller()).into_iter();
    pulled.into_iter().map(|found| found.and_then(|(_, masked)| Some((created.next()?, *masked)))).collect()
}

/// The tangents of the results that have one.
pub(super) fn push(
    region: &Region,
    inputs: &[Tensor],
    moved: &[Option<Tensor>],
    lead: &[usize],
) -> Vec<Option<Tensor>> {
    let mut arguments = region.body.carries.clone();
    let mut given = inputs[..arguments.len()].to_vec();
    let mut variables: Vec<(&Tensor, Tensor)> = Vec::new();
    for (number, tangent) in moved.iter().enumerate() {
        let Some(tangent) = tangent else { continue };
        let placeholder = Tensor::placeholder(tangent.shape().clone(), tangent.dtype());
        variables.push((inside(region, inputs, number), placeholder.clone()));
        arguments.push(placeholder);
        given.push(tangent.clone());
    }
    let pushed = pushforward(&region.body.carried.iter().collect::<Vec<_>>(), &variables, lead);
    let results = pushed.iter().flatten().cloned().collect();
    let mut created =
        self::region(arguments, &given, results, region.awaited.clone(), region.body.since, Location::caller())
            .into_iter();
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
    let since = region.body.since.map(|_| Tensor::placeholder(Shape::scalar(), DType::F32).0.id);
    let count = region.body.carries.len();
    let mut arguments = region.body.carries.clone();
    let mut replaced: Vec<(&Tensor, Tensor)> = Vec::new();
    for (number, argument) in arguments.iter_mut().enumerate().filter(|(number, _)| with_axis[*number]) {
        let wide = Shape::from(size).followed_by(argument.shape());
        *argument = Tensor::placeholder(wide, argument.dtype());
        replaced.push((&region.body.carries[number], argument.clone()));
    }
    for number in (count..inputs.len()).filter(|number| with_axis[*number]) {
        replaced.push((&originals[number], inputs[number].clone()));
    }
    let results = batched(&region.body.carried.iter().collect::<Vec<_>>(), &replaced, size);
    self::region(arguments, &inputs[..count], results, region.awaited.clone(), since, Location::caller())
}
