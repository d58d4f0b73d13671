//! The shape of every part of an expression, in symbolic sizes, or where shapes do not fit.

use std::fmt;

use super::declare::{Declarations, Size};
use super::syntax::{Constant, Function, MatrixExpression, NodeId, Operator, Syntax};
use crate::lang::{Span, SyntaxError};

/// The largest power of a matrix that is written out as a product.
const LARGEST_POWER: f64 = 16.0;

/// The shape of an expression. A vector is a column; its transpose is a row.
///
/// ```
/// use glassgrad::lang::matrix::{Declarations, parse};
/// let declared = Declarations::read("A: m n, x: n").unwrap();
/// let shape = |source| parse(source, &declared).unwrap().shape().to_string();
/// assert_eq!(shape("A'*A"), "matrix of n×n");
/// assert_eq!(shape("x'*x"), "number");
/// assert_eq!(shape("x'"), "row of n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The sizes of the axes.
    pub sizes: Vec<Size>,
    /// Whether this is a vector that lies on its side.
    pub row: bool,
}

impl Type {
    pub(crate) fn of(sizes: &[Size]) -> Type {
        Type { sizes: sizes.to_vec(), row: false }
    }

    pub(crate) fn number() -> Type {
        Type::of(&[])
    }

    pub(crate) fn is_number(&self) -> bool {
        self.sizes.is_empty()
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        match (sizes.len(), self.row) {
            (0, _) => formatter.write_str("number"),
            (1, false) => write!(formatter, "vector of {}", sizes[0]),
            (1, true) => write!(formatter, "row of {}", sizes[0]),
            (2, _) => write!(formatter, "matrix of {}", sizes.join("×")),
            _ => write!(formatter, "tensor of {}", sizes.join("×")),
        }
    }
}

/// Finds the types of all parts.
pub(super) fn typed(
    source: &str,
    parts: Vec<Syntax>,
    spans: Vec<Span>,
    declared: &Declarations,
) -> Result<MatrixExpression, SyntaxError> {
    let typing = Typing::of(source, &parts, &spans, declared, 0)?;
    let mut types = typing.types.clone();
    for (place, own) in types.iter_mut().enumerate() {
        for size in &mut own.sizes {
            *size = typing.resolved(size);
            if matches!(size, Size::Unknown(_)) {
                let error =
                    SyntaxError::new(source, spans[place], "the size of this does not follow from where it is used");
                return Err(error.help("name it, as in vector(1, n), matrix(1, m, n) or eye(n)"));
            }
        }
    }
    Ok(MatrixExpression { source: source.to_owned(), parts, spans, types })
}

/// The sizes of all declared symbols, as far as they follow from the uses of the symbols; the number counts the unknown sizes.
pub(super) fn symbol_sizes(
    source: &str,
    parts: &[Syntax],
    spans: &[Span],
    declared: &Declarations,
    unknowns: usize,
) -> Result<Vec<Vec<Size>>, SyntaxError> {
    let typing = Typing::of(source, parts, spans, declared, unknowns)?;
    let sizes = |name: &str| -> Vec<Size> {
        declared.shape(name).unwrap_or_default().iter().map(|size| typing.resolved(size)).collect()
    };
    Ok(declared.names().map(sizes).collect())
}

struct Typing<'a> {
    source: &'a str,
    parts: &'a [Syntax],
    spans: &'a [Span],
    declared: &'a Declarations,
    types: Vec<Type>,
    /// Inferred sizes: constraints from their uses.
    found: Vec<Option<Size>>,
}

