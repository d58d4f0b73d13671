//! What collectives compute.

use crate::dtype::DType;
use crate::shape::Shape;

/// A collective operation. All of them are linear, and the set is closed under transposition.
///
/// ```
/// use glassgrad::collective::CollectiveKind;
/// assert_eq!(CollectiveKind::AllReduce.transposed(), CollectiveKind::AllReduce);
/// assert_eq!(CollectiveKind::AllGather { axis: 1 }.transposed(), CollectiveKind::ReduceScatter { axis: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    /// The sum over all shards, for every shard: its own transpose.
    AllReduce,
    /// The value of one shard, for every shard.
    Broadcast {
        /// The shard.
        root: usize,
    },
    /// The sum over all shards for one of them, and zeros for the others: the transpose of a broadcast.
    Reduce {
        /// The shard that has the sum.
        root: usize,
    },
    /// The values of all shards one after another along an axis, for every shard.
    AllGather {
        /// The axis.
        axis: usize,
    },
    /// Of the sum over all shards, each shard has its own block along an axis: the transpose of an all-gather.
    ReduceScatter {
        /// The axis.
        axis: usize,
    },
}

impl CollectiveKind {
    /// The transposed operation, which cotangents are pulled back by. The objective is the sum over shards of what each of them
    /// computes.
    ///
    /// ```
    /// use glassgrad::collective::CollectiveKind;
    /// assert_eq!(CollectiveKind::Broadcast { root: 3 }.transposed(), CollectiveKind::Reduce { root: 3 });
    /// ```
    pub fn transposed(self) -> CollectiveKind {
        match self {
            CollectiveKind::AllReduce => CollectiveKind::AllReduce,
            CollectiveKind::Broadcast { root } => CollectiveKind::Reduce { root },
            CollectiveKind::Reduce { root } => CollectiveKind::Broadcast { root },
            CollectiveKind::AllGather { axis } => CollectiveKind::ReduceScatter { axis },
            CollectiveKind::ReduceScatter { axis } => CollectiveKind::AllGather { axis },
        }
    }

    /// The same operation on tensors with this many further axes in front.
    pub fn with_lead(self, lead: usize) -> CollectiveKind {
        match self {
            CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. } => self,
            CollectiveKind::AllGather { axis } => CollectiveKind::AllGather { axis: axis + lead },
            CollectiveKind::ReduceScatter { axis } => CollectiveKind::ReduceScatter { axis: axis + lead },
        }
    }

    /// The name under which errors and pictures show it.
    ///
    /// ```
    /// use glassgrad::collective::CollectiveKind;
    /// assert_eq!(CollectiveKind::Broadcast { root: 0 }.name(), "broadcast");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::Broadcast { .. } => "broadcast",
            CollectiveKind::Reduce { .. } => "reduce",
            CollectiveKind::AllGather { .. } => "all_gather",
            CollectiveKind::ReduceScatter { .. } => "reduce_scatter",
        }
    }

    /// Whether values of shards are added.
    pub(super) fn adds(self) -> bool {
        match self {
            CollectiveKind::AllReduce | CollectiveKind::Reduce { .. } | CollectiveKind::ReduceScatter { .. } => true,
            CollectiveKind::Broadcast { .. } | CollectiveKind::AllGather { .. } => false,
        }
    }
}

/// A collective operation among a number of shards.
///
/// ```
/// use glassgrad::collective::{Collective, CollectiveKind};
/// let gather = Collective { kind: CollectiveKind::AllGather { axis: 0 }, shards: 4 };
/// assert_eq!(gather.to_string(), "all_gather along 0 over 4 shards");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// What is computed.
    pub kind: CollectiveKind,
    /// The number of shards, a power of two.
    pub shards: usize,
}

impl Collective {
    /// The transposed operation on tensors with this many further axes in front.
    pub fn transposed(self, lead: usize) -> Collective {
        Collective { kind: self.kind.transposed().with_lead(lead), ..self }
    }

    /// The same operation on tensors with this many further axes in front.
    pub fn with_lead(self, lead: usize) -> Collective {
        Collective { kind: self.kind.with_lead(lead), ..self }
    }

    /// The shape of the result, or why there is none.
    pub fn output(self, shape: &Shape, dtype: DType) -> Result<Shape, String> {
        let shards = self.shards;
        if self.kind.adds() && dtype == DType::Bool {
            return Err("truth values have no sum".to_owned());
        }
        let with_axis = |axis: usize, change: &dyn Fn(usize) -> Result<usize, String>| {
            let Some(size) = shape.get(axis) else {
                return Err(format!("there is no axis {axis} in the shape {shape}"));
            };
            let mut sizes = shape.to_vec();
            sizes[axis] = change(*size)?;
            Ok(Shape::from(sizes))
        };
        match self.kind {
            CollectiveKind::AllReduce => Ok(shape.clone()),
            CollectiveKind::Broadcast { root } | CollectiveKind::Reduce { root } if root >= shards => {
                Err(format!("there is no shard {root} among {shards}"))
            }
            CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. } => Ok(shape.clone()),
            CollectiveKind::AllGather { axis } => with_axis(axis, &|size| {
                size.checked_mul(shards).ok_or_else(|| format!("{shards} parts of {size} are too many elements"))
            }),
            CollectiveKind::ReduceScatter { axis } => with_axis(axis, &|size| match size % shards {
                0 => Ok(size / shards),
                _ => Err(format!("the size {size} of axis {axis} is no multiple of the {shards} shards")),
            }),
        }
    }

    /// How often the axis of the operation is repeated: the number of elements in front of it, for an operand of this shape.
    pub(super) fn outer(self, shape: &[usize]) -> usize {
        match self.kind {
            CollectiveKind::AllReduce | CollectiveKind::Broadcast { .. } | CollectiveKind::Reduce { .. } => 1,
            CollectiveKind::AllGather { axis } | CollectiveKind::ReduceScatter { axis } => {
                shape[..axis].iter().product()
            }
        }
    }

    /// Numbers that determine it, for hashes.
    pub fn numbers(self) -> [usize; 3] {
        let (kind, parameter) = match self.kind {
            CollectiveKind::AllReduce => (0, 0),
            CollectiveKind::Broadcast { root } => (1, root),
            CollectiveKind::Reduce { root } => (2, root),
            CollectiveKind::AllGather { axis } => (3, axis),
            CollectiveKind::ReduceScatter { axis } => (4, axis),
        };
        [kind, parameter, self.shards]
    }
}

impl std::fmt::Display for Collective {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, shards) = (self.kind.name(), self.shards);
        match self.kind {
            CollectiveKind::AllReduce => write!(formatter, "{name} over {shards} shards"),
            CollectiveKind::Broadcast { root } => write!(formatter, "{name} from shard {root} of {shards}"),
            CollectiveKind::Reduce { root } => write!(formatter, "{name} to shard {root} of {shards}"),
            CollectiveKind::AllGather { axis } | CollectiveKind::ReduceScatter { axis } => {
                write!(formatter, "{name} along {axis} over {shards} shards")
            }
        }
    }
}
