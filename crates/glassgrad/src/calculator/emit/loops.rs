//! Code in Rust and C: loops over dense arrays that lie row by row.

use std::fmt::Write as _;

use super::names::Names;
use super::program::{Argument, Array, ArrayId, ArrayProgram, Operand, Origin, Statement, Work};
use super::spelling::{bare, binary, choose, literal, unary};
use super::{Language, Routine, matrices};
use crate::einsum::Label;
use crate::lang::matrix::{Function, Size};

/// Words that cannot be names, in either language, and names that the code gives itself.
const RESERVED: [&str; 79] = [
    "as",
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "crate",
    "default",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "fn",
    "for",
    "goto",
    "if",
    "impl",
    "in",
    "inline",
    "int",
    "let",
    "long",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "register",
    "restrict",
    "return",
    "self",
    "Self",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "super",
    "switch",
    "trait",
    "true",
    "type",
    "typedef",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "void",
    "volatile",
    "where",
    "while",
    "sum",
    "result",
    "inverse",
    "determinant",
    "value",
    "gradient",
    "exp",
    "log",
    "pow",
    "fabs",
    "free",
    "calloc",
    "malloc",
    "size_t",
    "usize",
    "f64",
    "vec",
    "pivots",
    "log_determinant",
    "hessian_vector",
    "jacobian_vector",
];

type Unspelled = &'static str;

/// All routines as one file, or the function that has no spelling.
pub(super) fn written(language: Language, routines: &[Routine]) -> Result<String, Unspelled> {
    let functions: Vec<Function> = routines
        .iter()
        .flat_map(|routine| &routine.program.statements)
        .filter_map(|statement| match statement.work {
            Work::OfMatrix(function, _) => Some(function),
            _ => None,
        })
        .collect();
    let mut code = match language {
        Language::C => "#include <math.h>\n#include <stddef.h>\n#include <stdlib.h>\n".to_owned(),
        _ => "#![allow(dead_code, non_snake_case, unused_assignments, unused_variables)]\n".to_owned(),
    };
    code += &matrices::written(language, &functions);
    for routine in routines {
        code += &Writer::new(language, routine).routine(routine)?;
    }
    Ok(code)
}

struct Writer<'a> {
    language: Language,
    program: &'a ArrayProgram,
    names: Names,
    letters: Vec<String>,
}

