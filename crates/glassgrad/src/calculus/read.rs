//! From the tensor graph to the algebra: a graph that is linear in one placeholder is read with the unit tensor in its
//! place.
//!
//! What depends on the placeholder has leading axes, those of the unit tensor. What does not is computed anyway and
//! is taken as it is, but for products without sums, which dissolve. Moves of elements (slices, gathers, concatenation)
//! are products with zeros and ones, so that deltas along other axes pass by them. What has no such form is materialised,
//! if the limit of memory allows it.

use std::collections::HashMap;
use std::sync::Arc;

use super::algebra::{Algebra, Id};
use crate::array::{Array, Buffer};
use crate::diff::batched;
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::error::Error;
use crate::expr::{Node, Op, Partial, Tensor, nodes_behind, partial};
use crate::opt::contract::metric;
use crate::shape::Shape;
use crate::view::View;

/// How many products without sums are looked through behind a tensor.
const DEPTH: usize = 12;
/// The most elements that an array of zeros and ones may have.
const SELECTION: u128 = 1 << 24;
/// Up to this many elements, products of arrays of zeros and ones are evaluated.
const JOINED: usize = 1 << 14;

/// What stands for a placeholder, and what was found to depend on it.
pub(super) struct Reader<'a> {
    pub(super) algebra: &'a mut Algebra,
    lead: Shape,
    led: HashMap<u64, Id>,
    limit: u128,
}

/// The outputs of a graph that is linear in a placeholder, when the unit tensor stands in its place: their axes, after
/// those of the placeholder. `None` for an output that does not depend on it.
pub(super) fn read(
    algebra: &mut Algebra,
    placeholder: &Tensor,
    outputs: &[Option<Tensor>],
    limit: u128,
) -> Result<Vec<Option<Id>>, Error> {
    let shape = placeholder.shape();
    let unit = algebra.product(Einsum::unit(shape), Vec::new(), placeholder.dtype());
    let led = HashMap::from([(placeholder.0.id, unit)]);
    let mut reader = Reader { algebra, lead: shape.clone(), led, limit };
    reader.walk(&outputs.iter().flatten().collect::<Vec<_>>())?;
    Ok(outputs.iter().map(|output| reader.led.get(&output.as_ref()?.0.id).copied()).collect())
}

