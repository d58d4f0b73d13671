//! Emitted code: compiled or run, at two sets of sizes, beside the library's own numbers.
#![cfg(all(feature = "glass", feature = "linalg"))]

#[path = "../../glassgrad-fuzz/src/emitted/generate.rs"]
#[allow(missing_docs, unreachable_pub)]
mod generate;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use glassgrad::calculator::{Language, Question, emit, evaluate};
use glassgrad::lang::matrix::{Declarations, Size};
use glassgrad::ops::{Binary, Operation, Row, Unary, Visitor, visit};
use glassgrad::{Tensor, grad, hvp, jvp};

/// An expression, the symbol to differentiate by, and the symbols.
const QUESTIONS: [(&str, &str, &str); 25] = [
    ("norm2(A*x - b)^2", "x", "A: m n, x: n, b: m"),
    ("sum(log(1 + exp(-y.*(A*x))))", "x", "A: m n, x: n, y: m"),
    ("norm2(T - U*V')^2", "U", "T: m n, U: m k, V: n k"),
    ("logdet(X'*X + eye) + a'*inv(X'*X + eye)*a", "X", "X: m n, a: n"),
    ("det(X)^2/n", "X", "X: n n"),
    ("log(sum(exp(x)))", "x", "x: n"),
    ("sum(x + c)*c^3 + c*sum(x.^2)/n", "c", "x: n, c:"),
    ("sum(tanh(A*x + b).^3) + norm2(x)", "x", "A: m n, x: n, b: m"),
    ("x'*diag(d)*x + tr(diag(d)*A)", "d", "x: n, d: n, A: n n"),
    ("einsum(\"ijk,i,j,k->\", T, x, x, x)", "x", "T: n n n, x: n"),
    ("sum(relu(A*x)) + sum(sigmoid(x)) + norm1(x) + sum(softplus(x))", "x", "A: m n, x: n"),
    ("x'*x*(a'*x) - sum(sqrt(1 + x.^2)./(2 + sin(x)))", "x", "x: n, a: n"),
    ("diag(A*x)*B", "x", "A: m n, x: n, B: m k"),
    ("inv(X)", "X", "X: n n"),
    // A label that repeats keeps the diagonal alone.
    ("tr(X.*A)", "X", "X: n n, A: n n"),
    ("tr(exp(X))", "X", "X: n n"),
    ("tr(sin(X))", "X", "X: n n"),
    ("sum(diag(X.*A))", "X", "X: n n, A: n n"),
    ("diag(diag(X))", "X", "X: n n"),
    ("diag(diag(X.*A)).*X", "X", "X: n n, A: n n"),
    // Sizes that no array of the expression has.
    ("sum(x)/m", "x", "x: n, A: m n"),
    ("sum(x.^2)*k/m", "x", "x: n, A: m n, B: k n"),
    ("x*m", "x", "x: n, A: m n"),
    ("sum((x - sum(x)/n).^2)/n", "x", "x: n"),
    ("free*sum(calloc.^2)", "calloc", "free:, calloc: n"),
];

/// Numbers for the sizes m, n and k: code must not have taken those at which it was made for all.
const SIZES: [[usize; 3]; 2] = [[5, 4, 2], [3, 3, 6]];

/// The name, the shape and the elements of an argument.
type Input = (String, Vec<usize>, Vec<f64>);

struct Case {
    question: Question,
    /// The names, shapes and elements of the arguments, with the direction last.
    inputs: Vec<Input>,
    /// The numbers of the sizes, in the order in which code takes them.
    sizes: Vec<usize>,
    /// Those of them that no input has, which Python takes after the arrays.
    more: Vec<usize>,
    is_number: bool,
    /// What the library computes: value, gradient if it is a number, and product with the direction.
    expected: Vec<f64>,
}

fn shape(declared: &Declarations, name: &str, numbers: [usize; 3]) -> (Vec<String>, Vec<usize>) {
    // A declared symbol by itself is an expression, whose type says its sizes.
    let own = glassgrad::lang::matrix::parse(name, declared).expect("a symbol").shape().sizes.clone();
    let number =
        |size: &Size| numbers[["m", "n", "k"].iter().position(|known| *known == size.to_string()).expect("m, n or k")];
    (own.iter().map(ToString::to_string).collect(), own.iter().map(number).collect())
}

