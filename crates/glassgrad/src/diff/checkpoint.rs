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
use crate::expr::{Cumulation, FusedKernel, MultiOp, Region, RegionKind, Subgraph, Tensor};
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

/// A region for a kernel that some targets have, while its definition is built from its parameters. Not a function that takes one: nodes of
/// the definition have the source line of the caller.
pub(crate) struct FusedRegion {
    inputs: Vec<Tensor>,
    since: u64,
    /// What stands for the inputs.
    pub(crate) parameters: Vec<Tensor>,
}

impl FusedRegion {
    /// Begins a region of some inputs.
    pub(crate) fn new(inputs: &[&Tensor]) -> FusedRegion {
        let since = Tensor::placeholder(Shape::scalar(), DType::F32).0.id;
        let parameter = |input: &&Tensor| Tensor::placeholder(input.shape().clone(), input.dtype());
        let parameters = inputs.iter().map(parameter).collect();
        FusedRegion { inputs: inputs.iter().copied().cloned().collect(), since, parameters }
    }

    /// The outputs of the region, given those of its definition.
    #[track_caller]
    pub(crate) fn outputs(self, kernel: FusedKernel, outputs: Vec<Tensor>) -> Vec<Tensor> {
        let FusedRegion { inputs, since, parameters } = self;
        if let Some(failed) = inputs.iter().chain(&outputs).find(|tensor| tensor.error().is_some()) {
            return vec![failed.clone(); outputs.len()];
        }
        let body = Subgraph { parameters, outputs, since: Some(since) };
        let region = Region { body, awaited: Vec::new(), kind: RegionKind::Fused(kernel) };
        MultiOp::Remat(Arc::new(region)).outputs(&inputs, Location::caller())
    }
}

/// The results of a rematerialised region, whose parameters stand for these inputs.
pub(super) fn region(
    body: Subgraph,
    inputs: &[Tensor],
    awaited: Vec<usize>,
    origin: &'static Location<'static>,
) -> Vec<Tensor> {
    MultiOp::Remat(Arc::new(Region { body, awaited, kind: RegionKind::Remat })).outputs(inputs, origin)
}

/// The kind of what is derived from a region.
fn derived(kind: RegionKind) -> RegionKind {
    match kind {
        RegionKind::Remat => RegionKind::Remat,
        RegionKind::Inline | RegionKind::Fused(_) => RegionKind::Inline,
    }
}

/// The kernel for the pullback of a region, if it has one for these cotangents; it also reads the outputs of the region.
fn pullback_kernel(kind: RegionKind, numbers: &[usize], requested: &[bool], lead: &[usize]) -> Option<FusedKernel> {
    match kind {
        RegionKind::Fused(FusedKernel::Attention(kernel)) if numbers == [0] && lead.is_empty() => {
            Some(FusedKernel::AttentionPullback(kernel))
        }
        RegionKind::Fused(FusedKernel::CrossEntropy(operation)) if numbers == [0] && lead.is_empty() => {
            Some(FusedKernel::CrossEntropyPullback(operation))
        }
        RegionKind::Fused(FusedKernel::BatchNorm(epsilon))
            if numbers == [0] && lead.is_empty() && requested[..3] == [true; 3] =>
        {
            Some(FusedKernel::BatchNormPullback(epsilon))
        }
        RegionKind::Fused(FusedKernel::Cumulative(kernel))
            if numbers == [0] && lead.is_empty() && matches!(kernel.of, Cumulation::Sum | Cumulation::Product) =>
        {
            Some(FusedKernel::CumulativePullback(kernel))
        }
        RegionKind::Fused(_) | RegionKind::Remat | RegionKind::Inline => None,
    }
}

/// What stands for an input inside: a parameter, or a captured tensor itself.
fn inside<'t>(body: &'t Subgraph, inputs: &'t [Tensor], number: usize) -> &'t Tensor {
    body.parameters.get(number).unwrap_or(&inputs[number])
}

/// The cotangents of the requested inputs: a region that computes everything anew, once those of the results
/// are there.
pub(super) fn pull(
    region: &Region,
    outputs: &dyn Fn() -> Vec<Tensor>,
    inputs: &[Tensor],
    requested: &[bool],
    parts: &Parts,
    lead: &[usize],
    snapshots: Option<usize>,
) -> Vec<Option<(Tensor, bool)>> {
    let body = &region.body;
    let mut numbers: Vec<usize> = parts.keys().copied().collect();
    numbers.sort_unstable();
    let kernel = pullback_kernel(region.kind, &numbers, requested, lead);
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
    // The body of a pullback that is a kernel ignores the outputs, which the kernel reads.
    let known = if kernel.is_some() { outputs() } else { Vec::new() };
    let unread = known.iter().map(|output| Tensor::placeholder(output.shape().clone(), output.dtype()));
    let seeded = body.parameters.iter().chain(seeds.iter().map(|(_, seed, _)| seed)).cloned();
    let parameters = seeded.chain(unread).collect();
    let cotangents = numbers.iter().map(|number| parts[number].0.clone());
    let given: Vec<Tensor> = inputs[..count].iter().cloned().chain(cotangents).chain(known).collect();
    let pulled: Vec<Option<&(Tensor, bool)>> = (0..inputs.len())
        .map(|number| requested[number].then(|| found.get(&inside(body, inputs, number).0.id)).flatten())
        .collect();
    let outputs = pulled.iter().flatten().map(|(cotangent, _)| cotangent.clone()).collect();
    let kind = kernel.map_or_else(|| derived(region.kind), RegionKind::Fused);
    let awaited = match kind {
        RegionKind::Remat => (count..count + numbers.len()).collect(),
        RegionKind::Inline | RegionKind::Fused(_) => Vec::new(),
    };
    let body = Subgraph { parameters, outputs, since: body.since };
    let made = Region { body, awaited, kind };
    let mut created = MultiOp::Remat(Arc::new(made)).outputs(&given, Location::caller()).into_iter();
    // Selections inside of the definition of a kernel are of terms of its own sums: every operand has terms that were selected, so that
    // zeros of its cotangent are strong only if those that arrive are.
    let arrives = parts.values().any(|(_, masked)| *masked);
    let is_strong = |masked: bool| if kernel.is_some() { arrives } else { masked };
    pulled.into_iter().map(|found| found.and_then(|(_, masked)| Some((created.next()?, is_strong(*masked))))).collect()
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
    let made = Region { body, awaited: region.awaited.clone(), kind: derived(region.kind) };
    let mut created = MultiOp::Remat(Arc::new(made)).outputs(&given, Location::caller()).into_iter();
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
    let Region { body, awaited, kind } = region;
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
    let body = Subgraph { parameters, outputs, since };
    let made = Region { body, awaited: awaited.clone(), kind: derived(*kind) };
    MultiOp::Remat(Arc::new(made)).outputs(&inputs[..count], Location::caller())
}
