//! The experiments of tensor calculus: Hessians of growing problems, as `bench/run hessians` asks for them by name.
//!
//! A name is a problem, a question and a size, `factorization/solve/1000`. A problem is a function with a point
//! (`problems`), a question is what is done with its Hessian (`structured`).

mod problems;
mod structured;

use glassgrad::calculus::Mode;

use self::problems::{factorization, joint, logistic, network};
use self::structured::{Structured, Task};
use super::workload::Workload;

/// All questions by name.
const TASKS: [(&str, Task); 9] = [
    ("held", Task::Held(None)),
    ("forward", Task::Held(Some(Mode::Forward))),
    ("reverse", Task::Held(Some(Mode::Reverse))),
    ("joined", Task::Held(Some(Mode::Joined))),
    ("cross-country", Task::Held(Some(Mode::CrossCountry))),
    ("dense", Task::Dense),
    ("factor", Task::Factor),
    ("solve", Task::Solve),
    ("step", Task::Step),
];

/// The work that a name asks for; nothing if it is not the name of an experiment.
pub(super) fn find(name: &str) -> Option<Result<Box<dyn Workload>, String>> {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(problem), Some(question), Some(size), None) => Some(workload(problem, question, size)),
        _ => None,
    }
}

fn workload(problem: &str, question: &str, size: &str) -> Result<Box<dyn Workload>, String> {
    let size = match size.parse::<usize>() {
        Ok(size @ 1..) => size,
        _ => return Err(format!("'{size}' is no size; it is a whole number above 0")),
    };
    let question =
        TASKS.into_iter().find(|(name, _)| *name == question).map(|(_, question)| question).ok_or_else(|| {
            format!("there is no question '{question}'; there are {}", TASKS.map(|(name, _)| name).join(", "))
        })?;
    Ok(match problem {
        "logistic" => Box::new(Structured::new(logistic(size), question)),
        "factorization" => Box::new(Structured::new(factorization(size), question)),
        "network" => Box::new(Structured::new(network(size), question)),
        "joint" => Box::new(Structured::new(joint(size), question)),
        _ => {
            return Err(format!(
                "there is no problem '{problem}'; there are logistic, factorization, network and joint"
            ));
        }
    })
}
