//! Code in Python with NumPy or JAX: products in Einstein notation.

use std::fmt::Write as _;

use super::names::Names;
use super::program::{Argument, ArrayId, ArrayProgram, Operand, Statement, Work};
use super::spelling::{bare, binary, choose, library, literal, unary};
use super::{Language, Routine};
use crate::einsum::Label;
use crate::lang::matrix::{Function, Size};

/// Words that cannot be names, and names that the code gives itself.
const RESERVED: [&str; 43] = [
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "np",
    "jnp",
    "jax",
    "value",
    "gradient",
    "result",
    "hessian_vector",
    "jacobian_vector",
];

type Unspelled = &'static str;

/// All routines as one file, or the function that has no spelling.
pub(super) fn written(language: Language, routines: &[Routine]) -> Result<String, Unspelled> {
    let mut code = match language {
        Language::Jax => {
            "import jax\nimport jax.numpy as jnp\n\njax.config.update(\"jax_enable_x64\", True)\n".to_owned()
        }
        _ => "import numpy as np\n".to_owned(),
    };
    for routine in routines {
        code += &Writer::new(language, routine).routine(routine)?;
    }
    Ok(code)
}

struct Writer<'a> {
    language: Language,
    program: &'a ArrayProgram,
    names: Names,
}

impl<'a> Writer<'a> {
    fn new(language: Language, routine: &'a Routine) -> Writer<'a> {
        let names = Names::of(routine, &RESERVED);
        Writer { language, program: &routine.program, names }
    }

    fn routine(&self, routine: &Routine) -> Result<String, Unspelled> {
        let mut arguments = self.names.arrays[..routine.inputs.len()].to_vec();
        let is_missing = |(size, _): &&(String, String)| routine.sizes.contains(size);
        arguments.extend(self.names.sizes.iter().filter(is_missing).map(|(_, name)| name.clone()));
        let mut code = format!("\n\ndef {}({}):\n", routine.name, arguments.join(", "));
        let _ = writeln!(code, "    \"\"\"{}\"\"\"", routine.about.replace('\\', "\\\\").replace('"', "'"));
        let mut body = String::new();
        for statement in &self.program.statements {
            body += &self.statement(statement)?;
        }
        for (size, name) in &self.names.sizes {
            let axis = |(place, (_, sizes)): (usize, &(String, Vec<Size>))| {
                let axis = sizes.iter().position(|own| *own == Size::Name(size.clone()))?;
                Some((place, axis))
            };
            // Only sizes that the code names are read.
            let named = body.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
            if let (true, Some((place, axis))) = (named, routine.inputs.iter().enumerate().find_map(axis)) {
                let _ = writeln!(code, "    {name} = {}.shape[{axis}]", arguments[place]);
            }
        }
        let _ = writeln!(body, "    return {}", self.names.arrays[self.program.result]);
        Ok(code + &body)
    }

    fn statement(&self, statement: &Statement) -> Result<String, Unspelled> {
        let target = &self.names.arrays[statement.target];
        let value = match &statement.work {
            Work::Product { coefficient, operands, output, sizes } => {
                self.product(*coefficient, operands, output, sizes)
            }
            Work::Elementwise(operation, parameter, arguments) => {
                let operands: Vec<String> = arguments.iter().map(|own| self.argument(*own)).collect();
                let value = match &operands[..] {
                    [x] => unary(self.language, *operation, x, *parameter),
                    [a, b] => binary(self.language, *operation, a, b),
                    _ => None,
                };
                value.ok_or(operation.name())?
            }
            Work::Choice(relation, arguments) => {
                let operands: Vec<String> = arguments.iter().map(|own| self.argument(*own)).collect();
                choose(self.language, *relation, &operands)
            }
            Work::OfMatrix(function, argument) => {
                let (library, argument) = (library(self.language), &self.names.arrays[*argument]);
                match function {
                    Function::Inverse => format!("{library}.linalg.inv({argument})"),
                    Function::Determinant => format!("{library}.linalg.det({argument})"),
                    // The sign is 1 or -1; of -1 the logarithm is not a number.
                    _ => format!(
                        "{library}.log({library}.linalg.slogdet({argument})[0]) + {library}.linalg.slogdet({argument})[1]"
                    ),
                }
            }
        };
        // JAX arrays are immutable: sums are new arrays.
        let value = bare(&value);
        Ok(match (statement.adds, value.strip_prefix("-1.0 * ").or(value.strip_prefix('-'))) {
            (true, Some(positive)) => format!("    {target} = {target} - {positive}\n"),
            (true, None) => format!("    {target} = {target} + {value}\n"),
            (false, _) => format!("    {target} = {value}\n"),
        })
    }

    fn argument(&self, argument: Argument) -> String {
        match argument {
            Argument::Number(value) => literal(value),
            Argument::Array(place) => self.names.arrays[place].clone(),
        }
    }

    fn power(&self, place: ArrayId, exponent: u32) -> String {
        let name = &self.names.arrays[place];
        if exponent == 1 { name.clone() } else { format!("{name}**{exponent}") }
    }

    fn product(&self, coefficient: f64, operands: &[Operand], output: &[Label], sizes: &[Size]) -> String {
        let library = library(self.language);
        let (scalars, arrays): (Vec<&Operand>, Vec<&Operand>) =
            operands.iter().partition(|operand| operand.labels.is_empty());
        let simple = arrays.iter().all(|operand| operand.labels == output) && distinct(output);
        let (mut above, mut below) = (Vec::new(), Vec::new());
        let mut place = |operand: &Operand| {
            let written = self.power(operand.array, operand.exponent.unsigned_abs());
            if operand.exponent > 0 { above.push(written) } else { below.push(written) }
        };
        scalars.into_iter().for_each(&mut place);
        if simple && (!arrays.is_empty() || output.is_empty()) {
            arrays.into_iter().for_each(&mut place);
        } else {
            above.push(self.einsum(&arrays, output, sizes, library));
        }
        if coefficient != 1.0 || above.is_empty() {
            above.insert(0, literal(coefficient).trim_matches(['(', ')']).to_owned());
        }
        let top = above.join(" * ");
        match &below[..] {
            [] => top,
            [only] => format!("{top} / {only}"),
            several => format!("{top} / ({})", several.join(" * ")),
        }
    }

    /// A product in Einstein notation. Labels that repeat in the output become unit matrices, and labels that no
    /// operand has by ones.
    fn einsum(&self, operands: &[&Operand], output: &[Label], sizes: &[Size], library: &str) -> String {
        let letter = |label: Label| char::from(b'a' + u8::try_from(label % 26).unwrap_or(0));
        if let ([only], []) = (operands, output)
            && only.exponent > 0
            && distinct(&only.labels)
        {
            return format!("{library}.sum({})", self.power(only.array, only.exponent.unsigned_abs()));
        }
        let mut lists: Vec<String> = Vec::new();
        let mut arguments: Vec<String> = Vec::new();
        for operand in operands {
            lists.push(operand.labels.iter().map(|label| letter(*label)).collect());
            let power = self.power(operand.array, operand.exponent.unsigned_abs());
            arguments.push(if operand.exponent > 0 { power } else { format!("1.0 / {power}") });
        }
        let mut result = String::new();
        let mut next = sizes.len();
        for (slot, label) in output.iter().enumerate() {
            let size = self.names.size(&sizes[*label]);
            if output[..slot].contains(label) {
                lists.push(format!("{}{}", letter(*label), letter(next)));
                arguments.push(format!("{library}.eye({size})"));
                result.push(letter(next));
                next += 1;
                continue;
            }
            let bound = operands.iter().any(|operand| operand.labels.contains(label));
            if !bound && !output[slot + 1..].contains(label) {
                lists.push(letter(*label).to_string());
                arguments.push(format!("{library}.ones({size})"));
            }
            result.push(letter(*label));
        }
        format!("{library}.einsum(\"{}->{result}\", {})", lists.join(","), arguments.join(", "))
    }
}

fn distinct(labels: &[Label]) -> bool {
    (1..labels.len()).all(|slot| !labels[..slot].contains(&labels[slot]))
}
