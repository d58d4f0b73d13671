//! Instructions of fused loops as expressions.

use super::{Writer, type_of};
use crate::dtype::DType;
use crate::ops::Operation;
use crate::program::Logic;
use crate::program::{Instruction, Loop, Reduction};

/// A number of an element type.
pub(super) fn literal(dtype: DType, number: f64) -> String {
    let written = match number {
        _ if number.is_nan() => "GG_NAN".to_owned(),
        _ if number == f64::INFINITY => "GG_INFINITY".to_owned(),
        _ if number == f64::NEG_INFINITY => "(-GG_INFINITY)".to_owned(),
        _ => format!("{number:e}"),
    };
    match dtype {
        DType::F64 => written,
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("no register is of {dtype}"),
        DType::F32 => format!("(float){written}"),
        DType::I64 if number as i64 == i64::MIN => "(-0x7FFFFFFFFFFFFFFFLL - 1)".to_owned(),
        DType::I64 => format!("{}LL", number as i64),
        DType::Bool => format!("(u8){}", u8::from(number != 0.0)),
    }
}

/// What a reduction begins with.
pub(super) fn identity(reduction: Reduction, dtype: DType) -> String {
    match (reduction, dtype) {
        (Reduction::Sum, _) | (Reduction::Max, DType::Bool) => literal(dtype, 0.0),
        (Reduction::Max, DType::I64) => literal(dtype, i64::MIN as f64),
        (Reduction::Max, DType::F32 | DType::F64) => literal(dtype, f64::NEG_INFINITY),
        (Reduction::Max, DType::F16 | DType::BF16 | DType::I32 | DType::U8) => {
            unreachable!("no reduction is taken in {dtype}")
        }
    }
}

/// Two numbers reduced to one.
pub(super) fn reduced(reduction: Reduction, a: &str, b: &str) -> String {
    match reduction {
        Reduction::Sum => format!("gg_plus({a}, {b})"),
        Reduction::Max => format!("gg_max({a}, {b})"),
    }
}

/// A number times the factor of a sum.
pub(super) fn scaled(dtype: DType, number: &str, scale: f64) -> String {
    if scale == 1.0 { number.to_owned() } else { format!("gg_times({number}, {})", literal(dtype, scale)) }
}

impl Writer {
    /// The value of the instruction at a place of the code; `name` gives the text of a register.
    pub(super) fn instruction(&mut self, fused: &Loop, place: usize, name: &dyn Fn(usize) -> String) -> String {
        let (instruction, dtype) = fused.code[place];
        match instruction {
            Instruction::Constant(number) => literal(dtype, number),
            Instruction::Unary(operation, a, parameter) => match dtype {
                DType::F32 | DType::F64 => {
                    self.operations.insert(operation.name());
                    format!("gg_{}({}, {})", operation.name(), name(a), literal(DType::F64, parameter))
                }
                DType::I64 if operation == Operation::Neg => format!("(i64)(0ULL - (u64){})", name(a)),
                DType::I64 | DType::Bool | DType::F16 | DType::BF16 | DType::I32 | DType::U8 => {
                    unreachable!("there is no {} of {dtype}", operation.name())
                }
            },
            Instruction::Binary(operation, a, b) => {
                let (x, y) = (name(a), name(b));
                match (dtype, operation) {
                    (DType::F32 | DType::F64, _) => {
                        self.operations.insert(operation.name());
                        format!("gg_{}({x}, {y}, 0.0)", operation.name())
                    }
                    (DType::I64 | DType::Bool, Operation::Add) => format!("gg_plus({x}, {y})"),
                    (DType::I64 | DType::Bool, Operation::Mul) => format!("gg_times({x}, {y})"),
                    (DType::I64, Operation::Sub) => format!("(i64)((u64){x} - (u64){y})"),
                    _ => unreachable!("there is no {} of {dtype}", operation.name()),
                }
            }
            Instruction::MaskedMul(a, b) => {
                let (x, y) = (name(a), name(b));
                format!("({x} == 0 ? ({})0 : gg_times({x}, {y}))", type_of(dtype))
            }
            Instruction::Compare(relation, a, b) => format!("(u8)({} {} {})", name(a), relation.symbol(), name(b)),
            Instruction::Logic(Logic::And, a, b) => format!("(u8)({} && {})", name(a), name(b)),
            Instruction::Logic(Logic::Or, a, b) => format!("(u8)({} || {})", name(a), name(b)),
            Instruction::Logic(Logic::Not, a, _) => format!("(u8)!{}", name(a)),
            Instruction::Select(condition, a, b) => format!("({} ? {} : {})", name(condition), name(a), name(b)),
            Instruction::Cast(a) => match (fused.dtype(a), dtype) {
                (DType::F32 | DType::F64, DType::I64) => format!("gg_integer({})", name(a)),
                (_, DType::Bool) => format!("(u8)({} != 0)", name(a)),
                (_, to) => format!("({}){}", type_of(to), name(a)),
            },
            Instruction::Narrow(a, DType::F16) => format!("(float)(gg_f16)gg_round_to_odd({})", name(a)),
            Instruction::Narrow(a, DType::BF16) => format!("(float)(gg_bf16)gg_round_to_odd({})", name(a)),
            Instruction::Narrow(a, DType::I32) => format!("gg_as_i32({})", name(a)),
            Instruction::Narrow(a, DType::U8) => format!("gg_as_u8({})", name(a)),
            Instruction::Narrow(_, target @ (DType::F32 | DType::F64 | DType::I64 | DType::Bool)) => {
                unreachable!("{target} is computed in itself")
            }
            Instruction::RowReduce(..) => unreachable!("a reduction of rows is more than an expression"),
            Instruction::BroadcastRow(a) => name(a),
        }
    }

    /// Computes the registers that are needed for one element, from the text of its loads.
    pub(super) fn computed(&mut self, fused: &Loop, needed: &[bool], load: &dyn Fn(usize) -> String) {
        for register in (0..needed.len()).filter(|register| needed[*register]) {
            let value = match register.checked_sub(fused.loads.len()) {
                None => load(register),
                Some(place) => self.instruction(fused, place, &|operand| format!("r{operand}")),
            };
            self.line(format!("const {} r{register} = {value};", type_of(fused.dtype(register))));
        }
    }
}

impl Loop {
    /// For each register, whether some depend on it, themselves included.
    pub(super) fn needed(&self, wanted: &[usize]) -> Vec<bool> {
        let mut needed = vec![false; self.loads.len() + self.code.len()];
        wanted.iter().for_each(|register| needed[*register] = true);
        for place in (0..self.code.len()).rev() {
            if needed[self.loads.len() + place] {
                self.code[place].0.operands().for_each(|operand| needed[operand] = true);
            }
        }
        needed
    }
}
