//! Element by element: every row of the table of operations, arithmetic, comparisons, logic, choices, casts.

use std::sync::OnceLock;

use glassgrad::dtype::DType;
use glassgrad::ops::{Binary, Relation, Row, Unary, Visitor, visit};
use glassgrad::{Operation as RowOperation, Tensor};

use super::super::builder::{Builder, Draft, Entry};
use super::Operation;

/// A row of the table, with what makes it tame.
#[derive(Clone, Debug)]
pub struct RowEntry {
    /// The operation.
    pub operation: RowOperation,
    /// Its parameter, or 0.
    pub parameter: f64,
    /// Centre and radius of the domain of each argument.
    pub domain: Vec<(f64, f64)>,
    /// The largest of the values and derivatives on the domain, at least 1.
    pub scale: f64,
    /// Whether the sign of a zero matters, which executors are free to choose.
    pub sees_zeros: bool,
}

/// All rows of the table.
pub fn rows() -> &'static [RowEntry] {
    struct Collect(Vec<RowEntry>);
    impl Collect {
        fn add(&mut self, row: &Row) {
            let parameter = row.parameter.map_or(0.0, |parameter| parameter.default);
            let value = |at: f64| -> f64 {
                // Along the diagonal of the domain, so that one number samples all arguments.
                let x: Vec<f64> = row.domain.iter().map(|range| range.start + at * (range.end - range.start)).collect();
                let value = match &x[..] {
                    [x] => row.operation.apply_unary(*x, parameter),
                    [a, b] => row.operation.apply_binary(*a, *b),
                    _ => None,
                };
                value.unwrap_or(0.0)
            };
            let scale = (1..100).fold(1.0_f64, |scale, k| {
                let at = f64::from(k) / 100.0;
                scale.max(value(at).abs()).max((0.5e4 * (value(at + 1e-4) - value(at))).abs())
            });
            let zeros = [0.0, -0.0].map(|zero: f64| match row.domain.len() {
                1 => [row.operation.apply_unary(zero, parameter), None, None],
                _ => [(1.0, zero), (zero, -1.0), (zero, zero)].map(|(a, b)| row.operation.apply_binary(a, b)),
            });
            let sees_zeros = zeros[0].iter().zip(&zeros[1]).any(|(a, b)| a != b);
            let domain =
                row.domain.iter().map(|range| (0.5 * (range.start + range.end), 0.475 * (range.end - range.start)));
            self.0.push(RowEntry { operation: row.operation, parameter, domain: domain.collect(), scale, sees_zeros });
        }
    }
    impl Visitor for Collect {
        fn unary<R: Unary>(&mut self, row: &Row) {
            self.add(row);
        }
        fn binary<R: Binary>(&mut self, row: &Row) {
            self.add(row);
        }
    }
    static ROWS: OnceLock<Vec<RowEntry>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut collect = Collect(Vec::new());
        visit(&mut collect);
        collect.0
    })
}

/// Two numbers of one type whose shapes broadcast.
fn pair(builder: &mut Builder, is_fit: fn(&Entry) -> bool) -> Option<(Entry, Entry)> {
    let a = builder.pick(is_fit)?;
    let b = match builder.random.chance(0.8) {
        true => builder.pick(|entry| entry.dtype == a.dtype && broadcast(&a.shape, &entry.shape)),
        false => builder.shaped(a.dtype, &a.shape),
    };
    Some((a, b?))
}

/// Whether two shapes broadcast.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> bool {
    a.iter().rev().zip(b.iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1)
}

fn is_number(entry: &Entry) -> bool {
    entry.dtype != DType::Bool
}

