//! Fused loops: pointwise instructions, row reductions and reductions over strided accesses.

use super::{Access, Memory};
use crate::dtype::DType;
use crate::ops::{Operation, Relation};

/// One instruction of a fused loop; numbers are registers, each of one compute type, written once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// A constant.
    Constant(f64),
    /// A row of the operation table with one argument, and its parameter.
    Unary(Operation, usize, f64),
    /// A row of the operation table with two arguments; sums and products of integers too.
    Binary(Operation, usize, usize),
    /// The product in which a zero of the first register is a strong zero: 0·∞ = 0·NaN = 0.
    MaskedMul(usize, usize),
    /// A comparison.
    Compare(Relation, usize, usize),
    /// Truth values combined; the second is not read by a negation.
    Logic(Logic, usize, usize),
    /// The second register where the first holds, the third elsewhere.
    Select(usize, usize, usize),
    /// Another element type.
    Cast(usize),
    /// The element of a storage type that a number becomes, rounded, saturated or wrapped as a cast does, in the compute type
    /// of that storage type.
    Narrow(usize, DType),
    /// A reduction of each row, multiplied by a factor. The register it defines holds one number per row.
    RowReduce(Reduction, usize, f64),
    /// For each element, what a register holds for its row.
    BroadcastRow(usize),
}

impl Instruction {
    /// The registers that are read.
    pub fn operands(&self) -> impl Iterator<Item = usize> + use<> {
        let operands: [Option<usize>; 3] = match *self {
            Instruction::Constant(_) => [None; 3],
            Instruction::Unary(_, a, _)
            | Instruction::Cast(a)
            | Instruction::Narrow(a, _)
            | Instruction::Logic(Logic::Not, a, _)
            | Instruction::RowReduce(_, a, _)
            | Instruction::BroadcastRow(a) => [Some(a), None, None],
            Instruction::Binary(_, a, b)
            | Instruction::MaskedMul(a, b)
            | Instruction::Compare(_, a, b)
            | Instruction::Logic(_, a, b) => [Some(a), Some(b), None],
            Instruction::Select(condition, a, b) => [Some(condition), Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }
}

/// An associative reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The maximum; NaN propagates.
    Max,
}

/// A store of a fused loop: a register, element by element or reduced along axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The register.
    pub register: usize,
    /// Where it goes; axes that are reduced have stride 0. Elements of a storage type are rounded or wrapped from its compute
    /// type, which the register has; reductions are stored in compute types.
    pub access: Access,
    /// How elements of one place are reduced, if more than one goes there.
    pub reduction: Option<Reduction>,
    /// A factor of a sum, applied at the end.
    pub scale: f64,
    /// How many elements to set to zero first: all of what is written, where not every place is reached.
    pub clear: Option<usize>,
}

/// Row layout `[outer, side_by_side, inner]`, row-major: a row has `outer` parts of `inner` neighbouring elements, and the
/// parts of `side_by_side` rows are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLayout {
    /// Parts of a row.
    pub outer: usize,
    /// Interleaved rows.
    pub side_by_side: usize,
    /// Neighbouring elements of a part.
    pub inner: usize,
}

impl RowLayout {
    /// The elements of all rows that lie among each other.
    pub fn elements(&self) -> usize {
        self.outer * self.side_by_side * self.inner
    }
}

/// A fused loop: registers are first what is loaded, then what instructions define.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The sizes of its axes.
    pub extents: Vec<usize>,
    /// Loads: one register each, of the compute type of what is read.
    pub loads: Vec<Access>,
    /// Instructions: one register each, with its element type.
    pub code: Vec<(Instruction, DType)>,
    /// For each register, whether it holds one number for each row, and not one for each element.
    pub by_row: Vec<bool>,
    /// For each axis, whether rows run along it; none are there if no register is by row. Rows run along the last axis and
    /// its neighbours, and perhaps along neighbours further in front too, or along these alone, as the windows of pooling do.
    /// The elements from the first of these axes to the end are at most the target's
    /// [`row_elements`](crate::capabilities::Capabilities::row_elements).
    pub along_rows: Vec<bool>,
    /// Stores.
    pub stores: Vec<Store>,
}