impl Case {
    fn new(row: &(&str, &str, &str), numbers: [usize; 3]) -> Case {
        let (source, wrt, declarations) = row;
        // Sizes that no input has get their numbers here.
        let mentions = |name: &str| declarations.split([' ', ',', ':']).any(|word| word == name);
        let given = ["m", "n", "k"].iter().zip(numbers).filter(|(name, _)| mentions(name));
        let declarations =
            given.fold((*declarations).to_owned(), |all, (name, number)| format!("{all}, {name}={number}"));
        let declared = Declarations::read(&declarations).expect("declarations");
        let all_sizes = numbers;
        let expression = glassgrad::lang::matrix::parse(source, &declared).expect("an expression");
        let direction = format!("d{wrt}");
        let (mut inputs, mut names): (Vec<Input>, Vec<String>) = (Vec::new(), Vec::new());
        for name in expression.symbols().into_iter().chain([direction.as_str()]) {
            let (sizes, shape) = shape(&declared, if name == direction { wrt } else { name }, numbers);
            sizes.into_iter().for_each(|size| {
                if !names.contains(&size) {
                    names.push(size)
                }
            });
            let count: usize = shape.iter().product();
            let seed = name.bytes().map(f64::from).sum::<f64>();
            // Matrices are regular by their diagonals.
            let diagonal = |k: usize| if shape.len() == 2 && k.is_multiple_of(shape[1] + 1) { 1.5 } else { 0.0 };
            let wave = |k: usize| 0.3 + 0.9 * ((k as f64 + 1.0) * 12.9898 + seed).sin();
            let elements = (0..count).map(|k| wave(k) + diagonal(k)).collect();
            inputs.push((name.to_owned(), shape, elements));
        }
        let tensors: Vec<(String, Tensor)> =
            inputs.iter().map(|(name, shape, elements)| (name.clone(), Tensor::new(elements, &shape[..]))).collect();
        let function = |x: &Tensor| {
            let values: Vec<(&str, &Tensor)> = tensors[..tensors.len() - 1]
                .iter()
                .map(|(name, own)| (name.as_str(), if name == wrt { x } else { own }))
                .collect();
            evaluate(source, &declared, &values).expect("a value")
        };
        let x = tensors.iter().find(|(name, _)| name == wrt).expect("the variable").1.clone();
        let along = tensors.last().expect("a direction").1.clone();
        let numbers = |tensor: &Tensor| tensor.to_vec::<f64>().expect("numbers");
        let mut expected = numbers(&function(&x));
        let is_number = expression.shape().sizes.is_empty();
        if is_number {
            expected.extend(numbers(&grad(function)(&x)));
            expected.extend(numbers(&hvp(function, &x, &along)));
        } else {
            expected.extend(numbers(&jvp(function, &x, &along).1));
        }
        let mut sizes: Vec<usize> = names.iter().map(|name| size_of(name, &inputs, &declared)).collect();
        let question = Question::new(source, wrt).declare(&declarations).expect("declarations");
        let more: Vec<usize> = missing_sizes(&question, &names)
            .iter()
            .map(|name| all_sizes[["m", "n", "k"].iter().position(|known| known == name).expect("m, n or k")])
            .collect();
        sizes.extend(&more);
        Case { question, inputs, sizes, more, is_number, expected }
    }

    fn routines(&self) -> Vec<&'static str> {
        if self.is_number { vec!["value", "gradient", "hessian_vector"] } else { vec!["value", "jacobian_vector"] }
    }

    /// The inputs of a routine: all but the direction, unless it multiplies with that.
    fn inputs_of(&self, routine: &str) -> &[Input] {
        let count = if routine.ends_with("vector") { self.inputs.len() } else { self.inputs.len() - 1 };
        &self.inputs[..count]
    }
}

/// The sizes that the code takes beside those of its arrays, from its signature.
fn missing_sizes(question: &Question, known: &[String]) -> Vec<String> {
    let Ok(code) = emit(question, Language::C) else { return Vec::new() };
    let head = code.lines().find(|line| line.contains(" value(")).expect("a signature");
    let (_, arguments) = head.split_once('(').expect("arguments");
    let sizes = arguments.split([',', ')']).filter_map(|argument| argument.trim().strip_prefix("size_t "));
    sizes.filter(|size| !known.iter().any(|known| known == size)).map(str::to_owned).collect()
}

/// The number of a size, from an input that has it.
fn size_of(size: &str, inputs: &[Input], declared: &Declarations) -> usize {
    let find = |(name, shape, _): &Input| {
        let own = glassgrad::lang::matrix::parse(name, declared).ok()?.shape().sizes.clone();
        own.iter().position(|own| own.to_string() == size).map(|axis| shape[axis])
    };
    inputs.iter().find_map(find).expect("a size of some input")
}

/// The functions of the table with their domains.
struct Rows(Vec<(Operation, Vec<Range<f64>>)>);

impl Visitor for Rows {
    fn unary<R: Unary>(&mut self, row: &Row) {
        self.0.push((row.operation, row.domain.clone()));
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        self.0.push((row.operation, row.domain.clone()));
    }
}

