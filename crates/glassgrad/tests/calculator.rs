//! The calculator on matrix expressions: derivatives as the literature tabulates them, and what it refuses.
#![cfg(all(feature = "glass", feature = "linalg"))]

#[path = "judges/cases.rs"]
mod cases;
#[path = "calculator/tables.rs"]
mod tables;

use glassgrad::calculator::{Question, derive, evaluate};
use glassgrad::lang::matrix::Declarations;
use glassgrad::{Tensor, calculus};
use tables::{FIRST, Row, SECOND};

/// The value of an element by a formula that both signs and no zero come out of, or a positive one.
fn leaf(name: &str, shape: &[usize], positive: bool) -> Tensor {
    let seed = name.bytes().map(f64::from).sum::<f64>();
    let count: usize = shape.iter().product();
    let value = |place: usize| {
        let wave = ((place as f64 + 1.0) * 12.9898 + seed * 78.233).sin();
        let diagonal = shape.len() == 2 && place.is_multiple_of(shape[1] + 1);
        match positive {
            true => 0.9 + 0.4 * wave + if diagonal { 2.5 } else { 0.0 },
            false => 0.2 + wave + if diagonal { 1.5 } else { 0.0 },
        }
    };
    Tensor::new(&(0..count).map(value).collect::<Vec<f64>>(), shape)
}

/// The sizes that symbols of the tables have.
fn size(name: &str) -> usize {
    ["", "", "k", "n", "m", "p"].iter().position(|known| *known == name).unwrap_or(2)
}

fn values(declared: &str, positive: bool) -> Vec<(String, Tensor)> {
    let mut found = Vec::new();
    for item in declared.split(',') {
        let (name, sizes) = item.split_once(':').expect("a colon");
        let shape: Vec<usize> = sizes.split_whitespace().map(size).collect();
        found.push((name.trim().to_owned(), leaf(name.trim(), &shape, positive)));
    }
    found
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap_or_else(|error| panic!("{error}"))
}

fn assert_close(one: &[f64], other: &[f64], tolerance: f64, what: &str) {
    assert_eq!(one.len(), other.len(), "{what}");
    let largest = one.iter().chain(other).fold(1.0_f64, |largest, value| largest.max(value.abs()));
    for (a, b) in one.iter().zip(other) {
        assert!((a - b).abs() <= tolerance * largest, "{what}: {a} is not {b}\n{one:?}\n{other:?}");
    }
}

struct Case<'a> {
    row: &'a Row,
    declared: Declarations,
    values: Vec<(String, Tensor)>,
}

