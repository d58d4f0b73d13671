//! Typesetting: what the library writes as text, in MathML, which browsers draw by themselves.
//!
//! All printers of the library write lines of one kind: sums, products, quotients, powers, functions, indices, marks over
//! letters. One reader of such lines typesets all of them: expressions, rules with their numbers, derivatives in matrix
//! and in Einstein notation.

/// The deepest nesting that is typeset; deeper text stays as it is.
const DEEPEST: usize = 120;

/// The combining marks that become accents: the dot of a tangent, the macron of an adjoint.
const MARKS: [(char, char); 2] = [('\u{307}', '\u{2d9}'), ('\u{304}', '\u{af}')];

/// A line of mathematics, as the library writes it, in MathML. What cannot be read becomes plain text.
///
/// ```
/// use glassgrad::formula::mathml;
/// assert_eq!(
///     mathml("x1 / 2"),
///     "<math><mfrac><msub><mi>x</mi><mn>1</mn></msub><mn>2</mn></mfrac></math>"
/// );
/// assert_eq!(mathml("A_ij"), "<math><msub><mi>A</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub></math>");
/// assert_eq!(mathml("no ) formula <"), "<math><mtext>no ) formula &lt;</mtext></math>");
/// ```
pub fn mathml(line: &str) -> String {
    let tokens = tokens(line);
    let mut reader = Reader { tokens: &tokens, position: 0, depth: 0 };
    match reader.line() {
        Some(piece) if reader.position == tokens.len() => format!("<math>{}</math>", piece.shown),
        _ => format!("<math>{}</math>", element("mtext", line)),
    }
}

/// What has been typeset, and the same without the parentheses around it, for places that need none.
struct Piece {
    shown: String,
    bare: String,
}

impl Piece {
    fn new(shown: String) -> Piece {
        Piece { bare: shown.clone(), shown }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(String),
    Name(String),
    Index(String),
    Symbol(&'static str),
    Other(char),
}

/// The symbols with more than one character stand before their beginnings.
const SYMBOLS: [&str; 24] = [
    "->", "**", ".*", "./", ".^", "<=", ">=", "==", "!=", "+", "-", "*", "·", "/", "%", "^", "(", ")", ",", "'", "<",
    ">", "=", "∂",
];

fn is_mark(character: char) -> bool {
    ('\u{300}'..'\u{370}').contains(&character)
}

fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit() {
            let length = number_length(rest);
            tokens.push(Token::Number(rest[..length].to_owned()));
            length
        } else if first == '_' {
            let length = 1 + prefix(&rest[1..], |c| c.is_alphanumeric());
            tokens.push(Token::Index(rest[1..length].to_owned()));
            length
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else if first.is_alphabetic() {
            let length = prefix(rest, |c| c.is_alphanumeric() || is_mark(c));
            tokens.push(Token::Name(rest[..length].to_owned()));
            length
        } else {
            tokens.push(Token::Other(first));
            first.len_utf8()
        };
        rest = rest[length..].trim_start();
    }
    tokens
}

fn prefix(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|character| !belongs(character)).unwrap_or(text.len())
}

