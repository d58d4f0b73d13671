//! Names of sizes and arrays as a language can have them.

use super::Routine;
use super::program::Origin;
use crate::lang::matrix::Size;

/// What sizes and arrays of a routine are called in its code.
pub(super) struct Names {
    /// For each size its name in the expression and in the code.
    pub(super) sizes: Vec<(String, String)>,
    /// For each array of the program.
    pub(super) arrays: Vec<String>,
    /// All names of the code.
    pub(super) taken: Vec<String>,
}

impl Names {
    /// Names that are not reserved in a language, and of which no two are the same.
    pub(super) fn of(routine: &Routine, reserved: &[&str]) -> Names {
        let mut taken: Vec<String> = Vec::new();
        let mut sizes = Vec::new();
        for size in sizes_of(&routine.inputs).into_iter().chain(routine.sizes.iter().cloned()) {
            let name = identifier(&size, reserved, &taken);
            taken.push(name.clone());
            sizes.push((size, name));
        }
        let mut arrays = Vec::new();
        for array in &routine.program.arrays {
            let known = sizes.iter().find(|(size, _)| array.origin == Origin::Size && *size == array.name);
            let name = match known {
                Some((_, name)) => name.clone(),
                None => identifier(&array.name, reserved, &taken),
            };
            taken.push(name.clone());
            arrays.push(name);
        }
        arrays[routine.program.result] = "result".to_owned();
        Names { sizes, arrays, taken }
    }

    /// A size in the code.
    pub(super) fn size(&self, size: &Size) -> String {
        match size {
            Size::Name(name) => {
                self.sizes.iter().find(|(known, _)| known == name).map_or_else(|| name.clone(), |(_, own)| own.clone())
            }
            other => other.to_string(),
        }
    }
}

/// The named sizes of inputs, in order.
fn sizes_of(inputs: &[(String, Vec<Size>)]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for size in inputs.iter().flat_map(|(_, sizes)| sizes) {
        if let Size::Name(name) = size
            && !found.contains(name)
        {
            found.push(name.clone());
        }
    }
    found
}

/// A name that a language can have, and that no other name has become.
fn identifier(name: &str, reserved: &[&str], taken: &[String]) -> String {
    let mut plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { 'u' }).collect();
    while reserved.contains(&plain.as_str()) || taken.contains(&plain) {
        plain.push('_');
    }
    plain
}