impl Case<'_> {
    fn new(row: &Row) -> Case<'_> {
        let declared = Declarations::read(row.declared).unwrap_or_else(|error| panic!("{error}"));
        Case { row, declared, values: values(row.declared, row.positive) }
    }

    fn x(&self) -> Tensor {
        self.values.iter().find(|(name, _)| name == self.row.wrt).expect("the variable").1.clone()
    }

    /// The expression with another value for the variable.
    fn at(&self, source: &str, x: &Tensor) -> Tensor {
        let values: Vec<(&str, &Tensor)> =
            self.values.iter().map(|(name, own)| (name.as_str(), if name == self.row.wrt { x } else { own })).collect();
        evaluate(source, &self.declared, &values).unwrap_or_else(|error| panic!("{source}: {error}"))
    }

    /// Numbers, or the gradient's, by finite differences in every element of the variable: rows by columns.
    fn differences(&self, function: impl Fn(&Tensor) -> Vec<f64>) -> Vec<f64> {
        const STEP: f64 = 1e-3;
        let x = self.x();
        let (elements, shape) = (numbers(&x), x.shape().to_vec());
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for place in 0..elements.len() {
            let moved = |distance: f64| {
                let mut moved = elements.clone();
                moved[place] += distance;
                function(&Tensor::new(&moved, &shape[..]))
            };
            let four = [moved(-2.0 * STEP), moved(-STEP), moved(STEP), moved(2.0 * STEP)];
            let slope = |k: usize| (four[0][k] - 8.0 * four[1][k] + 8.0 * four[2][k] - four[3][k]) / (12.0 * STEP);
            columns.push((0..four[0].len()).map(slope).collect());
        }
        let rows = columns.first().map_or(0, Vec::len);
        (0..rows).flat_map(|row| columns.iter().map(move |column| column[row]).collect::<Vec<f64>>()).collect()
    }

    /// A dense derivative applied to the direction that maps are tabulated for, where they are.
    fn applied(&self, dense: Vec<f64>) -> Vec<f64> {
        let Some((_, direction)) = self.values.iter().find(|(name, _)| *name == format!("d{}", self.row.wrt)) else {
            return dense;
        };
        let along = numbers(direction);
        dense.chunks(along.len()).map(|row| row.iter().zip(&along).map(|(a, b)| a * b).sum()).collect()
    }

    /// The derivative, what is tabulated, what is printed and finite differences are the same.
    fn check(&self, order: usize) -> String {
        let Row { source, wrt, declared, tabulated, .. } = self.row;
        let what = format!("order {order} of {source} by {wrt}");
        let x = self.x();
        let function = |x: &Tensor| self.at(source, x);
        let gradient = |x: &Tensor| numbers(&calculus::jacobian(function).at(x).unwrap().to_dense().unwrap());
        let (dense, differences) = match order {
            1 => (gradient(&x), self.differences(|x| numbers(&function(x)))),
            _ => {
                let dense = calculus::hessian(function).at(&x).unwrap().to_dense().unwrap();
                (numbers(&dense), self.differences(gradient))
            }
        };
        assert_close(&dense, &differences, 1e-8, &format!("{what}: finite differences"));
        let direct = self.applied(dense);
        let found = numbers(&self.at(tabulated, &x));
        assert_close(&direct, &found, 1e-12, &format!("{what}: the table says {tabulated}"));
        // The direction is no symbol of the question.
        let own: Vec<&str> = declared.split(',').filter(|item| !item.trim().starts_with(&format!("d{wrt}:"))).collect();
        let question = Question::new(source, wrt).declare(&own.join(",")).unwrap().order(order);
        let derived = derive(&question).unwrap_or_else(|error| panic!("{what}: {error}"));
        let Some(matrix) = &derived.matrix else { panic!("{what} has no matrix notation: {}", derived.einstein) };
        assert_close(&numbers(&self.at(matrix, &x)), &found, 1e-12, &format!("{what}: printed was {matrix}"));
        assert!(derived.agreement.finite_differences < 1e-7, "{what}: {:?}", derived.agreement);
        assert!(
            derived.agreement.nested < 1e-11 && derived.agreement.matrix < Some(1e-11),
            "{what}: {:?}",
            derived.agreement
        );
        let worst = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
        assert!(worst < 1e-11, "{what}: a step deviates by {worst}: {:#?}", derived.steps);
        format!(
            "{source}\n  by {wrt}      {matrix}\n  Einstein  {}\n  Ricci     {}\n  LaTeX     {}\n",
            derived.einstein, derived.ricci, derived.latex
        )
    }
}

/// Checks all rows, and says of all that fail why.
fn check_all(rows: &[Row], order: usize) -> String {
    let found: Vec<_> = rows.iter().map(|row| std::panic::catch_unwind(|| Case::new(row).check(order))).collect();
    let failed = found.iter().filter(|found| found.is_err()).count();
    assert_eq!(failed, 0, "{failed} of {} rows fail; each says why above", rows.len());
    found.into_iter().flatten().collect::<Vec<String>>().join("\n")
}

#[test]
fn first_derivatives_are_those_of_the_tables() {
    assert!(FIRST.len() >= 40);
    insta::assert_snapshot!(check_all(FIRST, 1));
}

#[test]
fn second_derivatives_are_those_of_the_tables() {
    assert!(SECOND.len() >= 15);
    insta::assert_snapshot!(check_all(SECOND, 2));
}

