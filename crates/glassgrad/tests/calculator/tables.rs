//! Derivatives that the literature of matrix calculus tabulates, written in the language of the calculator.

/// One entry: an expression, the symbol to differentiate by, and the derivative as it is tabulated. Gradients have the shape
/// of the symbol, and Jacobians a row for each element of the expression. A derivative with more indices is the map
/// that it applies to a direction, dX for X.
pub(crate) struct Row {
    pub(crate) source: &'static str,
    pub(crate) wrt: &'static str,
    pub(crate) declared: &'static str,
    pub(crate) tabulated: &'static str,
    /// Whether all elements are positive, and square matrices regular with a positive determinant.
    pub(crate) positive: bool,
}

const fn row(source: &'static str, wrt: &'static str, declared: &'static str, tabulated: &'static str) -> Row {
    Row { source, wrt, declared, tabulated, positive: false }
}

const fn positive(source: &'static str, wrt: &'static str, declared: &'static str, tabulated: &'static str) -> Row {
    Row { source, wrt, declared, tabulated, positive: true }
}

pub(crate) const FIRST: &[Row] = &[
    // Linear forms.
    row("a'*x", "x", "a: n, x: n", "a"),
    row("x'*a", "x", "a: n, x: n", "a"),
    row("a'*X*b", "X", "a: m, b: n, X: m n", "a*b'"),
    row("a'*X'*b", "X", "a: n, b: m, X: m n", "b*a'"),
    row("a'*X*a", "X", "a: n, X: n n", "a*a'"),
    row("A*x", "x", "A: m n, x: n", "A"),
    row("x'*A", "x", "A: n m, x: n", "A'"),
    row("c*x", "x", "c: , x: n", "c*eye(n)"),
    row("x*t", "t", "x: n, t: ", "x"),
    // Quadratic forms.
    row("x'*x", "x", "x: n", "2*x"),
    row("x'*A*x", "x", "A: n n, x: n", "(A + A')*x"),
    row("b'*X'*X*c", "X", "X: m n, b: n, c: n", "X*(b*c' + c*b')"),
    row("(B*x + b)'*C*(D*x + d)", "x", "x: n, B: m n, b: m, C: m k, D: k n, d: k", "B'*C*(D*x + d) + D'*C'*(B*x + b)"),
    row("b'*X'*D*X*c", "X", "X: m n, D: m m, b: n, c: n", "D'*X*b*c' + D*X*c*b'"),
    row("norm2(A*x - b)^2", "x", "A: m n, x: n, b: m", "2*A'*(A*x - b)"),
    row("(x - A*s)'*W*(x - A*s)", "s", "x: m, A: m n, s: n, W: m m", "-A'*(W + W')*(x - A*s)"),
    row("(x - s)'*W*(x - s)", "x", "x: m, s: m, W: m m", "(W + W')*(x - s)"),
    // Traces.
    row("tr(X)", "X", "X: n n", "eye(n)"),
    row("tr(X*A)", "X", "X: m n, A: n m", "A'"),
    row("tr(A*X*B)", "X", "A: k m, X: m n, B: n k", "A'*B'"),
    row("tr(A*X'*B)", "X", "A: k n, X: m n, B: m k", "B*A"),
    row("tr(X^2)", "X", "X: n n", "2*X'"),
    row("tr(X^2*B)", "X", "X: n n, B: n n", "(X*B + B*X)'"),
    row("tr(X'*B*X)", "X", "X: m n, B: m m", "B*X + B'*X"),
    row("tr(X*B*X')", "X", "X: m n, B: n n", "X*B' + X*B"),
    row("tr(A*X*B*X)", "X", "A: n m, B: n m, X: m n", "A'*X'*B' + B'*X'*A'"),
    row("tr(B*X'*C*X*B')", "X", "B: k n, X: m n, C: m m", "C*X*B'*B + C'*X*B'*B"),
    row("tr(X^4)", "X", "X: n n", "4*(X')^3"),
    row("tr(A*X*B*X'*C)", "X", "A: k m, X: m n, B: n n, C: m k", "A'*C'*X*B' + C*A*X*B"),
    row("norm2(X)^2", "X", "X: m n", "2*X"),
    row("norm2(T - U*V')^2", "U", "T: m n, U: m k, V: n k", "2*(U*V' - T)*V"),
    // Determinants and inverses.
    positive("det(X)", "X", "X: n n", "det(X)*inv(X)'"),
    positive("det(A*X*B)", "X", "A: n n, X: n n, B: n n", "det(A*X*B)*inv(X)'"),
    positive("log(det(X))", "X", "X: n n", "inv(X)'"),
    positive("logdet(X)", "X", "X: n n", "inv(X)'"),
    positive("logdet(X'*X)", "X", "X: m n", "2*X*inv(X'*X)"),
    positive("det(X)^3", "X", "X: n n", "3*det(X)^3*inv(X)'"),
    positive("det(X'*A*X)", "X", "A: m m, X: m n", "det(X'*A*X)*(A*X*inv(X'*A*X) + A'*X*inv(X'*A'*X))"),
    row("a'*inv(X)*b", "X", "X: n n, a: n, b: n", "-inv(X)'*a*b'*inv(X)'"),
    row("tr(A*inv(X)*B)", "X", "A: k n, X: n n, B: n k", "-(inv(X)*B*A*inv(X))'"),
    row("tr(inv(X + A))", "X", "X: n n, A: n n", "-(inv(X + A)*inv(X + A))'"),
    row("inv(X)", "X", "X: n n, dX: n n", "-inv(X)*dX*inv(X)"),
    positive("logdet(eye + X'*X)", "X", "X: m n", "2*X*inv(eye + X'*X)"),
    // Norms and functions element by element.
    row("norm2(x - a)", "x", "x: n, a: n", "(x - a)/norm2(x - a)"),
    row("norm1(A*x)", "x", "A: m n, x: n", "A'*sign(A*x)"),
    row("(x - a)/norm2(x - a)", "x", "x: n, a: n", "eye/norm2(x - a) - (x - a)*(x - a)'/norm2(x - a)^3"),
    row("sum(exp(A*x))", "x", "A: m n, x: n", "A'*exp(A*x)"),
    row("exp(A*x)", "x", "A: m n, x: n", "diag(exp(A*x))*A"),
    row("log(sum(exp(x)))", "x", "x: n", "exp(x)/sum(exp(x))"),
    row("sum(log(1 + exp(-y.*(A*x))))", "x", "A: m n, x: n, y: m", "-A'*(y./(1 + exp(y.*(A*x))))"),
    row("sum(log(1 + exp(A*x))) - y'*A*x", "x", "A: m n, x: n, y: m", "A'*(exp(A*x)./(1 + exp(A*x)) - y)"),
    row("sum(relu(A*x + b))", "x", "A: m n, x: n, b: m", "A'*where(A*x + b > 0, 1, 0)"),
    row("x'*diag(d)*x", "d", "x: n, d: n", "x.*x"),
    row("sum((X*w - y).^2)/m", "w", "X: m n, w: n, y: m", "2*X'*(X*w - y)/m"),
    row("sum(x + c)", "c", "x: n, c: ", "n"),
    positive("x'*log(x)", "x", "x: n", "log(x) + 1"),
    positive("sum(x./y)", "y", "x: n, y: n", "-x./y.^2"),
    row("einsum(\"ij,ij->\", A, X.^3)", "X", "A: m n, X: m n", "3*A.*X.^2"),
    row("X*B", "X", "X: m n, B: n k, dX: m n", "dX*B"),
    row("X'*X", "X", "X: m n, dX: m n", "dX'*X + X'*dX"),
];