/// All questions at all sizes, and every function of the table that a language has.
fn cases(language: Language) -> Vec<Case> {
    let mut cases: Vec<Case> = QUESTIONS.iter().flat_map(|row| SIZES.map(|numbers| Case::new(row, numbers))).collect();
    let mut terms: Vec<String> = Vec::new();
    let mut rows = Rows(Vec::new());
    visit(&mut rows);
    for (operation, domain) in rows.0 {
        // Arguments go through the domain of the function, one up and the other down.
        let part =
            |range: &Range<f64>, x: &str| format!("{:?} + {:?}*sigmoid({x})", range.start, range.end - range.start);
        let arguments: Vec<String> = domain.iter().zip(["x", "-x"]).map(|(range, x)| part(range, x)).collect();
        let call = format!("{operation}({})", arguments.join(", "));
        let question = Question::new(&format!("sum({call})"), "x").declare("x: n").expect("declared");
        if emit(&question, language).is_ok() {
            terms.push(format!("sum({call})"));
        }
    }
    assert!(terms.len() >= 45, "only {} functions are spelled in {language:?}", terms.len());
    for some in terms.chunks(6) {
        cases.push(Case::new(&(&some.join(" + "), "x", "x: n"), SIZES[0]));
    }
    cases.extend(random(language));
    cases
}

/// Random expressions for which there is code and whose numbers are of moderate size.
fn random(language: Language) -> Vec<Case> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut below = move |count: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % count as u64) as usize
    };
    let kinds = [generate::Kind::Number, generate::Kind::Number, generate::Kind::Vector, generate::Kind::Square];
    let mut cases = Vec::new();
    while cases.len() < RANDOM {
        let (kind, depth) = (kinds[below(4)], 1 + below(3));
        let source = generate::expression(kind, depth, &mut below);
        let declared = Declarations::read(generate::DECLARED).expect("declarations");
        let parsed = glassgrad::lang::matrix::parse(&source, &declared).unwrap_or_else(|error| panic!("{error}"));
        let symbols = parsed.symbols();
        if symbols.is_empty() {
            continue;
        }
        let wrt = symbols[below(symbols.len())].to_owned();
        let question = Question::new(&source, &wrt).declare(generate::DECLARED).expect("declared");
        if emit(&question, language).is_err() {
            continue;
        }
        let case = Case::new(&(&source, &wrt, generate::DECLARED), SIZES[below(2)]);
        if case.expected.iter().all(|number| number.abs() < 1e6) {
            cases.push(case);
        }
    }
    cases
}