/// Every refusal, with the place and what to do, as people see it.
#[test]
fn what_cannot_be_answered_is_refused_with_the_place() {
    let all = "A: m n, B: n m, X: n n, x: n, y: m, t:, T: n n n";
    let asked = [
        ("", "x", 1, all),
        ("A*y", "x", 1, all),
        ("x*x", "x", 1, all),
        ("x + y", "x", 1, all),
        ("x + x'", "x", 1, all),
        ("A*B + A", "A", 1, all),
        ("A .* B", "A", 1, all),
        ("norm2(A*x - z)^2", "x", 1, all),
        ("norm3(x)", "x", 1, all),
        ("det(A)", "A", 1, all),
        ("inv(x)", "x", 1, all),
        ("tr(A)", "A", 1, all),
        ("x^2", "x", 1, all),
        ("X^0.5", "X", 1, all),
        ("X^x", "X", 1, all),
        ("x/y", "x", 1, all),
        ("T'", "T", 1, all),
        ("T*x", "T", 1, all),
        ("einsum(\"ij,j\", A, x)", "x", 1, all),
        ("einsum(\"ij,j->i\", A)", "x", 1, all),
        ("einsum(\"ij,i->j\", A, x)", "x", 1, all),
        ("einsum(\"ij,j->k\", A, x)", "x", 1, all),
        ("einsum(A, x)", "x", 1, all),
        ("where(x, 1, 2)", "x", 1, all),
        ("where(x > 0, y, 2)", "x", 1, all),
        ("sum(vector(1))*t", "t", 1, all),
        ("vector(x)", "x", 1, all),
        ("matrix(1, n)*x", "x", 1, all),
        ("exp", "x", 1, all),
        ("exp(x, x)", "x", 1, all),
        ("2x", "x", 1, all),
        ("A(x)", "x", 1, all),
        ("(A*x", "x", 1, all),
        ("A*x)", "x", 1, all),
        ("A*", "x", 1, all),
        ("A x", "x", 1, all),
        ("x $ y", "x", 1, all),
        ("A*x", "x", 2, all),
        ("x'*x", "x", 3, all),
        ("x'*x", "z", 1, all),
        ("x'*x", "y", 1, all),
        ("x'*x", "x", 1, "x: n, n=200000000"),
        ("norm2(x*x')^2", "x", 1, "x: n, n=20000"),
        ("x'*x", "x", 1, "x: n n=3"),
        ("x'*x", "x", 1, "x"),
        ("x'*x", "x", 1, "x: n, x: n"),
        ("x'*x", "x", 1, "x: n, n=0"),
        ("x'*x", "x", 1, "x: n, n=3, n=4"),
        ("x'*x", "x", 1, "sum: n"),
        ("x'*x", "x", 1, "2x: n"),
        ("x'*x", "x", 1, "x: n, n: n"),
        ("x'*x", "x", 1, "n: m, x: n"),
        ("x'*x", "x", 1, "x: n, x=3"),
        ("sum(vector(1, q))*t", "t", 1, all),
    ];
    let answers = asked.map(|(source, wrt, order, declared)| {
        let question = Question::new(source, wrt).declare(declared).map_err(|error| error.to_string());
        let answer = question.and_then(|question| derive(&question.order(order)).map_err(|error| error.to_string()));
        let answer = answer.map_or_else(|error| error, |derived| format!("accepted: {}", derived.einstein));
        format!("{source:?} by {wrt}, order {order}\n{answer}")
    });
    insta::assert_snapshot!(answers.join("\n\n"));
}

/// Nothing that is typed makes the parser panic, and what is refused is underlined inside of the text.
mod hostile {
    use super::cases::random_cases;
    use glassgrad::lang::MAXIMUM_LENGTH;
    use glassgrad::lang::matrix::{Declarations, MAXIMUM_HEIGHT, MAXIMUM_NESTING, parse};
    use proptest::prelude::*;

    fn declared() -> Declarations {
        Declarations::read("A: m n, X: n n, x: n, y: m, t:, T: n n n").expect("declarations")
    }

