//! Random matrix expressions in the language of `derive`.

/// The declared symbols: every size has a symbol, and `m` and `k` also occur where no symbol of the expression has them.
pub const DECLARED: &str = "A: m n, B: n n, X: n n, C: k n, x: n, y: m, z: n, c:";

/// What an expression is: a number, a vector of n or of m, or a matrix of n by n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// A vector of n.
    Vector,
    /// A vector of m.
    Long,
    /// A matrix of n by n.
    Square,
}

/// A random expression of a kind, and at most so deep. `below` returns a random integer below its argument.
pub fn expression(kind: Kind, depth: usize, below: &mut dyn FnMut(usize) -> usize) -> String {
    use Kind::{Long, Number, Square, Vector};
    if depth == 0 {
        let leaves: &[&str] = match kind {
            Number => &["c", "2", "0.5", "n", "m", "1.5", "k"],
            Vector => &["x", "x", "z", "vector(1, n)", "diag(X)"],
            Long => &["y", "A*x", "y"],
            Square => &["X", "X", "B", "eye(n)", "diag(x)", "x*z'"],
        };
        return leaves[below(leaves.len())].to_owned();
    }
    // Functions element by element are bounded, or their argument is.
    let function = |inner: String, below: &mut dyn FnMut(usize) -> usize| match below(8) {
        0 => format!("sin({inner})"),
        1 => format!("tanh({inner})"),
        2 => format!("cos({inner})"),
        3 => format!("sigmoid({inner})"),
        4 => format!("exp(sin({inner}))"),
        5 => format!("({inner}).^2"),
        6 => format!("log(2 + ({inner}).^2)"),
        _ => format!("1./(2 + sin({inner}))"),
    };
    let of = |kind: Kind, below: &mut dyn FnMut(usize) -> usize| expression(kind, depth - 1, below);
    match kind {
        Number => match below(15) {
            0 => format!("sum({})", of(Vector, below)),
            1 => format!("tr({})", of(Square, below)),
            2 => format!("sum({})", of(Square, below)),
            3 => format!("norm2({})^2", of(Vector, below)),
            4 => format!("({})'*({})", of(Vector, below), of(Vector, below)),
            5 => format!("({})*({})", of(Number, below), of(Number, below)),
            6 => format!("({}) - ({})", of(Number, below), of(Number, below)),
            7 => format!("sum({})/m", of(Vector, below)),
            8 => format!("sum(diag({}))", of(Square, below)),
            9 => format!("({})'*({})", of(Long, below), of(Long, below)),
            10 => {
                let inner = of(Number, below);
                function(inner, below)
            }
            11 => {
                let inner = of(Square, below);
                format!("logdet(({inner})'*({inner}) + 2*eye(n))")
            }
            12 => format!("k*({})", of(Number, below)),
            13 => format!("sum({})", of(Long, below)),
            _ => format!("tr(({}).*({}))", of(Square, below), of(Square, below)),
        },
        Vector => match below(11) {
            0 => format!("({})*({})", of(Square, below), of(Vector, below)),
            1 => format!("A'*({})", of(Long, below)),
            2 => format!("diag({})", of(Square, below)),
            3 => format!("({}).*({})", of(Vector, below), of(Vector, below)),
            4 => format!("({}) + ({})", of(Vector, below), of(Vector, below)),
            5 => format!("({})*({})", of(Number, below), of(Vector, below)),
            6 => {
                let inner = of(Vector, below);
                format!("({inner}) - sum({inner})/n")
            }
            7 | 8 => {
                let inner = of(Vector, below);
                function(inner, below)
            }
            9 => format!("({})'*({})", of(Square, below), of(Vector, below)),
            _ => format!("C'*(C*({}))", of(Vector, below)),
        },
        Long => match below(4) {
            0 => format!("A*({})", of(Vector, below)),
            1 => format!("({}).*({})", of(Long, below), of(Long, below)),
            2 => format!("({}) - ({})", of(Long, below), of(Long, below)),
            _ => {
                let inner = of(Long, below);
                function(inner, below)
            }
        },
        Square => match below(11) {
            0 => format!("({})*({})", of(Square, below), of(Square, below)),
            1 => format!("({}).*({})", of(Square, below), of(Square, below)),
            2 => format!("({})'", of(Square, below)),
            3 => format!("diag({})", of(Vector, below)),
            4 => format!("({})*({})'", of(Vector, below), of(Vector, below)),
            5 => format!("({}) + ({})", of(Square, below), of(Square, below)),
            6 => format!("({})*({})", of(Number, below), of(Square, below)),
            7 => {
                let inner = of(Square, below);
                format!("inv(({inner})'*({inner}) + 2*eye(n))")
            }
            8 => format!("diag(diag({}))", of(Square, below)),
            _ => {
                let inner = of(Square, below);
                function(inner, below)
            }
        },
    }
}
