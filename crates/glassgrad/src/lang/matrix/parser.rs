//! From tokens to parts, by recursive descent with limits on nesting and height.

use std::f64::consts;

use super::declare::{Declarations, is_name};
use super::syntax::{Constant, Function, MAXIMUM_HEIGHT, MAXIMUM_NESTING, MatrixExpression, NodeId, Operator, Syntax};
use crate::lang::lexer::{Dialect, Token, tokenize};
use crate::lang::parser::{function, similar};
use crate::lang::{Span, SyntaxError};
use crate::ops::Relation;

/// The functions that are no rows of the table, for suggestions.
const WORDS: [&str; 15] = [
    "log", "sum", "tr", "norm1", "norm2", "inv", "det", "logdet", "diag", "softmax", "vector", "matrix", "eye",
    "where", "einsum",
];

/// Reads a matrix expression of declared symbols, and finds the shape of every part.
///
/// ```
/// use glassgrad::lang::matrix::{Declarations, parse};
/// let declared = Declarations::read("A: m n, x: n, b: m").unwrap();
/// let error = parse("A*x - x", &declared).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a vector of m and a vector of n cannot be subtracted\n  | A*x - x\n  | ^^^^^^^\n  = help: A*x is a vector of m, x is a vector of n"
/// );
/// ```
pub fn parse(source: &str, declared: &Declarations) -> Result<MatrixExpression, SyntaxError> {
    let (parts, spans) = parts(source, declared)?;
    super::types::typed(source, parts, spans, declared)
}

/// The names that stand for symbols, in the order of their first uses.
pub(super) fn free_names(source: &str, declared: &Declarations) -> Result<Vec<String>, SyntaxError> {
    let tokens = tokenize(source, Dialect::Matrix)?;
    let mut found: Vec<String> = Vec::new();
    for (place, (token, _)) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        let is_called = tokens.get(place + 1).is_some_and(|(next, _)| next == &Token::Symbol("("));
        let is_transpose = name == "T" && place > 0 && tokens[place - 1].0 == Token::Symbol("^");
        let is_known = is_reserved(name) || ["pi", "e"].contains(&name.as_str()) || declared.is_size(name);
        if !(is_called || is_transpose || is_known || found.contains(name)) {
            found.push(name.clone());
        }
    }
    Ok(found)
}

/// The parts of an expression with their places in the text, before they are typed.
pub(super) fn parts(source: &str, declared: &Declarations) -> Result<(Vec<Syntax>, Vec<Span>), SyntaxError> {
    let tokens = tokenize(source, Dialect::Matrix)?;
    let mut parser = Parser {
        source,
        tokens,
        position: 0,
        depth: 0,
        declared,
        parts: Vec::new(),
        spans: Vec::new(),
        heights: Vec::new(),
    };
    if parser.peek() == &Token::End {
        return Err(parser.error_here("the expression is empty").help("write for example norm2(A*x - b)^2"));
    }
    parser.sum()?;
    if parser.peek() != &Token::End {
        return Err(parser.unexpected());
    }
    let Parser { parts, spans, .. } = parser;
    Ok((parts, spans))
}

/// Whether a name stands for a function or a constant array.
pub(super) fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || function(name).is_some()
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<(Token, Span)>,
    position: usize,
    depth: usize,
    declared: &'a Declarations,
    parts: Vec<Syntax>,
    spans: Vec<Span>,
    heights: Vec<usize>,
}

type Parsed<T> = Result<T, SyntaxError>;