    proptest! {
        #![proptest_config(random_cases(2000))]

        #[test]
        fn any_text_is_read_or_refused(source in "\\PC{0,60}") {
            let _ = parse(&source, &declared()).map_err(|error| error.to_string());
            let _ = Declarations::read(&source).map_err(|error| error.to_string());
            let mut one = Declarations::default();
            let _ = one.extend_shape(&source).map_err(|error| error.to_string());
        }

        #[test]
        fn any_words_of_the_language_are_read_or_refused(words in prop::collection::vec(
            prop::sample::select(vec![
                "A", "X", "x", "y", "t", "T", "n", "+", "-", "*", ".*", "./", "/", "^", ".^", "'", "(", ")", ",", "2", "0.5",
                "sum(", "tr(", "inv(", "det(", "logdet(", "norm2(", "diag(", "exp(", "max(", "vector(1", "eye", "eye(n)",
                "einsum(", "\"ij,j->i\"", "\"ii->\"", "where(", ">", "leaky_relu(", "matrix(1, m, n)", "pi",
            ]),
            1..16,
        )) {
            let source = words.join(" ");
            match parse(&source, &declared()) {
                // What was read has a shape.
                Ok(expression) => prop_assert!(!expression.shape().to_string().contains('?')),
                Err(error) => {
                    prop_assert!(error.span.start <= error.span.end && error.span.end <= source.len());
                    prop_assert!(error.to_string().contains('^'));
                }
            }
        }
    }

    #[test]
    fn depth_and_length_have_limits() {
        let declared = declared();
        let nested = |open: &str, close: &str, depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
        for (open, close) in [("(", ")"), ("sin(", ")"), ("-", ""), ("2*(", ")")] {
            assert!(parse(&nested(open, close, MAXIMUM_NESTING - 1), &declared).is_ok(), "{open}");
            for depth in [MAXIMUM_NESTING + 1, 5000] {
                let error = parse(&nested(open, close, depth), &declared).expect_err("too deep");
                assert!(error.message.contains("nested more than"), "{open}: {}", error.message);
            }
        }
        let tall = format!("x{}", "+x".repeat(MAXIMUM_HEIGHT));
        assert!(parse(&tall, &declared).expect_err("too tall").message.contains("on top of each other"));
        let transposed = format!("X{}", "'".repeat(5000));
        assert!(parse(&transposed, &declared).is_err());
        assert!(parse(&"x+".repeat(MAXIMUM_LENGTH), &declared).expect_err("too long").to_string().len() < 500);
    }
}

/// What the calculator writes in matrix notation, it reads.
#[test]
fn sizes_and_constants_are_inferred_where_they_are_used() {
    let question = |source: &str| Question::new(source, "x").declare("A: m n, x: n").expect("declared");
    let matrix = |source: &str| derive(&question(source)).expect("an answer").matrix.expect("a matrix notation");
    assert_eq!(matrix("vector(1)'*A*x"), "A'*vector(1, m)");
    assert_eq!(matrix("x'*(eye + A'*A)*x/n"), "((eye(n) + A'*A)'*x + (eye(n) + A'*A)*x)/n");
    assert_eq!(matrix("sum(x)"), "vector(1, n)");
    assert_eq!(matrix("x'*matrix(2)*x"), "4*sum(x)*vector(1, n)");
}

#[test]
fn a_transpose_can_be_written_as_it_is_printed() {
    let asked = |text: &str, sizes: &str| {
        let question = Question::new(text, "x").declare(sizes).unwrap_or_else(|error| panic!("{error}"));
        derive(&question).unwrap_or_else(|error| panic!("{error}")).einstein
    };
    assert_eq!(asked("x^T*A^T*x", "A: n n, x: n"), asked("x'*A'*x", "A: n n, x: n"));
    // Where T is a symbol it is an exponent.
    assert!(asked("t^T*x", "t:, T:, x:").contains("T"), "{}", asked("t^T*x", "t:, T:, x:"));
}

