//! Unrolled reductions over small overlapping windows: depthwise convolution, average pooling, max pooling.
//!
//! A loop over the elements of all windows gathers each input element once per window that contains it. Here the loop runs over the
//! windows: each element of a window is a separate load, contiguous over neighbouring windows, and one instruction reduces it.

use super::groups::{Group, LoopGroup, LoopPosition, Register};
use super::strides::is_rows;
use super::{Located, Lowering};
use crate::einsum::Einsum;
use crate::ops::Operation;
use crate::opt::graph::GraphNode;
use crate::opt::program::{Instruction, Reduction};
use crate::shape::InlineVec;

/// The least number of windows that are unrolled, and how many of them must be contiguous.
const WORTH: usize = 1 << 12;
const CONTIGUOUS: usize = 8;
/// An operand with fewer elements, such as a kernel, stays in the cache.
const SMALL: usize = 1 << 12;

impl Lowering<'_> {
    /// A reduction over elements of a space as instructions of a loop over its results, if it reduces small windows of something
    /// in memory that overlap. Strides lead from the space into the result; no axis has size 1.
    pub(super) fn unrolled(
        &mut self,
        node: &GraphNode,
        extents: &[usize],
        operands: &[Located],
        strides: &[isize],
        reduction: Reduction,
        einsum: Option<&Einsum>,
    ) -> Option<Located> {
        let select = |is_reduced: bool| (0..extents.len()).filter(move |axis| (strides[*axis] == 0) == is_reduced);
        let elements = |axes: &mut dyn Iterator<Item = usize>| {
            axes.fold(1, |elements: usize, axis| elements.saturating_mul(extents[axis]))
        };
        let (window, windows) = (elements(&mut select(true)), elements(&mut select(false)));
        let kept: InlineVec<usize> = select(false).map(|axis| extents[axis]).collect();
        let kept_strides: InlineVec<isize> = select(false).map(|axis| strides[axis]).collect();
        let is_worth = windows >= WORTH && kept.last().is_some_and(|last| *last >= CONTIGUOUS);
        if !(2..=self.target.unrolled_windows).contains(&window)
            || !is_worth
            || !node.dtype.is_float()
            || !is_rows(&kept, &kept_strides)
        {
            return None;
        }
        // Operands that vary within a window are loaded once per element of it.
        let is_moving = |operand: &&Located| select(true).any(|axis| operand.strides[axis] != 0);
        let is_overlapping = |operand: &Located| {
            let read = elements(&mut (0..extents.len()).filter(|axis| operand.strides[*axis] != 0));
            read > self.producers[operand.producer].elements
        };
        let mut moving = operands
            .iter()
            .filter(is_moving)
            .map(|operand| (is_overlapping(operand), self.producers[operand.producer].elements <= SMALL));
        if !moving.clone().any(|(overlaps, _)| overlaps) || !moving.all(|(overlaps, small)| overlaps || small) {
            return None;
        }
        let group = self.groups.len();
        let place = LoopPosition { group, by_row: false };
        self.latest.insert(kept.clone(), group);
        self.groups.push(Group::Loop(LoopGroup {
            extents: kept,
            along_rows: None,
            loads: Vec::new(),
            code: Vec::new(),
            stores: Vec::new(),
        }));
        self.works(group);
        let reduced: InlineVec<usize> = select(true).collect();
        let (mut whole, strong) = (None::<Register>, einsum.is_some_and(Einsum::is_strong));
        for number in 0..window {
            let mut rest = number;
            let mut index: InlineVec<usize> = InlineVec::from_elem(0, reduced.len());
            for (own, axis) in index.iter_mut().zip(reduced.iter()).rev() {
                (*own, rest) = (rest % extents[*axis], rest / extents[*axis]);
            }
            let registers: InlineVec<Register> = operands
                .iter()
                .map(|operand| {
                    let inside =
                        index.iter().zip(reduced.iter()).map(|(own, axis)| *own as isize * operand.strides[*axis]);
                    let offset = operand.offset + inside.sum::<isize>();
                    let strides = select(false).map(|axis| operand.strides[axis]).collect();
                    self.register(place, &Located { offset, strides, producer: operand.producer })
                })
                .collect();
            let element = match einsum {
                // The coefficient is applied to the sum, unless a factor has strong zeros.
                Some(einsum) => {
                    let coefficient = if strong { einsum.coefficient } else { 1.0 };
                    self.product_of(place, einsum, &registers, node.dtype, coefficient)
                }
                None => registers[0],
            };
            let operation = match reduction {
                Reduction::Sum => Operation::Add,
                Reduction::Max => Operation::Max,
            };
            whole = Some(match whole {
                None => element,
                Some(whole) => {
                    self.emit(place, Instruction::Binary(operation, whole.encode(), element.encode()), node.dtype)
                }
            });
        }
        let mut whole = whole?;
        if let Some(einsum) = einsum.filter(|einsum| !strong && einsum.coefficient != 1.0) {
            let factor = self.emit(place, Instruction::Constant(einsum.coefficient), node.dtype);
            let scale = Instruction::Binary(Operation::Mul, whole.encode(), factor.encode());
            whole = self.emit(place, scale, node.dtype);
        }
        let producer = self.produce(node.dtype, node.shape.elements());
        self.producers[producer].group = group;
        self.producers[producer].register = Some(whole);
        Some(Located::whole(producer, &node.shape))
    }
}
