//! From tokens to nodes, by recursive descent with a limit on nesting.

use std::f64::consts;

use super::expression::{Expression, Span};
use super::lexer::{Dialect, SyntaxError, Token, tokenize};
use crate::formula::{Formula, Node};
use crate::ops::{Operation, Relation};

/// The deepest nesting of parentheses, signs and powers that is read.
pub const MAXIMUM_DEPTH: usize = 200;

/// Reads a program.
///
/// ```
/// use glassgrad::lang::parse;
/// let error = parse("ln(x) + tahn(y)").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown function 'tahn'\n  | ln(x) + tahn(y)\n  |         ^^^^\n  = help: did you mean 'tan' or 'tanh'?"
/// );
/// ```
pub fn parse(source: &str) -> Result<Expression, SyntaxError> {
    let tokens = tokenize(source, Dialect::Scalar)?;
    let expression = Expression {
        source: source.to_owned(),
        variables: Vec::new(),
        formula: Formula::default(),
        spans: Vec::new(),
        names: Vec::new(),
    };
    let mut parser =
        Parser { tokens, position: 0, depth: 0, bars: 0, expression, constants: Vec::new(), bindings: Vec::new() };
    parser.program()?;
    Ok(parser.expression.without_unused().ordered_by_height())
}

/// What a piece of text stands for: a node, or a condition that only `where` can use.
enum Meaning {
    Number(usize),
    Condition(Condition),
}

enum Condition {
    Comparison(usize, Relation, usize),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    position: usize,
    depth: usize,
    /// Bars of absolute values that are open.
    bars: usize,
    expression: Expression,
    /// The value of each node that depends on no input.
    constants: Vec<Option<f64>>,
    /// Names that the program defined, with their nodes.
    bindings: Vec<(String, usize)>,
}

type Parsed<T> = Result<T, SyntaxError>;

impl Parser {
    fn program(&mut self) -> Parsed<()> {
        if self.peek() == &Token::End {
            return Err(self.error_here("the expression is empty").help("write for example x^2 + sin(y)"));
        }
        let mut last = None;
        while self.peek() != &Token::End {
            let name = self.binding_name()?;
            let node = self.number()?;
            if let Some(name) = name {
                // Two names for one node: the first stays on the picture.
                self.expression.names[node].get_or_insert_with(|| name.clone());
                self.bindings.push((name, node));
            } else {
                self.expression.formula.outputs.push(node);
            }
            last = Some(node);
            if !self.accept(";") && self.peek() != &Token::End {
                return Err(self.unexpected());
            }
        }
        if self.expression.formula.outputs.is_empty() {
            self.expression.formula.outputs.extend(last);
        }
        Ok(())
    }

    /// Reads `name =` at the start of a statement, if it is there.
    fn binding_name(&mut self) -> Parsed<Option<String>> {
        let (Token::Name(name), Some((Token::Symbol("="), _))) =
            (self.peek().clone(), self.tokens.get(self.position + 1))
        else {
            return Ok(None);
        };
        let taken = if self.bindings.iter().any(|(bound, _)| *bound == name) {
            Some("it is defined above")
        } else if self.expression.variables.contains(&name) {
            Some("it is used above as an input")
        } else if is_reserved(&name) {
            Some("it has a meaning of its own")
        } else {
            None
        };
        if let Some(reason) = taken {
            return Err(self.error_here(format!("'{name}' cannot be defined here: {reason}")));
        }
        self.position += 2;
        Ok(Some(name))
    }

    /// A number: anything but a condition.
    fn number(&mut self) -> Parsed<usize> {
        let start = self.span();
        let meaning = self.disjunction()?;
        self.expect_number(meaning, start)
    }

    fn expect_number(&self, meaning: Meaning, start: Span) -> Parsed<usize> {
        match meaning {
            Meaning::Number(node) => Ok(node),
            Meaning::Condition(_) => {
                let span = start.cover(self.previous_span());
                Err(SyntaxError::new(&self.expression.source, span, "a condition is not a number")
                    .help("choose by it with where(condition, a, b)"))
            }
        }
    }

    fn expect_condition(&self, meaning: Meaning, start: Span) -> Parsed<Condition> {
        match meaning {
            Meaning::Condition(condition) => Ok(condition),
            Meaning::Number(_) => {
                let span = start.cover(self.previous_span());
                Err(SyntaxError::new(&self.expression.source, span, "a comparison was expected here, not a number")
                    .help("write for example where(x > 0, x, 0)"))
            }
        }
    }