pub(crate) const SECOND: &[Row] = &[
    row("a'*x", "x", "a: n, x: n", "matrix(0, n, n)"),
    row("x'*x", "x", "x: n", "2*eye(n)"),
    row("x'*A*x", "x", "A: n n, x: n", "A + A'"),
    row("norm2(A*x - b)^2", "x", "A: m n, x: n, b: m", "2*A'*A"),
    row("(B*x + b)'*C*(D*x + d)", "x", "x: n, B: m n, b: m, C: m k, D: k n, d: k", "B'*C*D + D'*C'*B"),
    row("sum(exp(A*x))", "x", "A: m n, x: n", "A'*diag(exp(A*x))*A"),
    row("sum(log(1 + exp(A*x)))", "x", "A: m n, x: n", "A'*diag(exp(A*x)./(1 + exp(A*x)).^2)*A"),
    row("log(sum(exp(x)))", "x", "x: n", "diag(exp(x))/sum(exp(x)) - exp(x)*exp(x)'/sum(exp(x))^2"),
    row("norm2(x)", "x", "x: n", "eye/norm2(x) - x*x'/norm2(x)^3"),
    row("(a'*x)^2", "x", "a: n, x: n", "2*a*a'"),
    row("(x'*x)^2", "x", "x: n", "4*(x'*x)*eye + 8*x*x'"),
    row("sum(x.^4)", "x", "x: n", "12*diag(x.^2)"),
    positive("x'*log(x)", "x", "x: n", "diag(1./x)"),
    row("norm2(T - U*V')^2", "U", "T: m n, U: m k, V: n k, dU: m k", "2*dU*V'*V"),
    row("tr(X'*A*X)", "X", "A: m m, X: m n, dX: m n", "(A + A')*dX"),
    row("tr(X^3)", "X", "X: n n, dX: n n", "3*(dX'*X' + X'*dX')"),
    positive("logdet(X)", "X", "X: n n, dX: n n", "-inv(X)'*dX'*inv(X)'"),
    row(
        "a'*inv(X)*b",
        "X",
        "X: n n, a: n, b: n, dX: n n",
        "inv(X)'*dX'*inv(X)'*a*b'*inv(X)' + inv(X)'*a*b'*inv(X)'*dX'*inv(X)'",
    ),
    row("b'*X'*X*c", "X", "X: m n, b: n, c: n, dX: m n", "dX*(b*c' + c*b')"),
];
