//! Calls on whole arrays, by kind.

use super::{Access, Distribution, FusedKernel};
use crate::collective::Collective;
use crate::host::HostCall;
use crate::interning::Shared;
use crate::shape::Shape;
use crate::view::View;

/// An operation on whole arrays, all of them row-major from their first element on, but for images of batch normalization, whose strides say
/// whether their channels are innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The operation.
    pub kind: CallKind,
    /// Its operands, with their shapes.
    pub inputs: Vec<(Access, Shape)>,
    /// Its results, with their shapes.
    pub outputs: Vec<(Access, Shape)>,
    /// The node to name if it fails.
    pub source: usize,
}

/// What a call does. The set is closed: what is none of these is host code.
#[derive(Clone, Debug, PartialEq)]
pub enum CallKind {
    /// Elements read by a view; zero where it reads outside.
    ReadView(Shared<View>),
    /// The transpose of a read: each element is added up where the view would read it.
    ScatterView(Shared<View>),
    /// Operands one after another along an axis.
    Concatenate(usize),
    /// Entries of the first operand along an axis, at the indices of the second.
    Gather(usize),
    /// The transpose of a gather: entries of the first operand are added up at the indices of the second.
    ScatterAdd(usize),
    /// Unit vectors along a new last axis, for the operation of this name.
    OneHot(&'static str),
    /// The index of the first largest element along an axis; NaN is larger than every number.
    ArgMax(usize),
    /// The stable permutation that sorts along the last axis; NaN comes last in ascending order.
    ArgSort {
        /// Whether the largest element comes first.
        descending: bool,
    },
    /// Random numbers by the counter-based generator, from the keys of the operand.
    Draw(Distribution),
    /// Communication among the shards of a batch.
    Collective(Collective),
    /// A kernel for a whole region.
    Fused(FusedKernel),
    /// Host code, such as an operation of the user's own.
    Host(HostCall),
}

impl CallKind {
    /// Whether the call may end in an error: indices may be out of bounds, ranks may be lost, and host code may do anything.
    pub fn can_fail(&self) -> bool {
        match self {
            CallKind::Gather(_)
            | CallKind::ScatterAdd(_)
            | CallKind::OneHot(_)
            | CallKind::Collective(_)
            | CallKind::Fused(FusedKernel::CrossEntropy(_))
            | CallKind::Host(_) => true,
            CallKind::ReadView(_)
            | CallKind::ScatterView(_)
            | CallKind::Concatenate(_)
            | CallKind::ArgMax(_)
            | CallKind::ArgSort { .. }
            | CallKind::Fused(
                FusedKernel::Attention(_)
                | FusedKernel::AttentionPullback(_)
                | FusedKernel::CrossEntropyPullback(_)
                | FusedKernel::BatchNorm(_)
                | FusedKernel::BatchNormPullback(_)
                | FusedKernel::Cumulative(_)
                | FusedKernel::CumulativePullback(_)
                | FusedKernel::TopK(_),
            )
            | CallKind::Draw(_) => false,
        }
    }

    /// The operation in a few words.
    pub fn describe(&self) -> String {
        match self {
            CallKind::ReadView(view) => format!("read {view}"),
            CallKind::ScatterView(view) => format!("scatter {view}"),
            CallKind::Concatenate(axis) => format!("concatenate along {axis}"),
            CallKind::Gather(axis) => format!("gather along {axis}"),
            CallKind::ScatterAdd(axis) => format!("scatter_add along {axis}"),
            CallKind::OneHot(_) => "onehot".to_owned(),
            CallKind::ArgMax(axis) => format!("argmax along {axis}"),
            CallKind::ArgSort { descending: false } => "argsort".to_owned(),
            CallKind::ArgSort { descending: true } => "argsort descending".to_owned(),
            CallKind::Draw(distribution) => distribution.to_string(),
            CallKind::Collective(collective) => collective.to_string(),
            CallKind::Fused(kernel) => kernel.describe(),
            CallKind::Host(call) => call.name().to_owned(),
        }
    }
}

impl Call {
    /// The result of a call that has one.
    pub fn output(&self) -> &(Access, Shape) {
        match &self.outputs[..] {
            [output] => output,
            outputs => unreachable!("{} has {} results", self.kind.describe(), outputs.len()),
        }
    }

    /// Bytes of the operands and the result.
    pub(super) fn bytes(&self) -> f64 {
        let arrays = self.inputs.iter().chain(&self.outputs);
        arrays.map(|(access, shape)| shape.elements() as f64 * access.dtype.bytes() as f64).sum()
    }
}
