//! Programs as text, and back: the format of `corpus/*.txt`.
//!
//! ```text
//! input %0 data=f64[2,3]:1,2,3,4,5,6
//! %1 = sum(%0) integers=0
//! %2 = scan(%1,%0) integers=1 { %3 %4
//!   %5 = add(%3,%4)
//!   yield %5
//! }
//! return %1 %2
//! ```

use std::fmt;
use std::str::FromStr;

use glassgrad::dtype::DType;

use super::program::{Block, Data, Elements, Instruction, Program, Value};

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, data) in self.block.parameters.iter().zip(&self.inputs) {
            writeln!(formatter, "input %{value} data={data}")?;
        }
        write_instructions(formatter, &self.block, 0)?;
        writeln!(formatter, "return {}", values(&self.block.results, " "))
    }
}

fn values(list: &[Value], separator: &str) -> String {
    list.iter().map(|value| format!("%{value}")).collect::<Vec<_>>().join(separator)
}

fn write_instructions(formatter: &mut fmt::Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
    for one in &block.instructions {
        let indent = "  ".repeat(depth);
        write!(formatter, "{indent}{} = {}({})", values(&one.results, ","), one.operation, values(&one.operands, ","))?;
        if !one.integers.is_empty() {
            let list: Vec<String> = one.integers.iter().map(i64::to_string).collect();
            write!(formatter, " integers={}", list.join(","))?;
        }
        if !one.reals.is_empty() {
            write!(formatter, " reals={}", reals(&one.reals))?;
        }
        if !one.text.is_empty() {
            write!(formatter, " text={}", one.text)?;
        }
        if let Some(data) = &one.data {
            write!(formatter, " data={data}")?;
        }
        match &one.block {
            Some(block) => {
                writeln!(formatter, " {{ {}", values(&block.parameters, " "))?;
                write_instructions(formatter, block, depth + 1)?;
                writeln!(formatter, "{indent}  yield {}\n{indent}}}", values(&block.results, " "))?;
            }
            None => writeln!(formatter)?,
        }
    }
    Ok(())
}

fn reals(list: &[f64]) -> String {
    list.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(formatter, "{}[{}]:", self.dtype, shape.join(","))?;
        match &self.elements {
            Elements::Reals(list) => write!(formatter, "{}", reals(list)),
            Elements::Integers(list) => {
                write!(formatter, "{}", list.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
            }
            Elements::Drawn(seed) => write!(formatter, "drawn{seed}"),
        }
    }
}

fn list<T: FromStr>(text: &str) -> Result<Vec<T>, String> {
    let one = |entry: &str| entry.parse().map_err(|_| format!("'{entry}' cannot be read"));
    if text.is_empty() { Ok(Vec::new()) } else { text.split(',').map(one).collect() }
}

fn value(text: &str) -> Result<Value, String> {
    let number = text.strip_prefix('%').and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("'{text}' is not a value such as %3"))
}

fn value_list(text: &str) -> Result<Vec<Value>, String> {
    text.split(',').filter(|entry| !entry.is_empty()).map(value).collect()
}

impl FromStr for Data {
    type Err = String;

    fn from_str(text: &str) -> Result<Data, String> {
        let wrong = || format!("'{text}' is not an array such as f64[2]:1,2");
        let (head, elements) = text.split_once(':').ok_or_else(wrong)?;
        let (dtype, shape) = head.strip_suffix(']').and_then(|head| head.split_once('[')).ok_or_else(wrong)?;
        let dtype = match dtype {
            "f32" => DType::F32,
            "f64" => DType::F64,
            "i64" => DType::I64,
            "bool" => DType::Bool,
            "f16" => DType::F16,
            "bf16" => DType::BF16,
            "i32" => DType::I32,
            "u8" => DType::U8,
            _ => return Err(wrong()),
        };
        let elements = match elements.strip_prefix("drawn") {
            Some(seed) => Elements::Drawn(seed.parse().map_err(|_| wrong())?),
            None if dtype.is_float() => Elements::Reals(list(elements)?),
            None => Elements::Integers(list(elements)?),
        };
        let data = Data { dtype, shape: list(shape)?, elements };
        let count = match &data.elements {
            Elements::Reals(list) => list.len(),
            Elements::Integers(list) => list.len(),
            Elements::Drawn(_) => data.count(),
        };
        if count == data.count() { Ok(data) } else { Err(wrong()) }
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Program, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut lines = lines.peekable();
        let mut program = Program { inputs: Vec::new(), block: Block::default() };
        while let Some(line) = lines.peek().and_then(|line| line.strip_prefix("input ")) {
            let (name, data) = line.split_once(" data=").ok_or_else(|| format!("no data: {line}"))?;
            program.block.parameters.push(value(name)?);
            program.inputs.push(data.parse()?);
            lines.next();
        }
        read_block(&mut lines, &mut program.block, "return")?;
        Ok(program)
    }
}

/// Reads instructions up to the line that returns.
fn read_block<'t>(lines: &mut impl Iterator<Item = &'t str>, block: &mut Block, end: &str) -> Result<(), String> {
    loop {
        let line = lines.next().ok_or_else(|| format!("the line '{end}' is missing"))?;
        if let Some(results) = line.strip_prefix(end) {
            block.results = results.split_whitespace().map(value).collect::<Result<_, _>>()?;
            return Ok(());
        }
        let instruction = read_instruction(line, lines).map_err(|error| format!("{line}: {error}"))?;
        block.instructions.push(instruction);
    }
}

fn read_instruction<'t>(line: &str, lines: &mut impl Iterator<Item = &'t str>) -> Result<Instruction, String> {
    let (results, rest) = line.split_once(" = ").ok_or("not an instruction")?;
    let (operation, rest) = rest.split_once('(').ok_or("no operands")?;
    let (operands, rest) = rest.split_once(')').ok_or("no closing parenthesis")?;
    let mut one = Instruction {
        results: value_list(results)?,
        operation: operation.to_owned(),
        operands: value_list(operands)?,
        ..Instruction::default()
    };
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("integers", value)) => one.integers = list(value)?,
            Some(("reals", value)) => one.reals = list(value)?,
            Some(("text", value)) => one.text = value.to_owned(),
            Some(("data", value)) => one.data = Some(value.parse()?),
            _ if word == "{" => {
                let mut block =
                    Block { parameters: words.by_ref().map(value).collect::<Result<_, _>>()?, ..Block::default() };
                read_block(lines, &mut block, "yield")?;
                match lines.next() {
                    Some("}") => one.block = Some(block),
                    other => return Err(format!("a block ends with '}}', not {other:?}")),
                }
            }
            _ => return Err(format!("'{word}' is no attribute")),
        }
    }
    Ok(one)
}