impl Reader<'_> {
    fn walk(&mut self, outputs: &[&Tensor]) -> Result<(), Error> {
        let first = self.led.keys().min().copied().unwrap_or(u64::MAX);
        for node in nodes_behind(outputs, first) {
            let inputs: Vec<Tensor> = node.inputs().into_iter().map(Tensor::onto).collect();
            let depends = |input: &Tensor| self.led.contains_key(&input.0.id);
            if self.led.contains_key(&node.id) || !inputs.iter().any(depends) {
                continue;
            }
            let found = match self.rule(&node, &inputs)? {
                Some(found) => found,
                None => self.materialised(&node, &inputs)?,
            };
            self.led.insert(node.id, found);
        }
        Ok(())
    }

    /// A product of one node with leading axes and of others without.
    fn product(&mut self, einsum: &Einsum, led: usize, nodes: Vec<Id>, dtype: DType) -> Id {
        let pushed = einsum.pushforward(led, self.lead.rank()).with_lead(&self.lead);
        // In a pushforward of a strong product the tangent wins, as it does here.
        self.algebra.product(pushed, nodes, dtype)
    }

    /// What a node is if its operation has a form in the algebra.
    fn rule(&mut self, node: &Arc<Node>, inputs: &[Tensor]) -> Result<Option<Id>, Error> {
        let led: Vec<Option<Id>> = inputs.iter().map(|input| self.led.get(&input.0.id).copied()).collect();
        let dtype = node.dtype;
        Ok(Some(match &node.op {
            Op::Variable | Op::ControlDependency => match led[0] {
                Some(led) => led,
                None => return Ok(None),
            },
            Op::Add => self.algebra.sum(&led.iter().flatten().copied().collect::<Vec<_>>()),
            Op::Einsum(einsum) => {
                let mut present = (0..inputs.len()).filter(|number| led[*number].is_some());
                let (Some(number), None) = (present.next(), present.next()) else { return Ok(None) };
                let nodes: Vec<Id> = (inputs.iter().enumerate())
                    .map(|(k, input)| led[k].unwrap_or_else(|| self.known(input, DEPTH)))
                    .collect();
                self.product(einsum, number, nodes, dtype)
            }
            Op::Cast => match (led[0], led[0].map(|led| self.algebra.as_product(led))) {
                (Some(_), Some(pattern)) if pattern.nodes.is_empty() => {
                    self.algebra.product(pattern.einsum, Vec::new(), dtype)
                }
                _ => return Ok(None),
            },
            Op::Map(formula) => {
                let mut terms = Vec::new();
                for (number, led) in led.iter().enumerate().filter_map(|(k, led)| Some((k, (*led)?))) {
                    let elementwise = Einsum::elementwise(&node.shape, 2);
                    match &*partial(formula, inputs.len(), number) {
                        Partial::Number(derivative) => {
                            let einsum = Einsum::elementwise(&node.shape, 1).scaled(*derivative);
                            terms.push(self.product(&einsum, 0, vec![led], dtype));
                        }
                        Partial::Formula { formula, inputs: used } => {
                            // The derivatives of linear formulas depend on no variable.
                            let Some(used) = used.iter().map(|k| inputs.get(*k)).collect::<Option<Vec<_>>>() else {
                                return Ok(None);
                            };
                            if used.iter().any(|input| self.led.contains_key(&input.0.id)) {
                                return Ok(None);
                            }
                            let derivative = Tensor::map_formula("derivative", formula.clone(), &used);
                            let derivative = self.known(&derivative, DEPTH);
                            terms.push(self.product(&elementwise, 0, vec![led, derivative], dtype));
                        }
                    }
                }
                self.algebra.sum(&terms)
            }
            Op::Reshape => match led[0].zip(regrouped(inputs[0].shape(), &node.shape, dtype)) {
                Some((led, (einsum, units))) => self.moved(&einsum, led, units, dtype),
                None => return Ok(None),
            },
            Op::ReadView(view) => match led[0].zip(selections(view, dtype, self.limit)) {
                Some((led, (einsum, ones))) => self.moved(&einsum, led, ones, dtype),
                None => return Ok(None),
            },
            Op::ScatterView(view) => match led[0].zip(selections(view, dtype, self.limit)) {
                Some((led, (einsum, ones))) => self.moved(&einsum.pullback(0, 0), led, ones, dtype),
                None => return Ok(None),
            },
            Op::Concatenate(axis) => {
                let (mut terms, mut start) = (Vec::new(), 0);
                for (input, led) in inputs.iter().zip(&led) {
                    let mut along: Vec<(isize, isize, usize)> = node.shape.iter().map(|size| (0, 1, *size)).collect();
                    along[*axis] = (start as isize, 1, input.shape()[*axis]);
                    start += input.shape()[*axis];
                    let Some(led) = led else { continue };
                    let Some((einsum, ones)) = selections(&View::strided(&node.shape, &along), dtype, self.limit)
                    else {
                        return Ok(None);
                    };
                    terms.push(self.moved(&einsum.pullback(0, 0), *led, ones, dtype));
                }
                self.algebra.sum(&terms)
            }
            Op::Gather(axis) => match led[0] {
                Some(led) => {
                    let size = inputs[0].shape()[*axis];
                    let einsum = gathering(inputs[0].shape(), inputs[1].shape(), *axis);
                    let indices = self.algebra.given(&inputs[1]);
                    let ones = self.algebra.gather(indices, size, dtype);
                    self.product(&einsum, 0, vec![led, ones], dtype)
                }
                None => return Ok(None),
            },
            Op::ScatterAdd(axis) => match led[0] {
                Some(led) => {
                    let einsum = gathering(&node.shape, inputs[1].shape(), *axis);
                    let indices = self.algebra.given(&inputs[1]);
                    let ones = self.algebra.gather(indices, node.shape[*axis], dtype);
                    self.product(&einsum.pullback(0, 0), 0, vec![led, ones], dtype)
                }
                None => return Ok(None),
            },
            Op::Select => {
                let mut terms = Vec::new();
                for (number, holds) in [(1, true), (2, false)] {
                    let Some(led) = led[number] else { continue };
                    let mask = if holds { inputs[0].clone() } else { inputs[0].not() }.cast(dtype);
                    // What is not taken is zero, whatever it meets.
                    let einsum = Einsum::elementwise(&node.shape, 2).strong_in(1, true);
                    let nodes = vec![led, self.algebra.given(&mask)];
                    terms.push(self.product(&einsum, 0, nodes, dtype));
                }
                self.algebra.sum(&terms)
            }
            Op::Custom(custom) => {
                let mut present = (0..inputs.len()).filter(|number| led[*number].is_some());
                let (Some(number), None) = (present.next(), present.next()) else { return Ok(None) };
                let Some(product) = custom.0.as_product(inputs, number) else { return Ok(None) };
                if product.error().is_none() && (*product.shape() != node.shape || product.dtype() != node.dtype) {
                    let (expected, found) = (format!("{}{}", node.dtype, node.shape), product.describe());
                    let message = format!("as a product it is {found}, and its output is {expected}");
                    return Err(Error::new(custom.0.name(), message).at(node.origin));
                }
                self.walk(&[&product])?;
                return Ok(self.led.get(&product.0.id).copied());
            }
            Op::Leaf
            | Op::Placeholder
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Max(_)
            | Op::ArgMax(_)
            | Op::OneHot(_)
            | Op::ArgSort { .. }
            | Op::Draw(_)
            | Op::StopGradient
            // What other shards contribute is known when it runs: the derivative is computed as it is.
            | Op::Collective(_)
            | Op::GetOutput(_)
            | Op::Failed(_) => return Ok(None),
        }))
    }

    /// A product of a node with leading axes, which stands first, and of tensors.
    fn moved(&mut self, einsum: &Einsum, led: Id, tensors: Vec<Tensor>, dtype: DType) -> Id {
        let mut nodes = vec![led];
        for tensor in &tensors {
            // What a tensor of the user decides is not known before it is computed.
            let known = tensor.op() == &Op::Leaf && tensor.shape().elements() <= JOINED;
            nodes.push(if known { self.algebra.selection(tensor) } else { self.algebra.given(tensor) });
        }
        self.product(einsum, 0, nodes, dtype)
    }

    /// A tensor without leading axes. Products without sums dissolve; all else is computed anyway.
    fn known(&mut self, tensor: &Tensor, depth: usize) -> Id {
        let inputs = tensor.inputs();
        let rank = tensor.rank();
        match tensor.op() {
            Op::Variable if inputs.len() == 1 && tensor.name().is_none() => self.known(&inputs[0], depth),
            Op::Leaf if rank == 0 && tensor.name().is_none() && tensor.is_float() => match tensor.item() {
                Ok(value) if value.is_finite() => {
                    let einsum = Einsum::new(Vec::new(), Vec::new(), Vec::new()).scaled(value);
                    self.algebra.product(einsum, Vec::new(), tensor.dtype())
                }
                _ => self.algebra.given(tensor),
            },
            Op::Einsum(einsum)
                if depth > 0
                    && tensor.name().is_none()
                    && inputs.len() == einsum.operands.len()
                    && !einsum.is_strong()
                    && einsum.summed().iter().all(|label| einsum.extents[*label] == 1) =>
            {
                let nodes = inputs.iter().map(|input| self.known(input, depth - 1)).collect();
                self.algebra.product((**einsum).clone(), nodes, tensor.dtype())
            }
            Op::Reshape if depth > 0 && inputs.len() == 1 => {
                match regrouped(inputs[0].shape(), tensor.shape(), tensor.dtype()) {
                    Some((einsum, units)) if units.is_empty() => {
                        let node = self.known(&inputs[0], depth - 1);
                        self.algebra.product(einsum, vec![node], tensor.dtype())
                    }
                    _ => self.algebra.given(tensor),
                }
            }
            _ => self.algebra.given(tensor),
        }
    }

    /// A node computed for every element of the leading axes: what stands for its inputs is materialised.
    fn materialised(&mut self, node: &Arc<Node>, inputs: &[Tensor]) -> Result<Id, Error> {
        let tensor = Tensor::onto(Arc::clone(node));
        let size = self.lead.elements();
        let mut replaced = Vec::new();
        for input in inputs {
            let Some(led) = self.led.get(&input.0.id) else { continue };
            let bytes = self.algebra.elements(*led).saturating_mul(node.dtype.bytes() as u128);
            if bytes > self.limit {
                let message = format!(
                    "the derivative cannot stay compressed through {}, and {} would be needed to materialise it there",
                    tensor.op().describe(),
                    metric(bytes, "B")
                );
                let error = Error::new("calculus", message).with_operands(vec![tensor.describe()]).at(tensor.origin());
                return Err(error.help(format!(
                    "the limit is {}; raise it with .limit(bytes), or write this step as a product",
                    metric(self.limit, "B")
                )));
            }
            let dense = self.algebra.tensors(&[*led]).remove(0);
            replaced.push((input, dense.reshape(Shape::from(size).followed_by(input.shape()))));
        }
        let wide = batched(&[&tensor], &replaced, size).remove(0);
        if let Some(error) = wide.error() {
            return Err(error.clone());
        }
        Ok(self.algebra.given(&wide.reshape(self.lead.followed_by(tensor.shape()))))
    }
}