/// How many bytes a number takes: digits, a point, an exponent.
fn number_length(text: &str) -> usize {
    let digits = |from: usize| from + prefix(&text[from..], |c| c.is_ascii_digit());
    let mut end = digits(0);
    let follows_digit = |at: usize| text[at..].starts_with(|c: char| c.is_ascii_digit());
    if text[end..].starts_with('.') && follows_digit(end + 1) {
        end = digits(end + 1);
    }
    if text[end..].starts_with('e') {
        let sign = usize::from(text[end + 1..].starts_with(['-', '+']));
        if follows_digit(end + 1 + sign) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

struct Reader<'t> {
    tokens: &'t [Token],
    position: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn accept(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Symbol(found)) = self.peek() else { return None };
        let found = symbols.iter().find(|symbol| *symbol == found).copied()?;
        self.position += 1;
        Some(found)
    }

    fn accept_word(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Name(name)) = self.peek() else { return None };
        let found = words.iter().find(|word| *word == name).copied()?;
        self.position += 1;
        Some(found)
    }

    /// Sums with relations and words between them.
    fn line(&mut self) -> Option<Piece> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut shown = String::new();
        while self.accept_word(&["not"]).is_some() {
            shown += "<mo>¬</mo>";
        }
        shown += &self.sum()?.shown;
        loop {
            let symbol = self.accept(&["=", "==", "!=", "<=", ">=", "<", ">", "->"]);
            let Some(symbol) = symbol.or_else(|| self.accept_word(&["and", "or"])) else { break };
            shown += match symbol {
                "!=" => "<mo>≠</mo>",
                "<=" => "<mo>≤</mo>",
                ">=" => "<mo>≥</mo>",
                "<" => "<mo>&lt;</mo>",
                ">" => "<mo>&gt;</mo>",
                "->" => "<mo>↦</mo>",
                "and" => "<mo>∧</mo>",
                "or" => "<mo>∨</mo>",
                _ => "<mo>=</mo>",
            };
            while self.accept_word(&["not"]).is_some() {
                shown += "<mo>¬</mo>";
            }
            shown += &self.sum()?.shown;
        }
        self.depth -= 1;
        Some(Piece::new(shown))
    }

    fn sum(&mut self) -> Option<Piece> {
        let first = self.product()?;
        let mut sum = first.shown.clone();
        let mut is_single = true;
        while let Some(sign) = self.accept(&["+", "-"]) {
            is_single = false;
            sum += if sign == "+" { "<mo>+</mo>" } else { "<mo>−</mo>" };
            sum += &self.product()?.shown;
        }
        Some(if is_single { first } else { Piece::new(sum) })
    }

    /// Factors and divisors; what has been read before a division becomes its numerator.
    fn product(&mut self) -> Option<Piece> {
        let mut product = self.signed()?;
        loop {
            let is_factor = matches!(self.peek(), Some(Token::Name(name)) if !matches!(name.as_str(), "and" | "or"))
                || matches!(self.peek(), Some(Token::Number(_)))
                || self.peek() == Some(&Token::Symbol("("));
            if let Some(symbol) = self.accept(&["*", "·", ".*", "./", "/", "%"]) {
                let factor = self.signed()?;
                product = match symbol {
                    "/" => Piece::new(format!("<mfrac>{}{}</mfrac>", row(&product.bare), row(&factor.bare))),
                    _ => {
                        let operator = match symbol {
                            ".*" => "<mo>⊙</mo>",
                            "./" => "<mo>⊘</mo>",
                            "%" => "<mo>mod</mo>",
                            _ => "<mo>·</mo>",
                        };
                        Piece::new(format!("{}{operator}{}", product.shown, factor.shown))
                    }
                };
            } else if is_factor {
                // Einstein notation writes products without a sign.
                let factor = self.signed()?;
                product = Piece::new(format!("{}<mspace width=\"0.22em\"></mspace>{}", product.shown, factor.shown));
            } else {
                return Some(product);
            }
        }
    }

    fn signed(&mut self) -> Option<Piece> {
        let mut signs = 0;
        while self.accept(&["-"]).is_some() {
            signs += 1;
        }
        let power = self.power()?;
        if signs == 0 {
            return Some(power);
        }
        Some(Piece::new(format!("{}{}", "<mo form=\"prefix\">−</mo>".repeat(signs), power.shown)))
    }

    fn power(&mut self) -> Option<Piece> {
        let base = self.postfix()?;
        if self.accept(&["^", "**", ".^"]).is_none() {
            return Some(base);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let exponent = self.signed()?;
        self.depth -= 1;
        Some(Piece::new(format!("<msup>{}{}</msup>", row(&base.shown), row(&exponent.bare))))
    }

    /// An atom with its indices and its transpositions.
    fn postfix(&mut self) -> Option<Piece> {
        let mut atom = self.atom()?;
        loop {
            if let Some(Token::Index(index)) = self.peek() {
                atom = Piece::new(format!("<msub>{}{}</msub>", row(&atom.shown), indices(index)));
                self.position += 1;
            } else if self.accept(&["'"]).is_some() {
                atom = Piece::new(format!("<msup>{}<mo>⊤</mo></msup>", row(&atom.shown)));
            } else {
                return Some(atom);
            }
        }
    }

    fn atom(&mut self) -> Option<Piece> {
        let token = self.peek()?.clone();
        self.position += 1;
        match token {
            Token::Number(number) => Some(Piece::new(typeset_number(&number))),
            Token::Symbol("∂") => {
                // The names of a derivative are read one by one, so that no row of signs goes deep.
                let Some(Token::Name(name)) = self.peek().cloned() else { return None };
                self.position += 1;
                let variable = Piece::new(typeset_name(&name));
                Some(Piece::new(format!("<mo form=\"prefix\">∂</mo>{}", variable.shown)))
            }
            Token::Symbol("(") => {
                let inside = self.line()?;
                self.accept(&[")"])?;
                Some(Piece { shown: enclosed(&inside.shown), bare: inside.shown })
            }
            Token::Name(name) if self.peek() == Some(&Token::Symbol("(")) => {
                self.position += 1;
                let arguments = self.arguments()?;
                Some(Piece::new(function(&name, &arguments)))
            }
            Token::Name(name) => Some(Piece::new(typeset_name(&name))),
            _ => None,
        }
    }

    fn arguments(&mut self) -> Option<Vec<Piece>> {
        let mut arguments = Vec::new();
        while self.accept(&[")"]).is_none() {
            arguments.push(self.line()?);
            if self.accept(&[","]).is_none() {
                self.accept(&[")"])?;
                break;
            }
        }
        Some(arguments)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}

/// Several elements as one, where MathML counts them; a single element is one already.
fn row(inside: &str) -> String {
    let (mut depth, mut elements) = (0, 0);
    for (place, _) in inside.match_indices('<') {
        depth += if inside[place..].starts_with("</") { -1 } else { 1 };
        elements += usize::from(depth == 0);
    }
    if elements == 1 { inside.to_owned() } else { format!("<mrow>{inside}</mrow>") }
}

fn enclosed(inside: &str) -> String {
    between("(", inside, ")")
}

/// Something between two fences, which grow only around what is tall: powers and roots need no larger ones.
fn between(left: &str, inside: &str, right: &str) -> String {
    let is_tall = ["<mfrac>", "<mtable"].iter().any(|tall| inside.contains(tall));
    let fence = |symbol: &str| match is_tall {
        true => element("mo", symbol),
        false => format!("<mo stretchy=\"false\">{symbol}</mo>"),
    };
    format!("<mrow>{}{inside}{}</mrow>", fence(left), fence(right))
}

/// Indices are letters one by one, or a number.
fn indices(index: &str) -> String {
    if index.bytes().all(|byte| byte.is_ascii_digit()) {
        return element("mn", index);
    }
    row(&index.chars().map(|letter| element("mi", &letter.to_string())).collect::<String>())
}

/// A number; an exponent becomes a power of ten.
fn typeset_number(number: &str) -> String {
    let Some((mantissa, exponent)) = number.split_once('e') else { return element("mn", number) };
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("<mo>−</mo>", digits));
    let power = format!("<msup><mn>10</mn><mrow>{sign}{}</mrow></msup>", element("mn", digits.trim_start_matches('+')));
    format!("<mrow>{}<mo>×</mo>{power}</mrow>", element("mn", mantissa))
}