impl<'a> Typing<'a> {
    /// The types of all parts, where sizes numbered below `unknowns` occur in declarations.
    fn of(
        source: &'a str,
        parts: &'a [Syntax],
        spans: &'a [Span],
        declared: &'a Declarations,
        unknowns: usize,
    ) -> Result<Typing<'a>, SyntaxError> {
        let mut typing = Typing { source, parts, spans, declared, types: Vec::new(), found: vec![None; unknowns] };
        for place in 0..parts.len() {
            let found = typing.part(place)?;
            typing.types.push(found);
        }
        Ok(typing)
    }

    fn resolved(&self, size: &Size) -> Size {
        let mut size = size.clone();
        while let Size::Unknown(number) = size {
            match &self.found[number] {
                Some(known) => size = known.clone(),
                None => break,
            }
        }
        size
    }

    fn unknown(&mut self) -> Size {
        self.found.push(None);
        Size::Unknown(self.found.len() - 1)
    }

    /// Makes two sizes one, if they can be.
    fn same(&mut self, one: &Size, other: &Size) -> bool {
        match (self.resolved(one), self.resolved(other)) {
            (one, other) if one == other => true,
            (Size::Unknown(number), known) | (known, Size::Unknown(number)) => {
                self.found[number] = Some(known);
                true
            }
            _ => false,
        }
    }

    fn shown(&self, place: NodeId) -> String {
        let Type { sizes, row } = &self.types[place];
        Type { sizes: sizes.iter().map(|size| self.resolved(size)).collect(), row: *row }.to_string()
    }

    fn words(&self, place: NodeId) -> &str {
        let span = self.spans[place];
        let words = &self.source[span.start..span.end];
        // Parentheses belong to the span, and are not needed in a sentence.
        match words.strip_prefix('(').and_then(|words| words.strip_suffix(')')) {
            Some(inner) if !inner.contains(['(', ')']) => inner,
            _ => words,
        }
    }

    fn error(&self, place: NodeId, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.source, self.spans[place], message)
    }

    /// What both operands are, in the user's words.
    fn both(&self, first: NodeId, second: NodeId) -> String {
        format!("{} is a {}, {} is a {}", self.words(first), self.shown(first), self.words(second), self.shown(second))
    }

    fn part(&mut self, place: NodeId) -> Result<Type, SyntaxError> {
        match &self.parts[place] {
            Syntax::Number(_) | Syntax::SizeOf(_) => Ok(Type::number()),
            Syntax::Symbol(name) => Ok(Type::of(self.declared.shape(name).unwrap_or_default())),
            Syntax::Negative(operand) => Ok(self.types[*operand].clone()),
            Syntax::Transpose(operand) => {
                let own = self.types[*operand].clone();
                match own.sizes.len() {
                    0 => Ok(own),
                    1 => Ok(Type { row: !own.row, ..own }),
                    2 => Ok(Type::of(&[own.sizes[1].clone(), own.sizes[0].clone()])),
                    _ => Err(self
                        .error(place, format!("a {} has no transpose", self.shown(*operand)))
                        .help("order its axes with einsum, as in einsum(\"ijk->kij\", T)")),
                }
            }
            Syntax::Binary(operator, first, second) => self.binary(place, *operator, *first, *second),
            Syntax::Elementwise(operation, operands, _) => match operands[..] {
                [first, second] => self.together(place, first, second, operation.name()),
                _ => Ok(self.types[operands[0]].clone()),
            },
            Syntax::Choice(_, operands) => {
                // What is a number goes with all others; these must be of one shape.
                let mut whole = operands[0];
                for operand in operands {
                    self.together(place, whole, *operand, "chosen between")?;
                    whole = if self.types[whole].is_number() { *operand } else { whole };
                }
                Ok(self.types[whole].clone())
            }
            Syntax::Function(function, operand) => self.function(*function, *operand),
            Syntax::Constant(constant, sizes) => {
                let count = if matches!(constant, Constant::Matrix(_)) { 2 } else { 1 };
                if let Some(unknown) = sizes.iter().find(
                    |size| matches!(Declarations::size(size), Some(Size::Name(name)) if !self.declared.is_size(&name)),
                ) {
                    let error = self.error(place, format!("no symbol has the size {unknown}"));
                    return Err(error.help(format!("give it a number with --sizes {unknown}=3")));
                }
                let mut own: Vec<Size> = sizes.iter().filter_map(|word| Declarations::size(word)).collect();
                while own.len() < count {
                    own.push(self.unknown());
                }
                if *constant == Constant::Eye {
                    own.push(own[0].clone());
                }
                Ok(Type::of(&own))
            }
            Syntax::Einsum(notation, operands) => self.einsum(place, notation, operands),
        }
    }

    /// The type of something element by element: both are of one shape, or one is a number.
    fn together(&mut self, place: NodeId, first: NodeId, second: NodeId, verb: &str) -> Result<Type, SyntaxError> {
        let (one, other) = (self.types[first].clone(), self.types[second].clone());
        if one.is_number() || other.is_number() {
            return Ok(if one.is_number() { other } else { one });
        }
        let fits = one.sizes.len() == other.sizes.len()
            && one.row == other.row
            && one.sizes.iter().zip(&other.sizes).all(|(one, other)| self.same(one, other));
        if fits {
            return Ok(one);
        }
        let message = format!("a {} and a {} cannot be {verb}", self.shown(first), self.shown(second));
        let mut help = self.both(first, second);
        if one.sizes.len() == 1 && other.sizes.len() == 1 && one.row != other.row {
            help += "; transpose one of them with '";
        }
        Err(self.error(place, message).help(help))
    }

    fn binary(
        &mut self,
        place: NodeId,
        operator: Operator,
        first: NodeId,
        second: NodeId,
    ) -> Result<Type, SyntaxError> {
        match operator {
            Operator::Add => self.together(place, first, second, "added"),
            Operator::Sub => self.together(place, first, second, "subtracted"),
            Operator::Times => self.together(place, first, second, "multiplied element by element"),
            Operator::Over => self.together(place, first, second, "divided element by element"),
            Operator::ElementPower => self.together(place, first, second, "raised element by element"),
            Operator::Product => self.product(place, first, second),
            Operator::Divide if self.types[second].is_number() => Ok(self.types[first].clone()),
            Operator::Divide => {
                let message = format!("a {} cannot be divided by a {}", self.shown(first), self.shown(second));
                Err(self.error(place, message).help("write ./ to divide element by element, or inv(A)*b"))
            }
            Operator::Power => self.power(place, first, second),
        }
    }

    fn product(&mut self, place: NodeId, first: NodeId, second: NodeId) -> Result<Type, SyntaxError> {
        let (one, other) = (self.types[first].clone(), self.types[second].clone());
        if one.is_number() || other.is_number() {
            return Ok(if one.is_number() { other } else { one });
        }
        let (a, b) = (&one.sizes, &other.sizes);
        let joined = |typing: &mut Self, result: Type| typing.same(&a[a.len() - 1], &b[0]).then_some(result);
        let found = match (a.len(), one.row, b.len(), other.row) {
            (1, true, 1, false) => joined(self, Type::number()),
            (1, false, 1, true) => Some(Type::of(&[a[0].clone(), b[0].clone()])),
            (2, _, 1, false) => joined(self, Type::of(&a[..1])),
            (1, true, 2, _) => joined(self, Type { sizes: vec![b[1].clone()], row: true }),
            (2, _, 2, _) => joined(self, Type::of(&[a[0].clone(), b[1].clone()])),
            _ => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let message = format!("a {} cannot be multiplied with a {}", self.shown(first), self.shown(second));
        let help = if a.len() == 1 && b.len() == 1 && one.row == other.row {
            let (x, y) = (self.words(first), self.words(second));
            format!("write {x}'*{y} for a number, {x}*{y}' for a matrix, {x}.*{y} for a vector")
        } else if a.len() > 2 || b.len() > 2 {
            "write products of tensors with einsum, as in einsum(\"ijk,k->ij\", T, x)".to_owned()
        } else {
            self.both(first, second)
        };
        Err(self.error(place, message).help(help))
    }

    fn power(&mut self, place: NodeId, first: NodeId, second: NodeId) -> Result<Type, SyntaxError> {
        let own = self.types[first].clone();
        if !self.types[second].is_number() {
            let message = format!("the exponent is a {}", self.shown(second));
            return Err(self.error(second, message).help("write .^ to raise element by element"));
        }
        if own.is_number() {
            return Ok(own);
        }
        if own.sizes.len() != 2 || !self.same(&own.sizes[0], &own.sizes[1]) {
            let message = format!("a {} cannot be multiplied with itself", self.shown(first));
            return Err(self.error(place, message).help("write .^ to raise element by element"));
        }
        match self.parts[second] {
            Syntax::Number(-1.0) => Ok(own),
            Syntax::Number(number) if number.fract() == 0.0 && (1.0..=LARGEST_POWER).contains(&number) => Ok(own),
            _ => Err(self
                .error(second, format!("the power of a matrix must be -1 or a whole number from 1 to {LARGEST_POWER}"))
                .help("write .^ to raise element by element")),
        }
    }

    fn function(&mut self, function: Function, operand: NodeId) -> Result<Type, SyntaxError> {
        let own = self.types[operand].clone();
        let name = function.name();
        match function {
            Function::Sum | Function::Norm1 | Function::Norm2 => Ok(Type::number()),
            Function::Softmax if own.sizes.len() == 1 => Ok(own),
            Function::Softmax => {
                let message = format!("softmax needs a vector, not a {}", self.shown(operand));
                Err(self.error(operand, message).help("of the rows of a matrix it is exp(A) ./ (exp(A)*matrix(1))"))
            }
            Function::Diagonal if own.sizes.len() == 1 => Ok(Type::of(&[own.sizes[0].clone(), own.sizes[0].clone()])),
            _ => {
                if own.sizes.len() != 2 {
                    let message = format!("{name} needs a matrix, not a {}", self.shown(operand));
                    return Err(self.error(operand, message));
                }
                if !self.same(&own.sizes[0], &own.sizes[1]) {
                    let message = format!("{name} needs a square matrix, not a {}", self.shown(operand));
                    let (rows, columns) = (self.resolved(&own.sizes[0]), self.resolved(&own.sizes[1]));
                    let error = self.error(operand, message);
                    return Err(error.help(format!("its rows number {rows}, its columns {columns}")));
                }
                Ok(match function {
                    Function::Inverse => own,
                    Function::Diagonal => Type::of(&own.sizes[..1]),
                    _ => Type::number(),
                })
            }
        }
    }

    fn einsum(&mut self, place: NodeId, notation: &str, operands: &[NodeId]) -> Result<Type, SyntaxError> {
        let Some((left, output)) = notation.split_once("->") else {
            return Err(self
                .error(place, "an arrow is missing in the notation")
                .help("write for example \"ij,jk->ik\""));
        };
        let lists: Vec<&str> = left.split(',').map(str::trim).collect();
        let given = if left.trim().is_empty() && operands.is_empty() { 0 } else { lists.len() };
        if given != operands.len() {
            let message = format!("the notation has {given} operands, and {} follow", operands.len());
            return Err(self.error(place, message));
        }
        let mut labels: Vec<(char, Size)> = Vec::new();
        for (list, operand) in lists.iter().zip(operands) {
            let sizes = self.types[*operand].sizes.clone();
            if list.chars().count() != sizes.len() {
                let message = format!("\"{list}\" stands for a {}", self.shown(*operand));
                return Err(self.error(*operand, message).help(format!("it needs {} letters", sizes.len())));
            }
            for (label, size) in list.chars().zip(sizes) {
                if !label.is_alphabetic() {
                    return Err(self.error(place, format!("{label:?} in the notation is no letter")));
                }
                match labels.iter().find(|(known, _)| *known == label).cloned() {
                    None => labels.push((label, size)),
                    Some((_, known)) if self.same(&known, &size) => {}
                    Some((_, known)) => {
                        let (known, size) = (self.resolved(&known), self.resolved(&size));
                        let message = format!("the letter {label} has the sizes {known} and {size}");
                        return Err(self.error(*operand, message));
                    }
                }
            }
        }
        let mut sizes = Vec::new();
        for label in output.trim().chars() {
            match labels.iter().find(|(known, _)| *known == label) {
                Some((_, size)) => sizes.push(size.clone()),
                None => return Err(self.error(place, format!("no operand has the letter {label:?} of the result"))),
            }
        }
        Ok(Type::of(&sizes))
    }
}