impl Parser<'_> {
    fn sum(&mut self) -> Parsed<NodeId> {
        self.left_associative(&[Operator::Add, Operator::Sub], Self::product)
    }

    fn product(&mut self) -> Parsed<NodeId> {
        let operators = [Operator::Product, Operator::Divide, Operator::Times, Operator::Over];
        self.left_associative(&operators, Self::unary)
    }

    fn left_associative(&mut self, operators: &[Operator], operand: fn(&mut Self) -> Parsed<NodeId>) -> Parsed<NodeId> {
        let mut first = operand(self)?;
        while let Some(operator) =
            operators.iter().find(|operator| self.peek() == &Token::Symbol(operator.symbol())).copied()
        {
            self.position += 1;
            let second = operand(self)?;
            let span = self.spans[first].cover(self.previous_span());
            first = self.push(Syntax::Binary(operator, first, second), span)?;
        }
        Ok(first)
    }

    fn unary(&mut self) -> Parsed<NodeId> {
        let start = self.span();
        if self.accept("+") {
            return self.nested(Self::unary);
        }
        if !self.accept("-") {
            return self.power();
        }
        let operand = self.nested(Self::unary)?;
        if let Syntax::Number(number) = self.parts[operand]
            && operand + 1 == self.parts.len()
        {
            self.parts[operand] = Syntax::Number(-number);
            self.spans[operand].start = start.start;
            return Ok(operand);
        }
        self.push(Syntax::Negative(operand), start.cover(self.previous_span()))
    }

    fn power(&mut self) -> Parsed<NodeId> {
        let base = self.postfix()?;
        let Some(operator) = [Operator::Power, Operator::ElementPower]
            .into_iter()
            .find(|operator| self.peek() == &Token::Symbol(operator.symbol()))
        else {
            return Ok(base);
        };
        self.position += 1;
        let exponent = self.nested(Self::unary)?;
        let span = self.spans[base].cover(self.previous_span());
        self.push(Syntax::Binary(operator, base, exponent), span)
    }

    fn postfix(&mut self) -> Parsed<NodeId> {
        let mut operand = self.atom()?;
        while self.accept("'") || self.accept_transpose() {
            let span = self.spans[operand].cover(self.previous_span());
            operand = self.push(Syntax::Transpose(operand), span)?;
        }
        Ok(operand)
    }

    /// `^T`, the transpose as it is printed, where no symbol is named T.
    fn accept_transpose(&mut self) -> bool {
        let next = |place: usize| self.tokens.get(self.position + place).map(|(token, _)| token);
        let is_transpose = next(0) == Some(&Token::Symbol("^"))
            && matches!(next(1), Some(Token::Name(name)) if name == "T")
            && self.declared.shape("T").is_none()
            && !self.declared.is_size("T");
        self.position += if is_transpose { 2 } else { 0 };
        is_transpose
    }

    fn atom(&mut self) -> Parsed<NodeId> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.position += 1;
                if let Token::Name(name) = self.peek() {
                    let help = format!("write {number}*{name}");
                    return Err(self.unexpected().help(help));
                }
                self.push(Syntax::Number(number), span)
            }
            Token::Symbol("(") => {
                self.position += 1;
                let inner = self.nested(Self::sum)?;
                self.close(span)?;
                // Operations on top of it are underlined with its parentheses.
                self.spans[inner] = span.cover(self.previous_span());
                Ok(inner)
            }
            Token::Name(name) => {
                self.position += 1;
                match self.peek() {
                    Token::Symbol("(") => self.call(&name, span),
                    _ => self.name(&name, span),
                }
            }
            _ => Err(self.unexpected()),
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Parsed<NodeId> {
        if self.declared.shape(name).is_some() {
            return self.push(Syntax::Symbol(name.to_owned()), span);
        }
        if self.declared.is_size(name) {
            return self.push(Syntax::SizeOf(name.to_owned()), span);
        }
        match name {
            "pi" => return self.push(Syntax::Number(consts::PI), span),
            "e" => return self.push(Syntax::Number(consts::E), span),
            "eye" => return self.push(Syntax::Constant(Constant::Eye, Vec::new()), span),
            _ => {}
        }
        if is_reserved(name) {
            let error = SyntaxError::new(self.source, span, format!("'{name}' is a function and needs arguments"));
            return Err(error.help(format!("write {name}(...)")));
        }
        let error = SyntaxError::new(self.source, span, format!("'{name}' is not declared"));
        let known: Vec<&str> = self.declared.names().collect();
        let known = if known.is_empty() { String::new() } else { format!("; declared are {}", known.join(", ")) };
        Err(error.help(format!(
            "say what it is with --sizes: \"{name}: n\" is a vector, \"{name}: m n\" a matrix, \"{name}:\" a number{known}"
        )))
    }

    fn call(&mut self, name: &str, span: Span) -> Parsed<NodeId> {
        let open = self.span();
        self.position += 1;
        match name {
            "vector" | "matrix" | "eye" => return self.constant(name, span, open),
            "einsum" => return self.einsum(span, open),
            "where" => return self.choice(span, open),
            _ => {}
        }
        let whole_matrix = Function::ALL.into_iter().find(|function| function.name() == name);
        let operation = function(name);
        if whole_matrix.is_none() && operation.is_none() {
            if self.declared.shape(name).is_some() {
                let error = SyntaxError::new(self.source, span, format!("'{name}' is no function"));
                return Err(error.help(format!("for a product write {name}*(...)")));
            }
            let error = SyntaxError::new(self.source, span, format!("unknown function '{name}'"));
            return Err(match similar(name, &WORDS)[..] {
                [] => error.help(format!(
                    "`glassgrad operations` lists the functions element by element; besides there are {}",
                    WORDS[1..].join(", ")
                )),
                ref names => error.help(format!("did you mean '{}'?", names.join("' or '"))),
            });
        }
        let arguments = self.arguments(open)?;
        let whole = span.cover(self.previous_span());
        let error = |message: String| Err(SyntaxError::new(self.source, whole, message));
        if let Some(function) = whole_matrix {
            let [argument] = arguments[..] else {
                return error(format!("{name} takes one argument, not {}", arguments.len()));
            };
            return self.push(Syntax::Function(function, argument), whole);
        }
        let Some(operation) = operation else { return error(format!("unknown function '{name}'")) };
        let arity = operation.arity();
        let parameter = operation.parameter();
        if !(arity..=arity + usize::from(parameter.is_some())).contains(&arguments.len()) {
            let count = if arity == 1 { "one argument" } else { "two arguments" };
            return error(format!("{name} takes {count}, not {}", arguments.len()));
        }
        let fixed = match (parameter, arguments.get(arity).map(|place| &self.parts[*place])) {
            (Some(parameter), Some(Syntax::Number(value))) if !parameter.integer || value.fract() == 0.0 => *value,
            (Some(parameter), Some(_)) => {
                let kind = if parameter.integer { "a whole number" } else { "a number" };
                return error(format!("the {} of {name} must be {kind}", parameter.name));
            }
            (Some(parameter), None) => parameter.default,
            (None, _) => 0.0,
        };
        self.push(Syntax::Elementwise(operation, arguments[..arity].to_vec(), fixed), whole)
    }

    fn arguments(&mut self, open: Span) -> Parsed<Vec<NodeId>> {
        let mut arguments = Vec::new();
        while self.peek() != &Token::Symbol(")") {
            arguments.push(self.nested(Self::sum)?);
            if !self.accept(",") {
                break;
            }
        }
        self.close(open)?;
        Ok(arguments)
    }

    /// `vector(1)`, `vector(1, n)`, `matrix(1, m, n)`, `eye(n)`.
    fn constant(&mut self, name: &str, span: Span, open: Span) -> Parsed<NodeId> {
        let (kind, axes) = match name {
            "eye" => (Constant::Eye, 1),
            _ => {
                let negative = self.accept("-");
                let Token::Number(value) = *self.peek() else {
                    let error = self.error_here(format!("{name} starts with the number that it is filled with"));
                    return Err(error.help(format!("write {name}(1) or {name}(1, n)")));
                };
                self.position += 1;
                let value = if negative { -value } else { value };
                match name {
                    "vector" => (Constant::Vector(value), 1),
                    _ => (Constant::Matrix(value), 2),
                }
            }
        };
        let mut sizes = Vec::new();
        while self.peek() != &Token::Symbol(")") {
            let first = sizes.is_empty() && kind == Constant::Eye;
            if !first && !self.accept(",") {
                break;
            }
            let word = match self.peek() {
                Token::Name(name) if is_name(name) => name.clone(),
                Token::Number(number) if Declarations::size(&number.to_string()).is_some() => number.to_string(),
                _ => {
                    return Err(self
                        .error_here("a size was expected here")
                        .help("a size is a name such as n, or a number"));
                }
            };
            sizes.push(word);
            self.position += 1;
        }
        self.close(open)?;
        let whole = span.cover(self.previous_span());
        if !sizes.is_empty() && sizes.len() != axes {
            let count = if axes == 1 { "one size".to_owned() } else { format!("{axes} sizes") };
            return Err(SyntaxError::new(self.source, whole, format!("{name} has {count}, not {}", sizes.len())));
        }
        self.push(Syntax::Constant(kind, sizes), whole)
    }

    /// `where(x > 0, a, b)`.
    fn choice(&mut self, span: Span, open: Span) -> Parsed<NodeId> {
        let left = self.nested(Self::sum)?;
        let Some(relation) = Relation::ALL.into_iter().find(|own| self.peek() == &Token::Symbol(own.symbol())) else {
            return Err(self.error_here("a comparison was expected here").help("write for example where(x > 0, x, 0)"));
        };
        self.position += 1;
        let mut operands = [left; 4];
        for (place, operand) in operands.iter_mut().enumerate().skip(1) {
            if place > 1 && !self.accept(",") {
                let error = self.error_here("where takes a comparison and two expressions");
                return Err(error.help("write for example where(x > 0, x, 0)"));
            }
            *operand = self.nested(Self::sum)?;
        }
        self.close(open)?;
        self.push(Syntax::Choice(relation, operands), span.cover(self.previous_span()))
    }

    fn einsum(&mut self, span: Span, open: Span) -> Parsed<NodeId> {
        let Token::Quoted(notation) = self.peek().clone() else {
            let error = self.error_here("einsum starts with its notation in quotation marks");
            return Err(error.help("write for example einsum(\"ij,jk->ik\", A, B)"));
        };
        self.position += 1;
        let arguments = if self.accept(",") {
            self.arguments(open)?
        } else {
            self.close(open)?;
            Vec::new()
        };
        self.push(Syntax::Einsum(notation, arguments), span.cover(self.previous_span()))
    }

    fn push(&mut self, part: Syntax, span: Span) -> Parsed<NodeId> {
        let height = 1 + part.operands().iter().map(|operand| self.heights[*operand]).max().unwrap_or(0);
        if height > MAXIMUM_HEIGHT {
            let message = format!("the expression has more than {MAXIMUM_HEIGHT} operations on top of each other");
            return Err(SyntaxError::new(self.source, span, message));
        }
        self.parts.push(part);
        self.spans.push(span);
        self.heights.push(height);
        Ok(self.parts.len() - 1)
    }

    /// Increments the recursion depth, up to its limit.
    fn nested<T>(&mut self, inner: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAXIMUM_NESTING {
            return Err(self.error_here(format!("the expression is nested more than {MAXIMUM_NESTING} levels deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn close(&mut self, open: Span) -> Parsed<()> {
        if self.accept(")") {
            return Ok(());
        }
        if self.peek() == &Token::End {
            return Err(SyntaxError::new(self.source, open, "this parenthesis is never closed"));
        }
        Err(self.unexpected())
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.position].0
    }

    fn span(&self) -> Span {
        self.tokens[self.position].1
    }

    fn previous_span(&self) -> Span {
        self.tokens[self.position.saturating_sub(1)].1
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.position += usize::from(found);
        found
    }

    fn error_here(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.source, self.span(), message)
    }

    fn unexpected(&self) -> SyntaxError {
        match self.peek() {
            Token::End => self.error_here("the expression ends where an operand is missing"),
            Token::Symbol(")") => self.error_here("an operand is missing here, or this parenthesis was never opened"),
            token => {
                let error = self.error_here(format!("unexpected {token}"));
                match token {
                    Token::Name(_) | Token::Symbol("(") => error.help("between two factors stands * or .*"),
                    _ => error,
                }
            }
        }
    }
}