#[test]
fn what_has_no_matrix_notation_is_written_with_indices() {
    let question =
        Question::new("einsum(\"ijk,i,j,k->\", T, x, x, x)", "x").declare("T: n n n, x: n").expect("declared");
    let derived = derive(&question).expect("an answer");
    assert_eq!(derived.matrix, None);
    assert_eq!(derived.einstein, "T_ijk x_j x_k + T_jik x_j x_k + T_jki x_j x_k");
    assert!(derived.latex.starts_with("T_{ijk}"), "{}", derived.latex);
}

/// Large derivatives stay compressed, and nothing of the size of the dense array is made.
#[test]
fn large_sizes_are_answered_from_what_is_held() {
    let question = Question::new("norm2(T - U*V')^2", "U")
        .declare("T: n n, U: n k, V: n k, n=300, k=10")
        .expect("declared")
        .order(2)
        .limit(2_000_000);
    let derived = derive(&question).expect("an answer");
    assert_eq!((derived.held_bytes, derived.dense_bytes), (8 * 10 * 10, 8 * 3000 * 3000));
    assert_eq!(derived.structure.to_string(), "10×10 ⊗ I of 300");
    assert_eq!(derived.held, [("V_ki V_kj".to_owned(), vec![10, 10])]);
}

/// Random expressions of every shape, by a generator that only makes what fits.
mod random {
    use glassgrad::calculator::{Question, derive};
    use glassgrad::rng::Key;

    struct Generator {
        key: Key,
        drawn: u64,
    }

    impl Generator {
        fn pick(&mut self, count: usize) -> usize {
            self.drawn += 1;
            (self.key.uniform(self.drawn) * count as f64) as usize % count
        }

        /// A number.
        fn number(&mut self, depth: usize) -> String {
            if depth == 0 {
                return ["t", "x'*x", "2", "a'*x", "sum(y)", "n"][self.pick(6)].to_owned();
            }
            let d = depth - 1;
            match self.pick(9) {
                0 => format!("({} + {})", self.number(d), self.number(d)),
                1 => format!("{}*({})", self.number(d), self.number(d)),
                2 => format!("({})'*({})", self.vector(d), self.vector(d)),
                3 => format!("sum({})", self.vector(d)),
                4 => format!("tr({})", self.square(d)),
                5 => format!("norm2({})^2", self.vector(d)),
                6 => format!("tanh({})", self.number(d)),
                7 => format!("sum({})", self.matrix(d)),
                _ => format!("({})'*({})*({})", self.vector(d), self.square(d), self.vector(d)),
            }
        }

        /// A vector of n.
        fn vector(&mut self, depth: usize) -> String {
            if depth == 0 {
                return ["x", "a", "vector(1, n)", "A'*y"][self.pick(4)].to_owned();
            }
            let d = depth - 1;
            match self.pick(9) {
                0 => format!("({} - {})", self.vector(d), self.vector(d)),
                1 => format!("({}).*({})", self.vector(d), self.vector(d)),
                2 => format!("({})*({})", self.square(d), self.vector(d)),
                3 => format!("({})*({})", self.number(d), self.vector(d)),
                4 => format!("sin({})", self.vector(d)),
                5 => format!("diag({})", self.square(d)),
                6 => format!("({})'*y", self.matrix(d)),
                7 => format!("({})./(2 + ({}).^2)", self.vector(d), self.vector(d)),
                _ => format!("({} + {})", self.vector(d), self.number(d)),
            }
        }

        /// A matrix of n×n.
        fn square(&mut self, depth: usize) -> String {
            if depth == 0 {
                return ["X", "X'", "eye(n)", "x*a'", "A'*A"][self.pick(5)].to_owned();
            }
            let d = depth - 1;
            match self.pick(6) {
                0 => format!("({} + {})", self.square(d), self.square(d)),
                1 => format!("({})*({})", self.square(d), self.square(d)),
                2 => format!("({})'*({})", self.matrix(d), self.matrix(d)),
                3 => format!("diag({})", self.vector(d)),
                4 => format!("({})*({})'", self.vector(d), self.vector(d)),
                _ => format!("({})'.*({})", self.square(d), self.square(d)),
            }
        }