/// How many random expressions are tried in each language.
const RANDOM: usize = 120;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emit_{name}_{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs a command, and returns what it prints.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Says that a test did not run, where everybody sees it: what is printed by macros is shown of tests that fail alone.
fn skipped(reason: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// Whether a program can be run.
fn is_there(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// One line for each number, all cases one after another.
fn compare(language: &str, printed: &str, cases: &[Case]) {
    let mut numbers = printed.split_whitespace().map(|word| word.parse::<f64>().unwrap_or_else(|_| panic!("{word}")));
    for case in cases {
        let found: Vec<f64> = numbers.by_ref().take(case.expected.len()).collect();
        assert_eq!(found.len(), case.expected.len(), "{language}: {:?}", case.question);
        let largest = case.expected.iter().fold(1.0_f64, |largest, value| largest.max(value.abs()));
        for (a, b) in found.iter().zip(&case.expected) {
            assert!(
                (a - b).abs() <= 1e-11 * largest,
                "{language}: {:?}\n{found:?}\n{:?}",
                case.question,
                case.expected
            );
        }
    }
    assert_eq!(numbers.next(), None);
}

fn listed(elements: &[f64]) -> String {
    elements.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn rust_computes_the_same() {
    let cases = cases(Language::Rust);
    let (mut code, mut main) = (String::new(), String::new());
    for (number, case) in cases.iter().enumerate() {
        code += &format!("mod q{number} {{\n{}\n}}\n", emit(&case.question, Language::Rust).expect("code"));
        for routine in case.routines() {
            let inputs = case.inputs_of(routine).iter().map(|(_, shape, elements)| match shape.is_empty() {
                true => listed(elements),
                false => format!("&[{}]", listed(elements)),
            });
            let arguments: Vec<String> = case.sizes.iter().map(ToString::to_string).chain(inputs).collect();
            main += &format!("    show(q{number}::{routine}({}));\n", arguments.join(", "));
        }
    }
    code += "trait Show { fn show(self); }\n\
             impl Show for f64 { fn show(self) { println!(\"{self:e}\"); } }\n\
             impl Show for Vec<f64> { fn show(self) { self.into_iter().for_each(Show::show); } }\n\
             fn show(found: impl Show) { found.show(); }\n";
    code += &format!("fn main() {{\n{main}}}\n");
    let folder = folder("rust");
    std::fs::write(folder.join("emitted.rs"), code).expect("written");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let binary = folder.join("emitted");
    // Warnings are errors: what is emitted is clean.
    output(
        Command::new(compiler)
            .args(["--edition", "2021", "-D", "warnings", "-o"])
            .arg(&binary)
            .arg(folder.join("emitted.rs")),
    );
    compare("Rust", &output(&mut Command::new(binary)), &cases);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn c_computes_the_same() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !is_there(&compiler, &["--version"]) {
        skipped("there is no C compiler; set CC to one");
        return;
    }
    let (cases, folder) = (cases(Language::C), folder("c"));
    let mut printed = String::new();
    for (number, case) in cases.iter().enumerate() {
        let mut code = emit(&case.question, Language::C).expect("code") + "\n#include <stdio.h>\nint main(void) {\n";
        for (name, shape, elements) in &case.inputs {
            code += &match shape.is_empty() {
                true => format!("    double {name} = {};\n", listed(elements)),
                false => format!("    double {name}[] = {{{}}};\n", listed(elements)),
            };
        }
        let mut rest = &case.expected[..];
        for routine in case.routines() {
            let names = case.inputs_of(routine).iter().map(|(name, ..)| name.clone());
            let mut arguments: Vec<String> = case.sizes.iter().map(ToString::to_string).chain(names).collect();
            let variable = case.inputs.last().expect("a direction").2.len();
            let parts = if case.is_number { 1 } else { 2 };
            let is_scalar = (routine == "value" && case.is_number) || case.inputs.last().expect("one").1.is_empty();
            let count = match (is_scalar, case.is_number) {
                (true, _) => 1,
                (false, true) => variable,
                (false, false) => case.expected.len() / parts,
            };
            rest = &rest[count..];
            if is_scalar {
                code += &format!("    printf(\"%.17g\\n\", {routine}({}));\n", arguments.join(", "));
            } else {
                arguments.push("found".to_owned());
                code += &format!(
                    "    {{ double found[{count}]; {routine}({}); for (int i = 0; i < {count}; ++i) printf(\"%.17g\\n\", found[i]); }}\n",
                    arguments.join(", ")
                );
            }
        }
        assert!(rest.is_empty());
        code += "    return 0;\n}\n";
        let (file, binary) = (folder.join(format!("q{number}.c")), folder.join(format!("q{number}")));
        std::fs::write(&file, code).expect("written");
        output(
            Command::new(&compiler)
                .args(["-std=c99", "-Wall", "-Werror", "-O1", "-o"])
                .arg(&binary)
                .arg(file)
                .arg("-lm"),
        );
        printed += &output(&mut Command::new(binary));
    }
    compare("C", &printed, &cases);
    let _ = std::fs::remove_dir_all(folder);
}

fn python_computes_the_same(language: Language, library: &str) {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !is_there(&python, &["-c", &format!("import {library}")]) {
        skipped(&format!("{python} has no {library}; set PYTHON to one that has"));
        return;
    }
    let (cases, folder) = (cases(language), folder(library));
    let mut main = "import numpy as np\n".to_owned();
    for (number, case) in cases.iter().enumerate() {
        let code = emit(&case.question, language).expect("code");
        std::fs::write(folder.join(format!("q{number}.py")), code).expect("written");
        main += &format!("import q{number}\n");
        for routine in case.routines() {
            let array = |(_, shape, elements): &Input| format!("np.array([{}]).reshape({shape:?})", listed(elements));
            let arrays = case.inputs_of(routine).iter().map(array);
            let inputs: Vec<String> = arrays.chain(case.more.iter().map(ToString::to_string)).collect();
            main += &format!(
                "for number in np.ravel(q{number}.{routine}({})): print(repr(float(number)))\n",
                inputs.join(", ")
            );
        }
    }
    std::fs::write(folder.join("main.py"), main).expect("written");
    compare(library, &output(Command::new(python).arg(folder.join("main.py"))), &cases);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn numpy_computes_the_same() {
    python_computes_the_same(Language::Numpy, "numpy");
}

#[test]
fn jax_computes_the_same() {
    python_computes_the_same(Language::Jax, "jax");
}

#[test]
fn what_a_language_has_no_function_for_is_said() {
    let question = Question::new("sum(digamma(x))", "x").declare("x: n").expect("declared");
    let error = emit(&question, Language::Rust).expect_err("no digamma");
    assert_eq!(error.to_string(), "--emit: digamma has no counterpart in the standard library of this language");
    assert!(emit(&question, Language::Jax).is_ok());
}

#[test]
fn emitted_code_reads_well() {
    let question = Question::new("norm2(A*x - b)^2", "x").declare("A: m n, x: n, b: m").expect("declared");
    let languages = [Language::Rust, Language::C, Language::Numpy, Language::Jax];
    let code: Vec<String> = languages.iter().map(|language| emit(&question, *language).expect("code")).collect();
    insta::assert_snapshot!(code.join("\n----\n\n"));
}
