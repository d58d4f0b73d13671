//! Expressions with indices as text: in Einstein notation, with upper and lower indices, and in LaTeX.

use super::indexed::{Expression, Factor, Names, Term, What};
use super::recognise;
use crate::formula::number;
use crate::lang::matrix::latex_name;
use crate::ops::Operation;

/// How indices are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// `A_ij x_j`.
    Einstein,
    /// `A^i_j x^j`: vectors have an upper index, matrices an upper one and a lower one, and what is summed over stands once
    /// above and once below.
    Ricci,
    Latex,
}

/// An index: its letter, and whether it stands above.
#[derive(Clone, PartialEq)]
pub(super) struct Index {
    pub(super) letter: String,
    pub(super) upper: bool,
}

/// The letters of indices, from i on, as people write them.
pub(super) fn letter(place: usize) -> String {
    let alphabet: Vec<char> = ('i'..='z').chain('a'..='h').chain('α'..='ω').collect();
    alphabet.get(place).map_or_else(|| format!("({place})"), char::to_string)
}

/// A whole expression whose slots have these indices.
pub(super) fn written(expression: &Expression, slots: &[Index], notation: Notation, names: &Names) -> String {
    let writer = Writer { notation, names };
    let taken: Vec<String> = slots.iter().map(|slot| slot.letter.clone()).collect();
    if expression.terms.is_empty() {
        return "0".to_owned();
    }
    writer.sum(expression, slots, &taken, true)
}

/// A number as people write it: a fraction where it is one and the digits would go on.
pub(super) fn tidy(value: f64) -> String {
    let digits = number(value);
    if digits.len() > 7 && value.abs() < 1e6 {
        for divisor in 2..1000_u32 {
            let whole = (value * f64::from(divisor)).round();
            if whole != 0.0 && whole / f64::from(divisor) == value {
                return format!("{}/{divisor}", number(whole));
            }
        }
    }
    digits
}

struct Writer<'a> {
    notation: Notation,
    names: &'a Names,
}

