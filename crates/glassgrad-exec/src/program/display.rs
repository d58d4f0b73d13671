//! Programs as text.

use std::fmt;

use super::Logic;
use super::{Access, ContractionAxis, Instruction, Loop, Memory, Program, Reduction, ReverseScan, Signature, Step};
use crate::revolve::Schedule;

impl fmt::Display for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Input(number) => write!(formatter, "input {number}"),
            Memory::Constant(number) => write!(formatter, "constant {number}"),
            Memory::Result(number) => write!(formatter, "result {number}"),
            Memory::Arena(offset) => write!(formatter, "@{offset}"),
            Memory::Tile => write!(formatter, "tile"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strides: Vec<String> = self.strides.iter().map(isize::to_string).collect();
        write!(formatter, "{}", self.memory)?;
        if self.offset != 0 {
            write!(formatter, "+{}", self.offset)?;
        }
        write!(formatter, "[{}]", strides.join(","))
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Constant(number) => write!(formatter, "{number}"),
            Instruction::Unary(operation, a, parameter) if operation.parameter().is_some() => {
                write!(formatter, "{}(r{a}, {parameter})", operation.name())
            }
            Instruction::Unary(operation, a, _) => write!(formatter, "{}(r{a})", operation.name()),
            Instruction::Binary(operation, a, b) => write!(formatter, "{}(r{a}, r{b})", operation.name()),
            Instruction::MaskedMul(a, b) => write!(formatter, "r{a} !* r{b}"),
            Instruction::Compare(relation, a, b) => write!(formatter, "r{a} {} r{b}", relation.symbol()),
            Instruction::Logic(Logic::Not, a, _) => write!(formatter, "not r{a}"),
            Instruction::Logic(Logic::And, a, b) => write!(formatter, "r{a} and r{b}"),
            Instruction::Logic(Logic::Or, a, b) => write!(formatter, "r{a} or r{b}"),
            Instruction::Select(condition, a, b) => write!(formatter, "r{condition} ? r{a} : r{b}"),
            Instruction::Cast(a) => write!(formatter, "cast(r{a})"),
            Instruction::Narrow(a, dtype) => write!(formatter, "{dtype}(r{a})"),
            Instruction::BroadcastRow(a) => write!(formatter, "broadcast(r{a})"),
            Instruction::RowReduce(reduction, a, scale) => {
                let name = match reduction {
                    Reduction::Sum => "row sum",
                    Reduction::Max => "row max",
                };
                match scale {
                    1.0 => write!(formatter, "{name}(r{a})"),
                    scale => write!(formatter, "{name}(r{a}) * {scale}"),
                }
            }
        }
    }
}

/// The type of elements that are converted where they are loaded or stored.
fn storage(access: &Access) -> String {
    if access.dtype.is_storage_only() { format!(" : {}", access.dtype) } else { String::new() }
}

/// What is read, computed and kept, a line each.
impl fmt::Display for Loop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "loop {:?}", self.extents)?;
        for (register, load) in self.loads.iter().enumerate() {
            writeln!(formatter, "       r{register} = {load}{}", storage(load))?;
        }
        for (register, (instruction, dtype)) in (self.loads.len()..).zip(&self.code) {
            writeln!(formatter, "       r{register} = {instruction} : {dtype}")?;
        }
        for store in &self.stores {
            let arrow = match store.reduction {
                None => "->",
                Some(Reduction::Sum) => "sum ->",
                Some(Reduction::Max) => "max ->",
            };
            writeln!(formatter, "       r{} {arrow} {}{}", store.register, store.access, storage(&store.access))?;
        }
        Ok(())
    }
}

/// The steps in words, with what they compute and move.
impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = |(shape, dtype): &Signature| format!("{dtype}{shape}");
        let listed = |signatures: &[Signature]| signatures.iter().map(signature).collect::<Vec<_>>().join(", ");
        writeln!(
            formatter,
            "{} -> {}, {} steps, arena {} bytes",
            listed(&self.inputs),
            listed(&self.results),
            self.steps.len(),
            self.arena
        )?;
        for (number, step) in self.steps.iter().enumerate() {
            write!(formatter, "{number:>3}  ")?;
            match step {
                Step::Loop(fused) => fused.fmt(formatter)?,
                Step::Contract(product) => {
                    let sizes = |axes: &[ContractionAxis]| axes.iter().map(|axis| axis.extent).collect::<Vec<_>>();
                    let [a, b, c] = &product.operands;
                    let symmetric = if product.symmetric { "symmetric " } else { "" };
                    let masked = if product.masked != [false; 2] { "masked " } else { "" };
                    writeln!(
                        formatter,
                        "{symmetric}{masked}product {:?} {}×{}×{} sum {:?}: {} · {} -> {}",
                        sizes(&product.batch),
                        product.rows.extent,
                        product.inner.extent,
                        product.columns.extent,
                        sizes(&product.sums),
                        a.memory,
                        b.memory,
                        c.memory
                    )?;
                    if let Some(epilogue) = &product.epilogue {
                        write!(formatter, "     epilogue: ")?;
                        epilogue.fmt(formatter)?;
                    }
                }
                Step::Call(call) => {
                    let inputs: Vec<String> =
                        call.inputs.iter().map(|(access, shape)| format!("{}{shape}", access.memory)).collect();
                    let outputs: Vec<String> =
                        call.outputs.iter().map(|(access, _)| access.memory.to_string()).collect();
                    let (inputs, outputs) = (inputs.join(", "), outputs.join(", "));
                    writeln!(formatter, "{}({inputs}) -> {outputs}", call.kind.describe())?;
                }
                Step::Scan(scan) => {
                    let direction = if scan.reversed { " backwards" } else { "" };
                    writeln!(formatter, "scan of {} steps{direction}", scan.length)?;
                    for line in scan.body.to_string().lines() {
                        writeln!(formatter, "       {line}")?;
                    }
                }
                Step::ReverseScan(sweep) => sweep.fmt(formatter)?,
            }
        }
        Ok(())
    }
}

/// How many actions of a schedule are listed.
const LISTED: usize = 24;

/// The schedule in words, and both programs.
impl fmt::Display for ReverseScan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Schedule { steps, snapshots, actions } = &*self.schedule;
        let [forwards, back] = self.runs();
        writeln!(
            formatter,
            "reverse sweep of {steps} steps with {snapshots} snapshots: {forwards} steps forwards, {back} back"
        )?;
        for action in actions.iter().take(LISTED) {
            writeln!(formatter, "       {action}")?;
        }
        if let Some(more) = actions.len().checked_sub(LISTED).filter(|more| *more > 0) {
            writeln!(formatter, "       and so on, {more} actions more")?;
        }
        for (what, program) in [("forwards", &self.advance), ("back", &self.reverse)] {
            writeln!(formatter, "       one step {what}:")?;
            for line in program.to_string().lines() {
                writeln!(formatter, "         {line}")?;
            }
        }
        Ok(())
    }
}