    fn disjunction(&mut self) -> Parsed<Meaning> {
        let start = self.span();
        let mut meaning = self.conjunction()?;
        while self.accept_word("or") {
            let first = self.expect_condition(meaning, start)?;
            let second_start = self.span();
            let second = self.conjunction()?;
            let second = self.expect_condition(second, second_start)?;
            meaning = Meaning::Condition(Condition::Or(Box::new(first), Box::new(second)));
        }
        Ok(meaning)
    }

    fn conjunction(&mut self) -> Parsed<Meaning> {
        let start = self.span();
        let mut meaning = self.negation()?;
        while self.accept_word("and") {
            let first = self.expect_condition(meaning, start)?;
            let second_start = self.span();
            let second = self.negation()?;
            let second = self.expect_condition(second, second_start)?;
            meaning = Meaning::Condition(Condition::And(Box::new(first), Box::new(second)));
        }
        Ok(meaning)
    }

    fn negation(&mut self) -> Parsed<Meaning> {
        if self.accept_word("not") {
            let start = self.span();
            let meaning = self.nested(Parser::negation)?;
            let condition = self.expect_condition(meaning, start)?;
            return Ok(Meaning::Condition(Condition::Not(Box::new(condition))));
        }
        let start = self.span();
        let meaning = self.sum()?;
        let Some(relation) = self.relation() else {
            return Ok(meaning);
        };
        let left = self.expect_number(meaning, start)?;
        let right_start = self.span();
        let right = self.sum()?;
        let right = self.expect_number(right, right_start)?;
        if self.relation().is_some() {
            self.position -= 1;
            return Err(self.error_here("comparisons do not chain").help("write a < b and b < c"));
        }
        Ok(Meaning::Condition(Condition::Comparison(left, relation, right)))
    }

    fn relation(&mut self) -> Option<Relation> {
        let relation = Relation::ALL.into_iter().find(|relation| self.peek() == &Token::Symbol(relation.symbol()))?;
        self.position += 1;
        Some(relation)
    }

    fn sum(&mut self) -> Parsed<Meaning> {
        self.left_associative(&[("+", Operation::Add), ("-", Operation::Sub)], Parser::product)
    }

    fn product(&mut self) -> Parsed<Meaning> {
        let operators = [("*", Operation::Mul), ("/", Operation::Div), ("%", Operation::Rem)];
        self.left_associative(&operators, Parser::unary)
    }