/// A reshape as a product: axes that stay keep their labels, and where axes are split or joined, the unit matrix of
/// their elements stands in between. `None` if that would be too large.
fn regrouped(from: &Shape, to: &Shape, dtype: DType) -> Option<(Einsum, Vec<Tensor>)> {
    if from.elements() == 0 {
        return None;
    }
    let (mut extents, mut operand, mut output): (Vec<usize>, Vec<Label>, Vec<Label>) = Default::default();
    let (mut own, mut other) = (0, 0);
    let mut units: Vec<(Vec<Label>, Vec<Label>)> = Vec::new();
    let mut label = |size: usize| {
        extents.push(size);
        extents.len() - 1
    };
    while own < from.rank() || other < to.rank() {
        let (a, b) = (from.get(own).copied(), to.get(other).copied());
        match (a, b) {
            // Axes of size 1 come and go.
            (Some(1), _) if b != Some(1) => {
                operand.push(label(1));
                own += 1;
            }
            (_, Some(1)) if a != Some(1) => {
                output.push(label(1));
                other += 1;
            }
            (Some(a), Some(b)) if a == b => {
                let label = label(a);
                operand.push(label);
                output.push(label);
                (own, other) = (own + 1, other + 1);
            }
            (Some(a), Some(b)) => {
                let (mut left, mut right) = (vec![label(a)], vec![label(b)]);
                let (mut filled, mut taken) = (a, b);
                (own, other) = (own + 1, other + 1);
                while filled != taken {
                    if filled < taken {
                        let size = *from.get(own)?;
                        left.push(label(size));
                        filled *= size;
                        own += 1;
                    } else {
                        let size = *to.get(other)?;
                        right.push(label(size));
                        taken *= size;
                        other += 1;
                    }
                }
                operand.extend_from_slice(&left);
                output.extend_from_slice(&right);
                units.push((left, right));
            }
            _ => return None,
        }
    }
    let mut operands = vec![operand];
    let mut tensors = Vec::new();
    for (left, right) in units {
        let sizes: Vec<usize> = left.iter().chain(&right).map(|label| extents[*label]).collect();
        let count: usize = left.iter().map(|label| extents[*label]).product();
        if (count as u128).pow(2) > SELECTION {
            return None;
        }
        tensors.push(Tensor::eye(count).cast(dtype).reshape(sizes));
        operands.push(left.into_iter().chain(right).collect());
    }
    Some((Einsum::new(operands, output, extents), tensors))
}