        /// A matrix of m×n.
        fn matrix(&mut self, depth: usize) -> String {
            if depth == 0 {
                return ["A", "y*x'", "matrix(1, m, n)"][self.pick(3)].to_owned();
            }
            let d = depth - 1;
            match self.pick(4) {
                0 => format!("({})*({})", self.matrix(d), self.square(d)),
                1 => format!("({}).*({})", self.matrix(d), self.matrix(d)),
                2 => format!("exp(-({}).^2)", self.matrix(d)),
                _ => format!("({} - {})", self.matrix(d), self.matrix(d)),
            }
        }
    }

    #[test]
    fn every_answer_agrees_with_numbers() {
        let (mut answered, mut with_matrix) = (0, 0);
        for seed in 0..120 {
            let mut generator = Generator { key: Key::new(seed), drawn: 0 };
            let (order, depth) = (1 + seed as usize % 2, 2 + seed as usize % 5 / 4);
            let source = match seed % 3 {
                0 => generator.vector(depth),
                _ => generator.number(depth),
            };
            let wrt = ["x", "X", "A", "y"][generator.pick(4)];
            let order = if seed % 3 == 0 { 1 } else { order };
            if !source.split(|c: char| !c.is_alphanumeric()).any(|word| word == wrt) {
                continue;
            }
            let declared = "A: m n, X: n n, x: n, a: n, y: m, t:, m=4, n=3";
            let question = Question::new(&source, wrt).declare(declared).expect("declared").order(order);
            let derived = match derive(&question) {
                Ok(derived) => derived,
                // What is too long to be written out says so.
                Err(error) => {
                    assert!(error.to_string().contains("when it is written out"), "{source} by {wrt}: {error}");
                    continue;
                }
            };
            let what = format!("order {order} of {source} by {wrt}: {:?}", derived.matrix);
            assert!(derived.agreement.finite_differences < 1e-6, "{what}: {:?}", derived.agreement);
            assert!(derived.agreement.nested < 1e-11, "{what}: {:?}", derived.agreement);
            assert!(derived.agreement.matrix.unwrap_or(0.0) < 1e-10, "{what}: {:?}", derived.agreement);
            assert!(derived.steps.iter().all(|step| step.deviation < 1e-10), "{what}: {:#?}", derived.steps);
            answered += 1;
            with_matrix += usize::from(derived.matrix.is_some());
        }
        assert!(answered > 50 && with_matrix > 40, "{answered} answered, {with_matrix} with a matrix notation");
    }
}

#[test]
fn a_step_that_is_exactly_zero_agrees_with_its_rounding_errors() {
    for (source, order) in [
        ("sum((x-sum(x)/n).^2)/n", 1),
        ("sum((x-sum(x)/n).^2)/n", 2),
        ("sum(x - sum(x)/n)", 1),
        ("sum((x-sum(x)/n).^3)", 2),
    ] {
        let question = Question::new(source, "x").declare("x: n").unwrap().order(order);
        let derived = derive(&question).unwrap();
        let steps = derived.steps.iter().map(|step| step.deviation).fold(0.0, f64::max);
        let agreement = derived.agreement;
        assert!(steps < 1e-12 && agreement.nested < 1e-12, "{source}: {steps:e}, {agreement:?}");
        assert!(agreement.matrix.is_none_or(|own| own < 1e-12), "{source}: {agreement:?}");
    }
}

#[test]
fn numbers_in_front_of_vectors_stand_in_parentheses() {
    let question = Question::new("(x'*A*x)^2", "x").declare("x: n, A: n n").unwrap();
    let latex = derive(&question).unwrap().latex;
    assert!(!latex.contains("x x") && !latex.contains("x A"), "{latex}");
    let question = Question::new("(x'*A*x)*x", "x").declare("x: n, A: n n").unwrap();
    let latex = derive(&question).unwrap().latex;
    assert!(!latex.contains("A^\\top x x"), "{latex}");
}