/// A name: digits at its end are an index, and a mark over its first letter an accent.
fn typeset_name(name: &str) -> String {
    let end = name.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    let (letters, digits) = name.split_at(end);
    let plain: String = letters.chars().filter(|character| !is_mark(*character)).collect();
    let plain = if plain == "pi" { "π" } else { &plain };
    let mark = letters.chars().find_map(|character| MARKS.iter().find(|(mark, _)| *mark == character));
    let letters = match mark {
        Some((_, accent)) => {
            format!("<mover accent=\"true\">{}{}</mover>", element("mi", plain), element("mo", &accent.to_string()))
        }
        None => element("mi", plain),
    };
    if digits.is_empty() { letters } else { format!("<msub>{letters}{}</msub>", element("mn", digits)) }
}

/// A function of its arguments; some have a notation of their own.
fn function(name: &str, arguments: &[Piece]) -> String {
    match (name, arguments) {
        ("sqrt", [x]) => format!("<msqrt>{}</msqrt>", x.bare),
        ("cbrt", [x]) => format!("<mroot>{}<mn>3</mn></mroot>", row(&x.bare)),
        ("abs", [x]) => between("|", &x.shown, "|"),
        ("norm2", [x]) => format!("<msub>{}<mn>2</mn></msub>", between("‖", &x.shown, "‖")),
        ("norm1", [x]) => format!("<msub>{}<mn>1</mn></msub>", between("‖", &x.shown, "‖")),
        ("inv", [x]) => format!("<msup>{}<mrow><mo>−</mo><mn>1</mn></mrow></msup>", grouped(x)),
        ("where", [condition, taken, otherwise]) => {
            let case = |value: &Piece, when: &str| format!("<mtr><mtd>{}</mtd><mtd>{when}</mtd></mtr>", value.shown);
            let rows = case(taken, &format!("<mtext>if&#160;</mtext>{}", condition.shown))
                + &case(otherwise, "<mtext>otherwise</mtext>");
            format!("<mrow><mo>{{</mo><mtable columnalign=\"left left\">{rows}</mtable></mrow>")
        }
        _ => {
            let list: Vec<&str> = arguments.iter().map(|argument| argument.shown.as_str()).collect();
            let name = if name.chars().any(is_mark) { typeset_name(name) } else { element("mi", name) };
            format!("<mrow>{name}<mo>&#8289;</mo>{}</mrow>", enclosed(&list.join("<mo>,</mo>")))
        }
    }
}