impl Loop {
    /// Operations on elements.
    pub fn flops(&self) -> f64 {
        let elements: f64 = self.extents.iter().map(|extent| *extent as f64).product();
        let is_work = |(_, (code, _)): &(usize, &(Instruction, DType))| {
            !matches!(code, Instruction::Constant(_) | Instruction::BroadcastRow(_))
        };
        let instructions: f64 = self.code.iter().enumerate().filter(is_work).map(|(place, _)| self.runs(place)).sum();
        let combined = self.stores.iter().filter(|store| store.reduction.is_some()).count();
        instructions + elements * combined as f64
    }

    /// Bytes of what is read from memory and of what is kept.
    pub(super) fn bytes(&self) -> f64 {
        let span = |access: &Access| {
            let moved = access.strides.iter().zip(&self.extents).filter(|(stride, _)| **stride != 0);
            moved.map(|(_, extent)| *extent as f64).product::<f64>() * access.dtype.bytes() as f64
        };
        let loads = self.loads.iter().filter(|load| load.memory != Memory::Tile);
        loads.chain(self.stores.iter().map(|store| &store.access)).map(span).sum()
    }

    /// How often the instruction at a place of the code runs.
    pub fn runs(&self, place: usize) -> f64 {
        let by_row = self.by_row[self.loads.len() + place] && !matches!(self.code[place].0, Instruction::RowReduce(..));
        let is_counted = |axis: usize| !by_row || !self.along_rows[axis];
        let counted = self.extents.iter().enumerate().filter(|(axis, _)| is_counted(*axis));
        counted.map(|(_, extent)| *extent as f64).product()
    }

    /// The rows that lie among each other at the end of the loop.
    pub fn rows(&self) -> RowLayout {
        let mut rows = RowLayout { outer: 1, side_by_side: 1, inner: 1 };
        for (extent, along) in self.extents.iter().zip(&self.along_rows).rev() {
            match (along, rows.side_by_side) {
                (true, 1) => rows.inner *= extent,
                (true, _) => rows.outer *= extent,
                (false, _) if rows.outer > 1 => break,
                (false, _) => rows.side_by_side *= extent,
            }
        }
        // What stands in front of rows along the last axes alone is not among them.
        if rows.outer == 1 { RowLayout { side_by_side: 1, ..rows } } else { rows }
    }

    /// The strides of elements one after another in the order of the loop.
    pub fn element_strides(&self) -> Vec<isize> {
        self.strides_across(|_| true)
    }

    /// The strides of one number per row, in the order of the rows.
    pub fn row_strides(&self) -> Vec<isize> {
        self.strides_across(|axis| self.along_rows.get(axis) != Some(&true))
    }

    /// Row-major strides over some of the axes; 0 along the others, and everywhere if there is no element.
    fn strides_across(&self, is_counted: impl Fn(usize) -> bool) -> Vec<isize> {
        let mut strides = vec![0; self.extents.len()];
        if self.extents.iter().enumerate().any(|(axis, extent)| *extent == 0 && is_counted(axis)) {
            return strides;
        }
        let mut next = 1;
        for axis in (0..strides.len()).rev().filter(|axis| is_counted(*axis)) {
            strides[axis] = next;
            next = (next as usize).saturating_mul(self.extents[axis]) as isize;
        }
        strides
    }

    /// The compute type of a register.
    pub fn dtype(&self, register: usize) -> DType {
        match register.checked_sub(self.loads.len()) {
            None => self.loads[register].dtype.compute_type(),
            Some(place) => self.code[place].1,
        }
    }
}

/// A combination of booleans.
///
/// ```
/// use glassgrad::{Tensor, expr::{Logic, Op}};
/// assert_eq!(Tensor::from([true]).not().op(), &Op::Logic(Logic::Not));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    /// Both hold.
    And,
    /// One holds.
    Or,
    /// It does not hold.
    Not,
}