    fn left_associative(
        &mut self,
        operators: &[(&'static str, Operation)],
        operand: fn(&mut Parser) -> Parsed<Meaning>,
    ) -> Parsed<Meaning> {
        let start = self.span();
        let mut meaning = operand(self)?;
        loop {
            let written = operators.iter().find(|(symbol, _)| self.peek() == &Token::Symbol(symbol));
            let implied = operators.iter().find(|(symbol, _)| *symbol == "*" && self.implies_product());
            let Some((symbol, operation)) = written.or(implied) else { break };
            self.accept(symbol);
            let first = self.expect_number(meaning, start)?;
            let second_start = self.span();
            let second = operand(self)?;
            let second = self.expect_number(second, second_start)?;
            meaning = Meaning::Number(self.push_binary(*operation, first, second, start));
        }
        Ok(meaning)
    }

    /// Whether the next token begins a factor without a sign before it, as in `2x`, `2(x + 1)`, `(x + 1)(x - 1)` and `2|x|`. Two names
    /// or two numbers side by side are no product: that is more often a mistake.
    fn implies_product(&self) -> bool {
        let ends = matches!(
            self.position.checked_sub(1).map(|before| &self.tokens[before].0),
            Some(Token::Number(_) | Token::Symbol(")" | "|"))
        );
        ends && match self.peek() {
            Token::Name(name) => !is_word_operator(name),
            Token::Symbol("(") => true,
            // Inside of bars the next one closes them.
            Token::Symbol("|") => self.bars == 0,
            _ => false,
        }
    }

    fn unary(&mut self) -> Parsed<Meaning> {
        let start = self.span();
        if self.accept("+") {
            return self.nested(Parser::unary);
        }
        if !self.accept("-") {
            return self.power();
        }
        let meaning = self.nested(Parser::unary)?;
        let argument = self.expect_number(meaning, start)?;
        // A negative literal is one number, not a negation of one.
        if let Node::Number(number) = self.expression.formula.nodes[argument]
            && argument + 1 == self.expression.formula.nodes.len()
        {
            self.expression.formula.nodes[argument] = Node::Number(-number);
            self.expression.spans[argument].start = start.start;
            self.constants[argument] = Some(-number);
            return Ok(Meaning::Number(argument));
        }
        Ok(Meaning::Number(self.push_unary(Operation::Neg, argument, 0.0, start)))
    }

    fn power(&mut self) -> Parsed<Meaning> {
        let start = self.span();
        let meaning = self.atom()?;
        if !self.accept("^") {
            return Ok(meaning);
        }
        let base = self.expect_number(meaning, start)?;
        let exponent_start = self.span();
        let exponent = self.nested(Parser::unary)?;
        let exponent = self.expect_number(exponent, exponent_start)?;
        Ok(Meaning::Number(match self.constants[exponent] {
            // A fixed exponent has a rule of its own, which is right for a negative base too.
            Some(fixed) if self.constants[base].is_none() => {
                let whole = fixed.fract() == 0.0 && fixed.abs() <= f64::from(i32::MAX);
                let operation = if whole { Operation::Powi } else { Operation::Powf };
                self.push_unary(operation, base, fixed, start)
            }
            _ => self.push_binary(Operation::Pow, base, exponent, start),
        }))
    }

    fn atom(&mut self) -> Parsed<Meaning> {
        let span = self.span();
        match self.peek().clone() {
            Token::Number(number) => {
                self.position += 1;
                Ok(Meaning::Number(self.push(Node::Number(number), Some(number), span)))
            }
            Token::Symbol("(") => {
                self.position += 1;
                // Parentheses inside of bars may hold bars of their own.
                let bars = std::mem::take(&mut self.bars);
                let meaning = self.nested(Parser::disjunction)?;
                self.bars = bars;
                self.close(span)?;
                Ok(meaning)
            }
            Token::Symbol("|") => self.absolute(span).map(Meaning::Number),
            Token::Name(name) => {
                self.position += 1;
                if self.peek() == &Token::Symbol("(") {
                    self.call(&name, span).map(Meaning::Number)
                } else {
                    self.name(&name, span).map(Meaning::Number)
                }
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `|x|`, the absolute value.
    fn absolute(&mut self, open: Span) -> Parsed<usize> {
        self.position += 1;
        self.bars += 1;
        let argument = self.nested(Parser::number)?;
        self.bars -= 1;
        if !self.accept("|") {
            return match self.peek() {
                Token::End => Err(SyntaxError::new(&self.expression.source, open, "this bar is never closed")),
                _ => Err(self.unexpected()),
            };
        }
        Ok(self.push_unary(Operation::Abs, argument, 0.0, open))
    }

    fn name(&mut self, name: &str, span: Span) -> Parsed<usize> {
        if let Some((_, node)) = self.bindings.iter().find(|(bound, _)| bound == name) {
            return Ok(*node);
        }
        let constant = match name {
            "pi" => Some(consts::PI),
            "e" => Some(consts::E),
            _ => None,
        };
        if let Some(constant) = constant {
            return Ok(self.push(Node::Number(constant), Some(constant), span));
        }
        if is_reserved(name) {
            let example = if function(name).is_some_and(|operation| operation.arity() == 2) { "(a, b)" } else { "(x)" };
            let message = format!("'{name}' is a function and needs arguments");
            return Err(SyntaxError::new(&self.expression.source, span, message).help(format!("write {name}{example}")));
        }
        let known = self.expression.variables.iter().position(|variable| variable == name);
        if let Some(variable) = known {
            // Every use of an input is the same node.
            let found = self.expression.formula.nodes.iter().position(|node| *node == Node::Variable(variable));
            if let Some(node) = found {
                return Ok(node);
            }
        }
        self.expression.variables.push(name.to_owned());
        Ok(self.push(Node::Variable(self.expression.variables.len() - 1), None, span))
    }

    fn call(&mut self, name: &str, span: Span) -> Parsed<usize> {
        let open = self.span();
        if name == "where" {
            return self.choice(span, open);
        }
        let Some(operation) = function(name) else {
            let error = SyntaxError::new(&self.expression.source, span, format!("unknown function '{name}'"));
            return Err(match similar(name, &["where", "log"])[..] {
                _ if self.expression.variables.iter().any(|known| known == name) || name.chars().count() == 1 => {
                    error.help(format!("for a product write {name}*(...)"))
                }
                [] => error.help("`glassgrad operations` lists all functions"),
                ref names => error.help(format!("did you mean '{}'?", names.join("' or '"))),
            });
        };
        self.accept("(");
        let bars = std::mem::take(&mut self.bars);
        let mut arguments = Vec::new();
        while self.peek() != &Token::Symbol(")") {
            arguments.push(self.nested(Parser::number)?);
            if !self.accept(",") {
                break;
            }
        }
        self.bars = bars;
        self.close(open)?;
        let whole = span.cover(self.previous_span());
        let parameter = operation.parameter();
        let allowed = operation.arity()..=operation.arity() + usize::from(parameter.is_some());
        // The largest of several is the largest of the first ones, and the next one.
        if matches!(operation, Operation::Max | Operation::Min) && arguments.len() > 2 {
            let mut extreme = arguments[0];
            for argument in &arguments[1..] {
                extreme = self.push_binary(operation, extreme, *argument, span);
            }
            return Ok(extreme);
        }
        if !allowed.contains(&arguments.len()) {
            let takes = match (operation.arity(), parameter) {
                (1, None) => "one argument".to_owned(),
                (1, Some(parameter)) => format!("one argument and, optionally, its {}", parameter.name),
                _ => "two arguments".to_owned(),
            };
            let message = format!("{name} takes {takes}, not {}", arguments.len());
            return Err(SyntaxError::new(&self.expression.source, whole, message));
        }
        if operation.arity() == 2 {
            return Ok(self.push_binary(operation, arguments[0], arguments[1], span));
        }
        let parameter = match (parameter, arguments.get(1)) {
            (Some(parameter), Some(given)) => self.parameter(name, parameter, *given)?,
            (Some(parameter), None) => parameter.default,
            (None, _) => 0.0,
        };
        Ok(self.push_unary(operation, arguments[0], parameter, span))
    }

    /// The value of a parameter, which must be fixed.
    fn parameter(&self, name: &str, parameter: crate::ops::Parameter, given: usize) -> Parsed<f64> {
        let error =
            |message: String| Err(SyntaxError::new(&self.expression.source, self.expression.spans[given], message));
        match self.constants[given] {
            None => error(format!("the {} of {name} must be a number that depends on no variable", parameter.name)),
            Some(value) if parameter.integer && (value.fract() != 0.0 || value.abs() > f64::from(i32::MAX)) => {
                error(format!("the {} of {name} must be a whole number, not {value}", parameter.name))
            }
            Some(value) => Ok(value),
        }
    }

    fn choice(&mut self, span: Span, open: Span) -> Parsed<usize> {
        self.accept("(");
        let start = self.span();
        let meaning = self.nested(Parser::disjunction)?;
        let condition = self.expect_condition(meaning, start)?;
        let mut branches = [0; 2];
        for branch in &mut branches {
            if !self.accept(",") {
                let error = self.error_here("where takes a condition and two numbers");
                return Err(error.help("write for example where(x > 0, x, 0)"));
            }
            *branch = self.nested(Parser::number)?;
        }
        self.close(open)?;
        Ok(self.push_choice(&condition, branches[0], branches[1], span))
    }

    /// A compound condition becomes a choice between choices.
    fn push_choice(&mut self, condition: &Condition, taken: usize, otherwise: usize, start: Span) -> usize {
        match condition {
            Condition::Comparison(left, relation, right) => {
                let node = Node::Choose(*left, *relation, *right, taken, otherwise);
                let constants = [*left, *right, taken, otherwise].map(|operand| self.constants[operand]);
                let constant = match constants {
                    [Some(left), Some(right), Some(taken), Some(otherwise)] => {
                        Some(if relation.holds(left, right) { taken } else { otherwise })
                    }
                    _ => None,
                };
                self.push(node, constant, start.cover(self.previous_span()))
            }
            Condition::And(first, second) => {
                let inner = self.push_choice(second, taken, otherwise, start);
                self.push_choice(first, inner, otherwise, start)
            }
            Condition::Or(first, second) => {
                let inner = self.push_choice(second, taken, otherwise, start);
                self.push_choice(first, taken, inner, start)
            }
            Condition::Not(condition) => self.push_choice(condition, otherwise, taken, start),
        }
    }

    fn push_unary(&mut self, operation: Operation, argument: usize, parameter: f64, start: Span) -> usize {
        let constant = self.constants[argument].and_then(|x| operation.apply_unary(x, parameter));
        let node = Node::Unary(operation, argument, parameter);
        self.push(node, constant, start.cover(self.previous_span()))
    }

    fn push_binary(&mut self, operation: Operation, first: usize, second: usize, start: Span) -> usize {
        let constant = match (self.constants[first], self.constants[second]) {
            (Some(a), Some(b)) => operation.apply_binary(a, b),
            _ => None,
        };
        self.push(Node::Binary(operation, first, second), constant, start.cover(self.previous_span()))
    }

    fn push(&mut self, node: Node, constant: Option<f64>, span: Span) -> usize {
        self.expression.formula.nodes.push(node);
        self.expression.spans.push(span);
        self.expression.names.push(None);
        self.constants.push(constant);
        self.expression.formula.nodes.len() - 1
    }

    /// Increments the recursion depth, up to its limit.
    fn nested<T>(&mut self, inner: fn(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAXIMUM_DEPTH {
            let message = format!("the expression is nested more than {MAXIMUM_DEPTH} levels deep");
            return Err(self.error_here(message).help("give parts of it names: a = ...; b = a + ..."));
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
            return Err(SyntaxError::new(&self.expression.source, open, "this parenthesis is never closed"));
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

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(next) if next == word);
        self.position += usize::from(found);
        found
    }

    fn error_here(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(&self.expression.source, self.span(), message)
    }

    fn unexpected(&self) -> SyntaxError {
        let token = self.peek();
        if token == &Token::Symbol(")") {
            let count = |symbol| {
                self.tokens[..self.position].iter().filter(|(token, _)| *token == Token::Symbol(symbol)).count()
            };
            let open = count("(") > count(")");
            return self.error_here(if open {
                "an operand is missing here"
            } else {
                "this parenthesis was never opened"
            });
        }
        if token == &Token::End {
            return self.error_here("the expression ends where an operand is missing");
        }
        let error = self.error_here(format!("unexpected {token}"));
        match token {
            Token::Symbol("=") => error.help("compare with ==; a name is defined at the start of a statement"),
            _ => error,
        }
    }
}

fn is_word_operator(name: &str) -> bool {
    matches!(name, "and" | "or" | "not")
}

fn is_reserved(name: &str) -> bool {
    matches!(name, "pi" | "e" | "where") || is_word_operator(name) || function(name).is_some()
}

/// The operation that a function name stands for.
pub(super) fn function(name: &str) -> Option<Operation> {
    match name {
        "log" => Some(Operation::Ln),
        _ => Operation::from_name(name),
    }
}

/// The functions whose names are nearest to a mistyped one, if any is near.
pub(super) fn similar(name: &str, others: &[&'static str]) -> Vec<&'static str> {
    let candidates = Operation::ALL.iter().map(|operation| operation.name()).chain(others.iter().copied());
    let distances: Vec<(usize, &str)> =
        candidates.map(|candidate| (edit_distance(name, candidate), candidate)).collect();
    let nearest = distances.iter().map(|(distance, _)| *distance).min().unwrap_or(usize::MAX);
    let near = nearest <= 1 + name.len() / 4;
    distances.into_iter().filter(|(distance, _)| near && *distance == nearest).map(|(_, candidate)| candidate).collect()
}

/// How many insertions, deletions, substitutions and swaps of neighbours turn one word into the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let substituted = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                substituted.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

impl Expression {
    /// Drops nodes that nothing uses: the exponent of a power whose rule carries it as a parameter.
    /// Named nodes and inputs stay, because the user wrote them.
    fn without_unused(self) -> Expression {
        let mut used = vec![false; self.formula.nodes.len()];
        for output in &self.formula.outputs {
            used[*output] = true;
        }
        for index in (0..self.formula.nodes.len()).rev() {
            used[index] |= self.names[index].is_some() || matches!(self.formula.nodes[index], Node::Variable(_));
            if used[index] {
                for operand in self.formula.nodes[index].operands() {
                    used[operand] = true;
                }
            }
        }
        let mut place = Vec::with_capacity(used.len());
        let mut kept = Expression { formula: Formula::default(), spans: Vec::new(), names: Vec::new(), ..self };
        for (index, node) in self.formula.nodes.iter().enumerate() {
            place.push(kept.spans.len());
            if used[index] {
                kept.formula.nodes.push(node.renumbered(|operand| place[operand]));
                kept.spans.push(self.spans[index]);
                kept.names.push(self.names[index].clone());
            }
        }
        kept.formula.outputs = self.formula.outputs.iter().map(|output| place[*output]).collect();
        kept
    }
}