/// A base for a power: a single name stands alone.
fn grouped(piece: &Piece) -> String {
    if piece.shown.matches('<').count() <= 2 { piece.shown.clone() } else { enclosed(&piece.bare) }
}

#[cfg(test)]
mod tests {
    use super::mathml;

    fn is_balanced(text: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for tag in text.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap_or_default();
            let name = tag.split(' ').next().unwrap_or_default();
            match name.strip_prefix('/') {
                Some(closed) if open.pop() != Some(closed) => return false,
                Some(_) => {}
                None => open.push(name),
            }
        }
        open.is_empty()
    }

    #[test]
    fn quotients_lose_parentheses_and_products_keep_them() {
        assert_eq!(
            mathml("(a + b) / c"),
            "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac></math>"
        );
        assert!(mathml("(a + b)*c").contains("<mo stretchy=\"false\">(</mo>"));
        assert!(mathml("(a / b)*c").contains("<mo>(</mo>"));
    }

    #[test]
    fn rules_of_both_sweeps_are_read() {
        let tangent = mathml("v\u{307}1·v2 + v\u{307}2·v1 = 1·5 + (-0.5)·2.1e-7 = 5");
        assert!(
            tangent.contains("<msub><mover accent=\"true\"><mi>v</mi><mo>˙</mo></mover><mn>1</mn></msub>"),
            "{tangent}"
        );
        assert!(tangent.contains("<msup><mn>10</mn><mrow><mo>−</mo><mn>7</mn></mrow></msup>"), "{tangent}");
        assert!(mathml("x\u{304}1 = x\u{304}1 + v\u{304}1 / x1").contains("<mfrac>"));
    }

    #[test]
    fn every_notation_is_typeset_and_balanced() {
        let lines = [
            "2·A_ki A_kj",
            "-inv(X)_jk inv(X)_li",
            "dX -> -inv(X)'*dX'*inv(X)'",
            "2*A'*(A*x - b)",
            "∂²f/∂x_i∂x_j",
            "where(x > 0, x^2, -x) + sqrt(abs(y)) - cbrt(z)",
            "a = x*y; not ( b",
            "x^-y^2",
            "sigmoid(x .* y ./ z)",
            "f()",
            "<script>alert(1)</script>",
        ];
        for line in lines {
            let typeset = mathml(line);
            assert!(is_balanced(&typeset), "{line}: {typeset}");
            assert!(!typeset.contains("<script"), "{typeset}");
        }
        for line in &lines[..4] {
            assert!(!mathml(line).contains("mtext"), "{line} was not read");
        }
    }

    #[test]
    fn no_depth_overflows() {
        for line in
            ["(".repeat(60_000), "-".repeat(60_000), "x^".repeat(30_000), "f(".repeat(30_000), "∂".repeat(30_000)]
        {
            assert!(mathml(&line).starts_with("<math><mtext>"));
        }
    }
}