impl<'a> Writer<'a> {
    fn new(language: Language, routine: &'a Routine) -> Writer<'a> {
        let names = Names::of(routine, &RESERVED);
        let letters =
            ('i'..='z').chain('a'..='h').map(String::from).filter(|letter| !names.taken.contains(letter)).collect();
        Writer { language, program: &routine.program, names, letters }
    }

    fn letter(&self, label: Label) -> String {
        self.letters.get(label).cloned().unwrap_or_else(|| format!("i_{label}"))
    }

    fn routine(&self, routine: &Routine) -> Result<String, Unspelled> {
        let ArrayProgram { arrays, statements, result } = self.program;
        let is_number = arrays[*result].sizes.is_empty();
        let mut code = String::new();
        let head = self.head(routine, is_number);
        let comment = if self.language == Language::C { "/* " } else { "/// " };
        let end = if self.language == Language::C { " */" } else { "" };
        let _ = write!(code, "\n{comment}{}{end}\n{head} {{\n", routine.about);
        for (place, array) in arrays.iter().enumerate().filter(|(_, array)| array.origin == Origin::Computed) {
            code += &self.declared(place, array, place == *result);
        }
        for statement in statements {
            code += &self.statement(statement)?;
        }
        let name = &self.names.arrays[*result];
        match (self.language, is_number) {
            (Language::C, _) => {
                for (place, array) in arrays.iter().enumerate() {
                    if array.origin == Origin::Computed && !array.sizes.is_empty() && place != *result {
                        let _ = writeln!(code, "    free({});", self.names.arrays[place]);
                    }
                }
                if is_number {
                    let _ = writeln!(code, "    return {name};");
                }
            }
            _ => {
                let _ = writeln!(code, "    {name}");
            }
        }
        Ok(code + "}\n")
    }

    fn head(&self, routine: &Routine, is_number: bool) -> String {
        let given = routine.inputs.iter().zip(&self.names.arrays);
        match self.language {
            Language::C => {
                let sizes = self.names.sizes.iter().map(|(_, name)| format!("size_t {name}"));
                let arrays = given.map(|((_, sizes), name)| match sizes.is_empty() {
                    true => format!("double {name}"),
                    false => format!("const double *{name}"),
                });
                let result = (!is_number).then(|| format!("double *{}", self.names.arrays[self.program.result]));
                let arguments: Vec<String> = sizes.chain(arrays).chain(result).collect();
                let kind = if is_number { "double" } else { "void" };
                format!("{kind} {}({})", routine.name, arguments.join(", "))
            }
            _ => {
                let sizes = self.names.sizes.iter().map(|(_, name)| format!("{name}: usize"));
                let arrays = given.map(|((_, sizes), name)| match sizes.is_empty() {
                    true => format!("{name}: f64"),
                    false => format!("{name}: &[f64]"),
                });
                let arguments: Vec<String> = sizes.chain(arrays).collect();
                let kind = if is_number { "f64" } else { "Vec<f64>" };
                format!("pub fn {}({}) -> {kind}", routine.name, arguments.join(", "))
            }
        }
    }

    /// An array of zeros; the result of C is an argument.
    fn declared(&self, place: ArrayId, array: &Array, is_result: bool) -> String {
        let name = &self.names.arrays[place];
        let sizes: Vec<String> = array.sizes.iter().map(|size| self.names.size(size)).collect();
        let count = sizes.join(" * ");
        match (self.language, array.sizes.is_empty()) {
            (Language::C, true) => format!("    double {name} = 0.0;\n"),
            (Language::C, false) if is_result => {
                format!("    for (size_t {0} = 0; {0} < {count}; ++{0}) {name}[{0}] = 0.0;\n", self.letter(0))
            }
            (Language::C, false) => format!("    double *{name} = calloc({count}, sizeof(double));\n"),
            (_, true) => format!("    let mut {name} = 0.0_f64;\n"),
            (_, false) => format!("    let mut {name} = vec![0.0_f64; {count}];\n"),
        }
    }

    /// The element of an array at some labels.
    fn element(&self, place: ArrayId, labels: &[Label]) -> String {
        let array = self.program.array(place);
        let name = &self.names.arrays[place];
        if array.origin == Origin::Size {
            return match self.language {
                Language::C => format!("(double){name}"),
                _ => format!("{name} as f64"),
            };
        }
        let mut index = String::new();
        for (label, size) in labels.iter().zip(&array.sizes) {
            let letter = self.letter(*label);
            index = match (index.is_empty(), index.contains('+')) {
                (true, _) => letter,
                (false, true) => format!("({index}) * {} + {letter}", self.names.size(size)),
                (false, false) => format!("{index} * {} + {letter}", self.names.size(size)),
            };
        }
        if index.is_empty() { name.clone() } else { format!("{name}[{index}]") }
    }

    /// Opens loops over labels, and says how deep it is.
    fn open(&self, code: &mut String, labels: &[Label], sizes: &[Size], mut depth: usize) -> usize {
        for label in labels {
            let (letter, size) = (self.letter(*label), self.names.size(&sizes[*label]));
            let indent = "    ".repeat(depth);
            let _ = match self.language {
                Language::C => writeln!(code, "{indent}for (size_t {letter} = 0; {letter} < {size}; ++{letter}) {{"),
                _ => writeln!(code, "{indent}for {letter} in 0..{size} {{"),
            };
            depth += 1;
        }
        depth
    }

    fn close(code: &mut String, from: usize, to: usize) {
        for depth in (to..from).rev() {
            let _ = writeln!(code, "{}}}", "    ".repeat(depth));
        }
    }

    fn statement(&self, statement: &Statement) -> Result<String, Unspelled> {
        let Statement { target, work, adds } = statement;
        let target_sizes = &self.program.array(*target).sizes;
        let every: Vec<Label> = (0..target_sizes.len()).collect();
        let mut code = String::new();
        match work {
            Work::Product { coefficient, operands, output, sizes } => {
                let mut free = output.clone();
                free.sort_unstable();
                free.dedup();
                let mut summed: Vec<Label> = operands.iter().flat_map(|operand| operand.labels.clone()).collect();
                summed.sort_unstable();
                summed.dedup();
                summed.retain(|label| !free.contains(label));
                let depth = self.open(&mut code, &free, sizes, 1);
                let indent = "    ".repeat(depth);
                let left = self.element(*target, output);
                let (sign, coefficient) = match (adds, *coefficient < 0.0) {
                    (true, true) => ("-=", -coefficient),
                    (true, false) => ("+=", *coefficient),
                    (false, _) => ("=", *coefficient),
                };
                if summed.is_empty() {
                    let value = scaled(coefficient, self.product(operands));
                    let _ = writeln!(code, "{indent}{left} {sign} {};", bare(&value));
                } else {
                    let declare = if self.language == Language::C { "double sum = 0.0" } else { "let mut sum = 0.0" };
                    // Outside of loops each sum has a block of its own, so that their names do not clash.
                    let block = free.is_empty();
                    if block {
                        let _ = writeln!(code, "{indent}{{");
                    }
                    let depth = depth + usize::from(block);
                    let indent = "    ".repeat(depth);
                    let _ = writeln!(code, "{indent}{declare};");
                    let inner = self.open(&mut code, &summed, sizes, depth);
                    let (within, without): (Vec<Operand>, Vec<Operand>) =
                        operands.iter().cloned().partition(|operand| !operand.labels.is_empty());
                    let _ = writeln!(code, "{}sum += {};", "    ".repeat(inner), self.product(&within));
                    Writer::close(&mut code, inner, depth);
                    let mut value = scaled(coefficient, "sum".to_owned());
                    if !without.is_empty() {
                        value = format!("{value} * ({})", self.product(&without));
                    }
                    let _ = writeln!(code, "{indent}{left} {sign} {value};");
                    if block {
                        Writer::close(&mut code, depth, depth - 1);
                    }
                }
                Writer::close(&mut code, depth, 1);
            }
            Work::Elementwise(operation, parameter, arguments) => {
                let depth = self.open(&mut code, &every, target_sizes, 1);
                let operands: Vec<String> = arguments.iter().map(|own| self.argument(*own, &every)).collect();
                let value = match &operands[..] {
                    [x] => unary(self.language, *operation, x, *parameter),
                    [a, b] => binary(self.language, *operation, a, b),
                    _ => None,
                };
                let value = value.ok_or(operation.name())?;
                let (indent, left) = ("    ".repeat(depth), self.element(*target, &every));
                let _ = writeln!(code, "{indent}{left} = {};", bare(&value));
                Writer::close(&mut code, depth, 1);
            }
            Work::Choice(relation, arguments) => {
                let depth = self.open(&mut code, &every, target_sizes, 1);
                let operands: Vec<String> = arguments.iter().map(|own| self.argument(*own, &every)).collect();
                let (indent, left) = ("    ".repeat(depth), self.element(*target, &every));
                let _ = writeln!(code, "{indent}{left} = {};", bare(&choose(self.language, *relation, &operands)));
                Writer::close(&mut code, depth, 1);
            }
            Work::OfMatrix(function, argument) => {
                let size = self.names.size(&self.program.array(*argument).sizes[0]);
                let (target, argument) = (&self.names.arrays[*target], &self.names.arrays[*argument]);
                let name = matrices::name(*function);
                let _ = match (self.language, function) {
                    (Language::C, Function::Inverse) => writeln!(code, "    {name}({size}, {argument}, {target});"),
                    (Language::C, _) => writeln!(code, "    {target} = {name}({size}, {argument});"),
                    _ => writeln!(code, "    {target} = {name}({size}, &{argument});"),
                };
            }
        }
        Ok(code)
    }

    fn argument(&self, argument: Argument, labels: &[Label]) -> String {
        match argument {
            Argument::Number(value) if self.language == Language::Rust => {
                format!("{}_f64", literal(value).trim_matches(['(', ')']))
            }
            Argument::Number(value) => literal(value),
            Argument::Array(place) => self.element(place, labels),
        }
    }

    /// A product of elements, with negative powers below a stroke.
    fn product(&self, operands: &[Operand]) -> String {
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for operand in operands {
            let element = self.element(operand.array, &operand.labels);
            let element =
                if element.contains(' ') && !element.contains('[') { format!("({element})") } else { element };
            let list = if operand.exponent > 0 { &mut above } else { &mut below };
            match (operand.exponent.unsigned_abs(), self.language) {
                (1, _) => list.push(element),
                (2, _) => list.extend([element.clone(), element]),
                (power, Language::C) => list.push(format!("pow({element}, {power}.0)")),
                (power, _) => list.push(format!("{element}.powi({power})")),
            }
        }
        let top = if above.is_empty() { "1.0".to_owned() } else { above.join(" * ") };
        match &below[..] {
            [] => top,
            [only] => format!("{top} / {only}"),
            several => format!("{top} / ({})", several.join(" * ")),
        }
    }
}

/// A multiple of a product.
fn scaled(coefficient: f64, product: String) -> String {
    match coefficient {
        1.0 => product,
        -1.0 => format!("-{product}"),
        value => match product.as_str() {
            "1.0" => literal(value),
            _ => format!("{} * {product}", literal(value)),
        },
    }
}