fn is_bool(entry: &Entry) -> bool {
    entry.dtype == DType::Bool
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "constant",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let dtype = *builder.random.choose(&[DType::F32, DType::F64, DType::F64, DType::I64, DType::Bool]);
            let shape = builder.shape();
            let data = builder.data(dtype, &shape);
            let bound = if builder.is_special { f64::INFINITY } else { 2.0 };
            Some(Draft::new("constant", &[]).data(data).bound(bound))
        },
        apply: |call| {
            let data = call.instruction.data.as_ref().expect("a constant has data");
            vec![data.tensor(call.interpreter.mode.as_f64)]
        },
    },
    Operation {
        name: "full",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let (shape, value) = (builder.shape(), builder.random.between(-2, 2) as f64);
            let kind = builder.random.between(0, 2);
            Some(
                Draft::new("full", &[])
                    .integers([kind].into_iter().chain(shape.iter().map(|size| *size as i64)))
                    .reals([value])
                    .bound(2.0),
            )
        },
        apply: |call| {
            let dtype = [DType::F32, DType::F64, DType::I64][call.size(0).min(2)];
            vec![Tensor::full(&call.sizes()[1..], call.real(0), call.interpreter.dtype(dtype))]
        },
    },
    // A row of the table. With more than one real number, the arguments are mapped into the domain and the result is scaled.
    Operation {
        name: "row",
        weight: 60,
        rounds: true,
        generate: |builder| {
            let row = builder.random.choose(rows()).clone();
            let (a, b) = match row.domain.len() {
                1 => (builder.float()?, None),
                _ => {
                    let (a, b) = pair(builder, Entry::is_float)?;
                    (a, Some(b))
                }
            };
            let operands: Vec<&Entry> = [Some(&a), b.as_ref()].into_iter().flatten().collect();
            let draft = Draft::new("row", &operands).text(row.operation.name());
            if builder.random.chance(0.05) && !row.sees_zeros {
                return Some(draft.reals([row.parameter]).bound(f64::INFINITY));
            }
            let domain = row.domain.iter().flat_map(|(centre, radius)| [*centre, *radius]);
            Some(draft.reals([row.parameter, 1.0 / row.scale].into_iter().chain(domain)).bound(1.5))
        },
        apply: |call| {
            let row = rows().iter().find(|row| row.operation.name() == call.instruction.text);
            let operation = row.expect("a row of the table").operation;
            let reals = &call.instruction.reals;
            if reals.len() < 2 + 2 * call.operands.len() {
                return vec![Tensor::apply(operation, reals[0], &call.operands.iter().collect::<Vec<_>>())];
            }
            let inside: Vec<Tensor> = call
                .operands
                .iter()
                .zip(reals[2..].chunks(2))
                .map(|(x, domain)| x.tanh() * domain[1] + domain[0])
                .collect();
            vec![Tensor::apply(operation, reals[0], &inside.iter().collect::<Vec<_>>()) * reals[1]]
        },
    },
    Operation {
        name: "squash",
        weight: 0,
        rounds: true,
        generate: |_| None,
        apply: |call| vec![(call.x() * call.real(0)).tanh()],
    },
    Operation {
        name: "add",
        weight: 8,
        rounds: true,
        generate: |builder| {
            let (a, b) = pair(builder, is_number)?;
            let bound = a.bound + b.bound;
            Some(Draft::new("add", &[&a, &b]).bound(bound))
        },
        apply: |call| vec![call.x() + call.y()],
    },
    Operation {
        name: "sub",
        weight: 6,
        rounds: true,
        generate: |builder| {
            let (a, b) = pair(builder, is_number)?;
            let bound = a.bound + b.bound;
            Some(Draft::new("sub", &[&a, &b]).bound(bound))
        },
        apply: |call| vec![call.x() - call.y()],
    },
    Operation {
        name: "mul",
        weight: 8,
        rounds: true,
        generate: |builder| {
            let (a, b) = pair(builder, is_number)?;
            let bound = a.bound * b.bound;
            Some(Draft::new("mul", &[&a, &b]).bound(bound))
        },
        apply: |call| vec![call.x() * call.y()],
    },
    Operation {
        name: "div",
        weight: 3,
        rounds: true,
        generate: |builder| {
            let (a, b) = pair(builder, Entry::is_float)?;
            Some(Draft::new("div", &[&a, &b]))
        },
        apply: |call| vec![call.x() / (call.y().square() + 1.0)],
    },
    // Multiplication with a number and addition of one, where the numbers are often neutral.
    Operation {
        name: "affine",
        weight: 5,
        rounds: true,
        generate: |builder| {
            let x = builder.number()?;
            let factor = *builder.random.choose(&[0.0, 1.0, -1.0, 2.0, 3.0]);
            let term = *builder.random.choose(&[0.0, 1.0, -1.0, 2.0]);
            let bound = 3.0 * x.bound + 2.0;
            Some(Draft::new("affine", &[&x]).reals([factor, term]).bound(bound))
        },
        apply: |call| match call.x().dtype() {
            // Bytes have no negative literals.
            dtype @ (DType::I64 | DType::I32 | DType::U8) => {
                let [factor, term] = [0, 1].map(|k| Tensor::from(call.real(k) as i64).cast(dtype));
                vec![call.x() * factor + term]
            }
            _ => vec![call.x() * call.real(0) + call.real(1)],
        },
    },
    Operation {
        name: "neg",
        weight: 2,
        rounds: false,
        generate: |builder| Some(Draft::new("neg", &[&builder.number()?])),
        apply: |call| vec![-call.x()],
    },
    Operation {
        name: "compare",
        weight: 8,
        rounds: false,
        generate: |builder| {
            let (a, b) = pair(builder, |_| true)?;
            let relation = builder.random.below(Relation::ALL.len()) as i64;
            Some(Draft::new("compare", &[&a, &b]).integers([relation]))
        },
        apply: |call| vec![call.x().compare(Relation::ALL[call.size(0).min(5)], call.y())],
    },
    Operation {
        name: "logic",
        weight: 4,
        rounds: false,
        generate: |builder| {
            let (a, b) = pair(builder, is_bool)?;
            let kind = builder.random.between(0, 2);
            Some(Draft::new("logic", &[&a, &b]).integers([kind]))
        },
        apply: |call| match call.integer(0) {
            0 => vec![call.x().and(call.y())],
            1 => vec![call.x().or(call.y())],
            _ => vec![call.x().not().and(call.y())],
        },
    },
    Operation {
        name: "choose",
        weight: 6,
        rounds: false,
        generate: |builder| {
            let (a, b) = pair(builder, |_| true)?;
            let condition = builder.pick(|entry| {
                entry.dtype == DType::Bool && broadcast(&entry.shape, &a.shape) && broadcast(&entry.shape, &b.shape)
            })?;
            Some(Draft::new("choose", &[&condition, &a, &b]))
        },
        apply: |call| vec![call.x().choose(call.y(), &call.operands[2])],
    },
    Operation {
        name: "cast",
        weight: 5,
        rounds: true,
        generate: |builder| {
            let x = builder.any()?;
            let kind = builder.random.between(0, 5);
            let bound = if x.dtype == DType::Bool { 1.0 } else { x.bound };
            // Negative numbers wrap to bytes.
            let bound = if kind == 5 { 255.0 } else { bound };
            Some(Draft::new("cast", &[&x]).integers([kind]).bound(bound))
        },
        apply: |call| {
            let types = [DType::F32, DType::F64, DType::I64, DType::Bool, DType::I32, DType::U8];
            let dtype = types[call.size(0).min(5)];
            vec![call.x().cast(call.interpreter.dtype(dtype))]
        },
    },
    Operation {
        name: "is",
        weight: 1,
        rounds: false,
        generate: |builder| {
            let kind = builder.random.between(0, 2);
            Some(Draft::new("is", &[&builder.float()?]).integers([kind]))
        },
        apply: |call| match call.integer(0) {
            0 => vec![call.x().is_nan()],
            1 => vec![call.x().is_finite()],
            _ => vec![call.x().is_infinite()],
        },
    },
    Operation {
        name: "clip",
        weight: 2,
        rounds: false,
        generate: |builder| Some(Draft::new("clip", &[&builder.float()?]).reals([-0.5, 1.0]).bound(1.0)),
        apply: |call| vec![call.x().clip(call.real(0), call.real(1))],
    },
    Operation {
        name: "stop_gradient",
        weight: 1,
        rounds: false,
        generate: |builder| Some(Draft::new("stop_gradient", &[&builder.any()?])),
        apply: |call| match call.interpreter.mode.ignores_stops {
            true => vec![call.x().clone()],
            false => vec![call.x().stop_gradient()],
        },
    },
];
