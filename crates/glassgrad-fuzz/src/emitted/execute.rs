//! Running emitted code.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use glassgrad::calculator::Language;

/// The name, the shape and the elements of an argument.
pub type Input = (String, Vec<usize>, Vec<f64>);

/// Code with its arguments.
#[derive(Debug)]
pub struct Job<'j> {
    /// The code.
    pub code: &'j str,
    /// The arguments.
    pub inputs: &'j [Input],
    /// The direction of products with derivatives.
    pub direction: &'j Input,
    /// The names and numbers of the sizes.
    pub sizes: &'j [(&'static str, usize)],
    /// What is expected of each routine, which says how many numbers it returns.
    pub expected: &'j [Vec<f64>],
    /// The seed, which names the folder.
    pub seed: u64,
}

/// What became of it.
#[derive(Debug)]
pub enum Executed {
    /// There is no compiler or interpreter.
    Skipped,
    /// It does not compile, or does not end well.
    Failed(String),
    /// The numbers of all routines, one after another.
    Numbers(Vec<f64>),
}

fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

fn is_there(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Whether a language can be run, detected once.
fn is_available(language: Language) -> bool {
    use std::sync::OnceLock;
    static AVAILABLE: [OnceLock<bool>; 4] = [const { OnceLock::new() }; 4];
    let (place, found): (usize, fn() -> bool) = match language {
        Language::Rust => (0, || is_there(&variable("RUSTC", "rustc"), &["--version"])),
        Language::C => (1, || is_there(&variable("CC", "cc"), &["--version"])),
        Language::Numpy => (2, || is_there(&variable("PYTHON", "python3"), &["-c", "import numpy"])),
        Language::Jax => (3, || is_there(&variable("PYTHON", "python3"), &["-c", "import jax"])),
    };
    *AVAILABLE[place].get_or_init(found)
}

/// The words of the signature of a routine between its parentheses.
fn arguments(code: &str, routine: &str) -> Vec<String> {
    let head = code.lines().find(|line| line.contains(&format!(" {routine}("))).unwrap_or_default();
    let inside = head.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    inside.split(',').map(|argument| argument.trim().to_owned()).filter(|argument| !argument.is_empty()).collect()
}

fn listed(elements: &[f64]) -> String {
    elements.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ")
}

/// Compiles and runs code.
pub fn execute(language: Language, job: &Job<'_>) -> Executed {
    if !is_available(language) {
        return Executed::Skipped;
    }
    let folder = std::env::temp_dir().join(format!("glassgrad-emitted-{}-{}", std::process::id(), job.seed));
    let done = std::fs::create_dir_all(&folder).map_err(|error| error.to_string()).and_then(|()| match language {
        Language::Rust => rust(job, &folder),
        Language::C => c(job, &folder),
        Language::Numpy | Language::Jax => python(job, &folder),
    });
    let _ = std::fs::remove_dir_all(&folder);
    let parsed = done.and_then(|printed| {
        let number = |word: &str| word.parse::<f64>().map_err(|_| format!("it prints {word}"));
        printed.split_whitespace().map(number).collect::<Result<Vec<f64>, String>>()
    });
    match parsed {
        Ok(numbers) => Executed::Numbers(numbers),
        Err(message) => Executed::Failed(message),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

impl Job<'_> {
    fn routines(&self) -> &'static [&'static str] {
        if self.expected.len() == 3 { &["value", "gradient", "hessian_vector"] } else { &["value", "jacobian_vector"] }
    }

    /// The number of a size by its name in the code.
    fn size(&self, name: &str) -> Option<usize> {
        self.sizes.iter().find(|(size, _)| *size == name.trim_end_matches('_')).map(|(_, number)| *number)
    }

    fn inputs_of(&self, routine: &str) -> Vec<&Input> {
        self.inputs.iter().chain(routine.ends_with("vector").then_some(self.direction)).collect()
    }
}

fn rust(job: &Job<'_>, folder: &Path) -> Result<String, String> {
    let mut code = format!("mod emitted {{\n{}\n}}\nfn main() {{\n", job.code);
    for routine in job.routines() {
        let sizes = arguments(job.code, routine);
        let sizes = sizes.iter().filter_map(|own| own.strip_suffix(": usize")).filter_map(|name| job.size(name));
        let inputs = job.inputs_of(routine).into_iter().map(|(_, shape, elements)| match shape.is_empty() {
            true => listed(elements),
            false => format!("&[{}]", listed(elements)),
        });
        let list: Vec<String> = sizes.map(|size| size.to_string()).chain(inputs).collect();
        let head = job.code.lines().find(|line| line.contains(&format!("fn {routine}("))).unwrap_or_default();
        let call = format!("emitted::{routine}({})", list.join(", "));
        let _ = match head.contains("Vec<f64>") {
            true => writeln!(code, "    for number in {call} {{ println!(\"{{number:e}}\"); }}"),
            false => writeln!(code, "    println!(\"{{:e}}\", {call});"),
        };
    }
    let (file, binary) = (folder.join("emitted.rs"), folder.join("emitted"));
    std::fs::write(&file, code + "}\n").map_err(|error| error.to_string())?;
    output(
        Command::new(variable("RUSTC", "rustc"))
            .args(["--edition", "2021", "-D", "warnings", "-o"])
            .arg(&binary)
            .arg(&file),
    )?;
    output(&mut Command::new(binary))
}

fn c(job: &Job<'_>, folder: &Path) -> Result<String, String> {
    let mut code = format!("{}\n#include <stdio.h>\nint main(void) {{\n", job.code);
    for (routine, expected) in job.routines().iter().zip(job.expected) {
        let sizes = arguments(job.code, routine);
        let sizes = sizes.iter().filter_map(|own| own.strip_prefix("size_t ")).filter_map(|name| job.size(name));
        let inputs = job.inputs_of(routine).into_iter().map(|(_, shape, elements)| match shape.is_empty() {
            true => listed(elements),
            false => format!("(double[]){{{}}}", listed(elements)),
        });
        let list: Vec<String> = sizes.map(|size| size.to_string()).chain(inputs).collect();
        let head = job.code.lines().find(|line| line.contains(&format!(" {routine}("))).unwrap_or_default();
        let count = expected.len();
        let _ = match head.starts_with("void") {
            true => writeln!(
                code,
                "    {{ double found[{count}]; {routine}({}, found); for (int i = 0; i < {count}; ++i) printf(\"%.17g\\n\", found[i]); }}",
                list.join(", ")
            ),
            false => writeln!(code, "    printf(\"%.17g\\n\", {routine}({}));", list.join(", ")),
        };
    }
    let (file, binary) = (folder.join("emitted.c"), folder.join("emitted"));
    std::fs::write(&file, code + "    return 0;\n}\n").map_err(|error| error.to_string())?;
    output(
        Command::new(variable("CC", "cc"))
            .args(["-std=c99", "-Wall", "-Werror", "-O1", "-o"])
            .arg(&binary)
            .arg(&file)
            .arg("-lm"),
    )?;
    output(&mut Command::new(binary))
}

fn python(job: &Job<'_>, folder: &Path) -> Result<String, String> {
    let mut code = format!("{}\nimport numpy as np\n", job.code);
    for routine in job.routines() {
        let inputs = job.inputs_of(routine);
        let names = arguments(job.code, routine);
        let sizes = names.iter().skip(inputs.len()).filter_map(|name| job.size(name)).map(|size| size.to_string());
        let arrays =
            inputs.iter().map(|(_, shape, elements)| format!("np.array([{}]).reshape({shape:?})", listed(elements)));
        let list: Vec<String> = arrays.chain(sizes).collect();
        let _ = writeln!(code, "for number in np.ravel({routine}({})): print(repr(float(number)))", list.join(", "));
    }
    let file = folder.join("emitted.py");
    std::fs::write(&file, code).map_err(|error| error.to_string())?;
    output(Command::new(variable("PYTHON", "python3")).arg(&file))
}