/// Reading by a view as a product with arrays of zeros and ones, one for each axis along which elements move.
fn selections(view: &View, dtype: DType, limit: u128) -> Option<(Einsum, Vec<Tensor>)> {
    let rank = view.output.rank();
    let mut extents = view.output.to_vec();
    let (mut operand, mut operands, mut tensors) = (Vec::new(), Vec::new(), Vec::new());
    let mut taken = vec![false; rank];
    for (axis, own) in view.axes.iter().enumerate() {
        let size = view.input[axis];
        if let [(along, 1)] = own.steps[..]
            && own.offset == 0
            && view.output[along] == size
            && !taken[along]
        {
            taken[along] = true;
            operand.push(along);
            continue;
        }
        let label = extents.len();
        extents.push(size);
        operand.push(label);
        let sizes: Vec<usize> = own.steps.iter().map(|(along, _)| view.output[*along]).collect();
        let count = sizes.iter().chain([&size]).fold(1_u128, |product, size| product.saturating_mul(*size as u128));
        if count > SELECTION || count.saturating_mul(dtype.bytes() as u128) > limit {
            return None;
        }
        let strides = Shape::from(&sizes[..]).strides();
        let one = |place: usize| {
            let (index, own_place) = (place / size, place % size);
            let moved =
                own.steps.iter().enumerate().map(|(k, (_, step))| (index / strides[k] % sizes[k]) as isize * step);
            f64::from(u8::from(own.offset + moved.sum::<isize>() == own_place as isize))
        };
        let shape = Shape::from(&sizes[..]).followed_by(&[size]);
        tensors.push(Tensor::leaf(Array::new(shape, Buffer::from_fn(dtype, count as usize, one))));
        operands.push(own.steps.iter().map(|(along, _)| *along).chain([label]).collect());
    }
    operands.insert(0, operand);
    Some((Einsum::new(operands, (0..rank).collect(), extents), tensors))
}

/// Gathering along an axis as a product with ones at the places that the indices name.
fn gathering(from: &[usize], indices: &[usize], axis: usize) -> Einsum {
    let mut extents = from.to_vec();
    let places: Vec<Label> = (extents.len()..extents.len() + indices.len()).collect();
    extents.extend_from_slice(indices);
    let ones = places.iter().copied().chain([axis]).collect();
    let output = (0..axis).chain(places).chain(axis + 1..from.len()).collect();
    Einsum::new(vec![(0..from.len()).collect(), ones], output, extents)
}
