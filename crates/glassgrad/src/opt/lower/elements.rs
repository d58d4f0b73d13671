//! What is computed element by element: the instructions of pointwise nodes, and what their elements are put together
//! to.

use super::groups::{Group, LoopPosition, PendingStore, Register};
use super::layout::{AxisOrder, order_of, permute, strides_in};
use super::row_reduction::along_rows;
use super::strides::{split, squeezed_strides};
use super::{Located, Lowering};
use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::Op;
use crate::formula::{Formula, Node as FormulaNode};
use crate::ops::{Operation, Relation};
use crate::opt::graph::GraphNode;
use crate::opt::program::{Instruction, Reduction};
use crate::shape::{InlineVec, Shape};

/// The most terms of a sum that one loop adds up.
const MOST_TERMS: usize = 48;

/// Leaves axes of size 1 out of the strides of all operands over a space; returns the sizes of the others.
pub(super) fn squeeze(space: &[usize], operands: &mut [Located]) -> InlineVec<usize> {
    if space.contains(&1) {
        operands.iter_mut().for_each(|operand| operand.strides = squeezed_strides(space, &operand.strides));
    }
    space.iter().copied().filter(|size| *size != 1).collect()
}

impl Lowering<'_> {
    /// Computes a node element by element, over operands located along its own axes: row by row, or, if any order of its
    /// axes will do, in that of its operands.
    pub(super) fn pointwise(
        &mut self,
        node: &GraphNode,
        shape: &Shape,
        mut operands: Vec<Located>,
        order: AxisOrder,
    ) -> Located {
        // A long sum is a sum of sums in the same order, so that no loop reads more than it has room for.
        if node.op == Op::Add && operands.len() > MOST_TERMS {
            let rest = operands.split_off(MOST_TERMS);
            for terms in rest.chunks(MOST_TERMS - 1) {
                let sum = self.pointwise(node, shape, operands, order);
                operands = std::iter::once(sum).chain(terms.iter().cloned()).collect();
            }
        }
        let mut extents = squeeze(shape, &mut operands);
        let followed = if order == AxisOrder::Rows { None } else { self.followed(&operands) };
        let channels_last = followed.is_some();
        let order = match order {
            AxisOrder::Any => followed.or_else(|| order_of(&operands)),
            AxisOrder::Followed | AxisOrder::Rows => followed,
        };
        let located = |producer: usize, extents: &[usize]| match &order {
            Some(order) => Located { producer, offset: 0, strides: strides_in(order, extents, shape) },
            None => Located::whole(producer, shape),
        };
        if let Some(order) = &order {
            permute(order, &mut extents, &mut operands);
        }
        let place = self.loop_over(&extents, &mut operands);
        let registers: InlineVec<Register> = operands.iter().map(|operand| self.register(place, operand)).collect();
        let register = match &node.op {
            // A register of a storage type is one of its compute type.
            Op::Cast if self.is_held(&operands[0], node.dtype) => registers[0],
            _ => self.instructions(place, node, &registers),
        };
        let producer = self.produce(node.dtype, shape.elements());
        self.producers[producer].group = place.group;
        self.producers[producer].register = Some(register);
        self.producers[producer].by_row = place.by_row;
        self.producers[producer].channels_last = channels_last;
        self.producers[producer].number = match &node.op {
            Op::Einsum(einsum) if operands.is_empty() => Some(einsum.coefficient),
            _ => None,
        };
        located(producer, &extents)
    }

    /// Whether a register of an operand holds its elements in a type too.
    fn is_held(&self, operand: &Located, dtype: DType) -> bool {
        let own = self.producers[operand.producer].dtype;
        own == dtype || own.compute_type() == dtype
    }

    /// Instructions for one element of a node.
    fn instructions(&mut self, place: LoopPosition, node: &GraphNode, inputs: &[Register]) -> Register {
        let code = |place: usize| inputs[place].encode();
        match &node.op {
            Op::Map(formula) => self.formula(place, formula, inputs, node.dtype),
            Op::Add => inputs[1..].iter().fold(inputs[0], |sum, term| {
                self.emit(place, Instruction::Binary(Operation::Add, sum.encode(), term.encode()), node.dtype)
            }),
            Op::Compare(relation) => self.emit(place, Instruction::Compare(*relation, code(0), code(1)), DType::Bool),
            Op::Logic(logic) => {
                let second = inputs.get(1).unwrap_or(&inputs[0]).encode();
                self.emit(place, Instruction::Logic(*logic, code(0), second), DType::Bool)
            }
            Op::Select => self.emit(place, Instruction::Select(code(0), code(1), code(2)), node.dtype),
            Op::Cast if node.dtype.is_storage_only() => {
                self.emit(place, Instruction::Narrow(code(0), node.dtype), node.dtype)
            }
            Op::Cast => self.emit(place, Instruction::Cast(code(0)), node.dtype),
            Op::Einsum(einsum) => self.product_of(place, einsum, inputs, node.dtype, einsum.coefficient),
            other => unreachable!("{} is not pointwise", other.describe()),
        }
    }

    /// The product of registers, in which zeros of strong ones win.
    pub(super) fn product_of(
        &mut self,
        place: LoopPosition,
        einsum: &Einsum,
        inputs: &[Register],
        dtype: DType,
        coefficient: f64,
    ) -> Register {
        let mut product: Option<Register> = None;
        let weak = inputs.iter().zip(&einsum.strong).filter(|(_, strong)| !**strong);
        for (register, _) in weak {
            product = Some(match product {
                None => *register,
                Some(product) => {
                    let multiply = Instruction::Binary(Operation::Mul, product.encode(), register.encode());
                    self.emit(place, multiply, dtype)
                }
            });
        }
        if coefficient != 1.0 || inputs.is_empty() {
            product = Some(match product {
                None => self.emit(place, Instruction::Constant(coefficient), dtype),
                Some(product) if coefficient == -1.0 && dtype.is_float() => {
                    self.emit(place, Instruction::Unary(Operation::Neg, product.encode(), 0.0), dtype)
                }
                Some(product) => {
                    let number = self.emit(place, Instruction::Constant(coefficient), dtype);
                    self.emit(place, Instruction::Binary(Operation::Mul, product.encode(), number.encode()), dtype)
                }
            });
        }
        let strong: InlineVec<Register> =
            inputs.iter().zip(&einsum.strong).filter(|(_, strong)| **strong).map(|(register, _)| *register).collect();
        match (&strong[..], product) {
            ([], Some(product)) => product,
            ([], None) => unreachable!("a product without factors has a coefficient"),
            ([only], None) => *only,
            ([only], Some(product)) => self.emit(place, Instruction::MaskedMul(only.encode(), product.encode()), dtype),
            // The zeros of any of several win over all the others, those among them included.
            (several, product) => {
                let mut whole = product;
                for register in several {
                    whole = Some(match whole {
                        None => *register,
                        Some(whole) => {
                            let multiply = Instruction::Binary(Operation::Mul, whole.encode(), register.encode());
                            self.emit(place, multiply, dtype)
                        }
                    });
                }
                let zero = self.emit(place, Instruction::Constant(0.0), dtype);
                let mut whole = whole.unwrap_or(zero);
                for register in several {
                    let compare = Instruction::Compare(Relation::Equal, register.encode(), zero.encode());
                    let is_zero = self.emit(place, compare, DType::Bool);
                    let choose = Instruction::Select(is_zero.encode(), zero.encode(), whole.encode());
                    whole = self.emit(place, choose, dtype);
                }
                whole
            }
        }
    }

    pub(super) fn formula(
        &mut self,
        place: LoopPosition,
        formula: &Formula,
        inputs: &[Register],
        dtype: DType,
    ) -> Register {
        let mut registers: InlineVec<Register> = InlineVec::new();
        for node in &formula.nodes {
            let at = |node: usize| registers[node].encode();
            let register = match *node {
                FormulaNode::Variable(variable) => inputs[variable],
                FormulaNode::Number(number) => self.emit(place, Instruction::Constant(number), dtype),
                FormulaNode::Unary(operation, x, parameter) => {
                    self.emit(place, Instruction::Unary(operation, at(x), parameter), dtype)
                }
                FormulaNode::Binary(operation, a, b) => {
                    self.emit(place, Instruction::Binary(operation, at(a), at(b)), dtype)
                }
                FormulaNode::Choose(left, relation, right, taken, otherwise) => {
                    let (taken, otherwise) = (at(taken), at(otherwise));
                    let compare = Instruction::Compare(relation, at(left), at(right));
                    let holds = self.emit(place, compare, DType::Bool);
                    self.emit(place, Instruction::Select(holds.encode(), taken, otherwise), dtype)
                }
            };
            registers.push(register);
        }
        registers[formula.outputs[0]]
    }

    /// Computes elements over a space and puts them together; strides lead from the space into the result.
    pub(super) fn combined(
        &mut self,
        node: &GraphNode,
        space: &[usize],
        mut operands: Vec<Located>,
        strides: &[isize],
        reduction: Reduction,
        einsum: Option<&Einsum>,
    ) -> Located {
        let mut extents = squeeze(space, &mut operands);
        let mut strides = squeezed_strides(space, strides);
        if let Some(order) = self.followed(&operands) {
            permute(&order, &mut extents, &mut operands);
            strides = order.iter().map(|axis| strides[*axis]).collect();
        }
        if let Some(unrolled) = self.unrolled(node, &extents, &operands, &strides, reduction, einsum) {
            return unrolled;
        }
        let place = self.loop_over(&extents, &mut operands);
        let axes = self.axes_of(place);
        let strides = split(&extents, &strides, &axes);
        let registers: InlineVec<Register> = operands.iter().map(|operand| self.register(place, operand)).collect();
        // A place is reached more than once if the steps of some axis do not move it.
        let once = strides.iter().zip(axes.iter()).all(|(stride, extent)| *stride != 0 || *extent == 1);
        let (register, scale) = match einsum {
            // A factor of a sum waits until the sum is there, unless zeros win over it.
            Some(einsum) if !once && !einsum.is_strong() && node.dtype.is_float() => {
                (self.product_of(place, einsum, &registers, node.dtype, 1.0), einsum.coefficient)
            }
            Some(einsum) => (self.product_of(place, einsum, &registers, node.dtype, einsum.coefficient), 1.0),
            None => (registers[0], 1.0),
        };
        let producer = self.produce(node.dtype, node.shape.elements());
        self.producers[producer].group = place.group;
        let is_free = !once && !place.by_row && node.dtype.is_float() && !axes.contains(&0);
        let along = if is_free { along_rows(&axes, &strides, self.target.row_elements) } else { None };
        if let (Some(along), Group::Loop(group_loop)) = (along, &mut self.groups[place.group])
            && *group_loop.along_rows.get_or_insert_with(|| along.clone()) == along
        {
            // The loop can go on with what it puts together along a row.
            let whole = Instruction::RowReduce(reduction, register.encode(), scale);
            let register = self.emit(LoopPosition { by_row: true, ..place }, whole, node.dtype);
            self.producers[producer].register = Some(register);
            self.producers[producer].by_row = true;
            return Located::whole(producer, &node.shape);
        }
        self.producers[producer].needed = true;
        if !once {
            // Reductions over blocks are taken in memory of the compute type.
            self.producers[producer].dtype = node.dtype.compute_type();
        }
        let moved = axes.iter().zip(strides.iter()).filter(|(_, stride)| **stride != 0);
        let reached = moved.fold(1, |reached: usize, (extent, _)| reached.saturating_mul(*extent));
        let clear = !once || reached < node.shape.elements() || axes.contains(&0);
        if let Group::Loop(group_loop) = &mut self.groups[place.group] {
            let reduction = (!once).then_some(reduction);
            let strides = if place.by_row { group_loop.with_rows(&strides) } else { strides };
            group_loop.stores.push(PendingStore { register, producer, offset: 0, strides, reduction, scale, clear });
        }
        self.narrowed(&Located::whole(producer, &node.shape), &node.shape, node.dtype)
    }
}