impl Writer<'_> {
    fn sum(&self, expression: &Expression, slots: &[Index], taken: &[String], outermost: bool) -> String {
        let mut text = String::new();
        for (place, term) in expression.terms.iter().enumerate() {
            let own = self.term(term, slots, taken, outermost);
            match (place, own.strip_prefix('-')) {
                (0, _) => text.push_str(&own),
                (_, Some(positive)) => text.push_str(&format!(" - {positive}")),
                (_, None) => text.push_str(&format!(" + {own}")),
            }
        }
        if expression.terms.is_empty() { "0".to_owned() } else { text }
    }

    fn term(&self, term: &Term, slots: &[Index], taken: &[String], outermost: bool) -> String {
        // A label has the letter of its first slot; summed labels take letters that are free.
        let mut indices: Vec<Option<Index>> = vec![None; term.extents.len()];
        for (slot, label) in term.output.iter().enumerate() {
            indices[*label].get_or_insert_with(|| slots[slot].clone());
        }
        let mut taken = taken.to_vec();
        let mut factors: Vec<String> = Vec::new();
        for factor in &term.factors {
            let mut own = Vec::new();
            for (axis, label) in factor.labels.iter().enumerate() {
                let free = term.output.contains(label);
                let known = indices[*label].clone();
                let index = known.unwrap_or_else(|| {
                    let free = (0..).map(letter).find(|letter| !taken.contains(letter)).unwrap_or_default();
                    taken.push(free.clone());
                    Index { letter: free, upper: axis == 0 }
                });
                // What is summed over stands once above and once below.
                if !free {
                    indices[*label] = Some(Index { upper: !index.upper, ..index.clone() });
                }
                own.push(index);
            }
            factors.push(self.factor(factor, &own, &taken));
        }
        let mut marks: Vec<String> = Vec::new();
        for (slot, label) in term.output.iter().enumerate() {
            let first = term.output.iter().position(|other| other == label).unwrap_or(slot);
            if first != slot {
                marks.push(self.indexed("δ", &[slots[first].clone(), slots[slot].clone()]));
            } else if outermost
                && !term.binds(*label)
                && term.output.iter().filter(|other| *other == label).count() == 1
            {
                marks.push(self.indexed("1", &slots[slot..=slot]));
            }
        }
        factors.extend(marks);
        let space = if self.notation == Notation::Latex { "\\, " } else { " " };
        // A product says by itself what is summed over; of a factor alone it has to be said.
        let mut sums = String::new();
        for (label, index) in indices.iter().enumerate() {
            let count = term.factors.iter().flat_map(|factor| &factor.labels).filter(|own| **own == label).count();
            if let (1, false, Some(index)) = (count, term.output.contains(&label), index) {
                sums += &match self.notation {
                    Notation::Latex => format!("\\sum_{{{}}} ", index.letter),
                    _ => format!("Σ_{} ", index.letter),
                };
            }
        }
        let factors = sums + &factors.join(space);
        let dot = if self.notation == Notation::Latex { "\\, " } else { "·" };
        match term.coefficient {
            value if factors.is_empty() => tidy(value),
            1.0 => factors,
            -1.0 => format!("-{factors}"),
            value => format!("{}{dot}{factors}", tidy(value)),
        }
    }

    fn factor(&self, factor: &Factor, indices: &[Index], taken: &[String]) -> String {
        let latex = self.notation == Notation::Latex;
        let inner = |expression: &Expression| self.sum(expression, indices, taken, false);
        let brackets = |text: String| if latex { format!("\\left({text}\\right)") } else { format!("({text})") };
        let called = |name: &str, arguments: String| match latex {
            true => format!("\\operatorname{{{}}}\\left({arguments}\\right)", name.replace('_', "\\_")),
            false => format!("{name}({arguments})"),
        };
        let (text, simple) = match &*factor.what {
            What::Symbol(name) | What::Size(name) => {
                let name = if latex { latex_name(name) } else { name.clone() };
                (self.indexed(&name, indices), indices.is_empty())
            }
            What::Elementwise(operation, parameter, arguments) => {
                let name = if *operation == Operation::Ln { "log" } else { operation.name() };
                let mut list: Vec<String> = arguments.iter().map(inner).collect();
                if operation.parameter().is_some() {
                    list.push(tidy(*parameter));
                }
                (called(name, list.join(", ")), true)
            }
            What::Choice(relation, inside) => {
                let texts: Vec<String> = inside.iter().map(inner).collect();
                let condition = format!("{} {} {}", texts[0], relation.symbol(), texts[1]);
                (called("where", format!("{condition}, {}, {}", texts[2], texts[3])), true)
            }
            What::OfMatrix(function, argument) => {
                let argument = match recognise::matrix(argument, self.names) {
                    Some(found) if latex => found.latex(),
                    Some(found) => found.text(),
                    None => {
                        let own =
                            [true, false].map(|first| Index { letter: letter(usize::from(!first)), upper: first });
                        self.sum(argument, &own, &own.clone().map(|index| index.letter), true)
                    }
                };
                (self.indexed(&called(function.name(), argument), indices), indices.is_empty())
            }
            What::Nested(expression) => (brackets(inner(expression)), true),
        };
        match factor.exponent {
            1 => text,
            power if latex => format!("{}^{{{power}}}", if simple { text } else { brackets(text) }),
            power => format!("{}^{power}", if simple { text } else { brackets(text) }),
        }
    }

    /// A name with its indices.
    fn indexed(&self, name: &str, indices: &[Index]) -> String {
        if indices.is_empty() {
            return name.to_owned();
        }
        let letters = |indices: &[Index]| indices.iter().map(|index| index.letter.as_str()).collect::<String>();
        match self.notation {
            Notation::Einstein => format!("{name}_{}", letters(indices)),
            Notation::Latex => {
                let name = if name == "δ" { "\\delta" } else { name };
                format!("{name}_{{{}}}", letters(indices))
            }
            Notation::Ricci => {
                let runs = indices.chunk_by(|one, other| one.upper == other.upper);
                let marks = runs.map(|run| format!("{}{}", if run[0].upper { '^' } else { '_' }, letters(run)));
                format!("{name}{}", marks.collect::<String>())
            }
        }
    }
}
