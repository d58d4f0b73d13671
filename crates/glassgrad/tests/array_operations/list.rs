//! The list of array operations: each as a function of tensors, with the shapes of its arguments and its definition
//! in plain loops.

use glassgrad::Tensor;
use glassgrad::expr::{Axes, s};
use glassgrad::operations::{Complex, Interpolation};
use glassgrad::rng::Key;

// ------------------------------------------------------------------ arrays without any cleverness

/// An array as its shape and its elements, for definitions.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Vec<f64>,
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |indices, size| {
        indices.iter().flat_map(|index| (0..*size).map(move |k| [&index[..], &[k]].concat())).collect()
    })
}

impl Plain {
    fn of(shape: &[usize], element: impl Fn(&[usize]) -> f64) -> Plain {
        Plain { shape: shape.to_vec(), elements: indices(shape).iter().map(|index| element(index)).collect() }
    }

    fn at(&self, index: &[usize]) -> f64 {
        let place = index.iter().zip(&self.shape).fold(0, |place, (k, size)| place * size + k);
        self.elements[place]
    }

    pub(crate) fn map(&self, function: impl Fn(f64) -> f64) -> Plain {
        Plain { shape: self.shape.clone(), elements: self.elements.iter().map(|x| function(*x)).collect() }
    }

    pub(crate) fn tensor(&self) -> Tensor {
        Tensor::new(&self.elements, &self.shape[..])
    }

    /// The lines along an axis, each under the function, which may change their length.
    fn lines(&self, axis: usize, function: impl Fn(&[f64]) -> Vec<f64>) -> Plain {
        let line = |index: &[usize]| -> Vec<f64> {
            let place = |k: usize| [&index[..axis], &[k], &index[axis + 1..]].concat();
            function(&(0..self.shape[axis]).map(|k| self.at(&place(k))).collect::<Vec<_>>())
        };
        let mut shape = self.shape.clone();
        shape[axis] = function(&vec![1.0; self.shape[axis]]).len();
        Plain::of(&shape, |index| line(index)[index[axis]])
    }

    /// Without an axis of size 1.
    fn without(mut self, axis: usize) -> Plain {
        self.shape.remove(axis);
        self
    }
}

fn sorted(line: &[f64]) -> Vec<f64> {
    let mut line = line.to_vec();
    line.sort_by(f64::total_cmp);
    line
}

fn quantile(line: &[f64], q: f64) -> f64 {
    let (sorted, place) = (sorted(line), q * (line.len() - 1) as f64);
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// Complex numbers from their two parts, under a function of each.
fn complex_map(x: &[Plain], function: impl Fn(num_complex::Complex64) -> num_complex::Complex64) -> Plain {
    let results: Vec<num_complex::Complex64> = x[0]
        .elements
        .iter()
        .zip(&x[1].elements)
        .map(|(re, im)| function(num_complex::Complex64::new(*re, *im)))
        .collect();
    let elements = results.iter().map(|z| z.re).chain(results.iter().map(|z| z.im)).collect();
    Plain { shape: [&[2], &x[0].shape[..]].concat(), elements }
}

/// Complex tensors as one real tensor, the real parts first.
pub(crate) fn packed(z: &Complex) -> Tensor {
    Tensor::stack([&z.re, &z.im], 0)
}

fn complex(x: &[Tensor]) -> Complex {
    Complex::new(x[0].clone(), x[1].clone())
}

// ------------------------------------------------------------------ the list

pub(crate) type Shapes = &'static [&'static [usize]];

/// An operation with what is needed to judge it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) shapes: Shapes,
    pub(crate) function: fn(&[Tensor]) -> Tensor,
    pub(crate) definition: fn(&[Plain]) -> Plain,
    /// Shapes with empty axes for which the definition holds too.
    pub(crate) empty: Shapes,
    /// Whether it takes integers.
    pub(crate) integers: bool,
}

fn subject(
    name: &'static str,
    shapes: Shapes,
    function: fn(&[Tensor]) -> Tensor,
    definition: fn(&[Plain]) -> Plain,
) -> Subject {
    Subject { name, shapes, function, definition, empty: &[], integers: false }
}

impl Subject {
    fn empty(self, empty: Shapes) -> Subject {
        Subject { empty, ..self }
    }

    fn integers(self) -> Subject {
        Subject { integers: true, ..self }
    }
}

pub(crate) fn subjects() -> Vec<Subject> {
    let mut all = products_and_order();
    all.extend(indexing());
    all.extend(layout());
    all.extend(interpolation());
    all.extend(complex_numbers());
    #[cfg(feature = "fft")]
    all.extend(fourier());
    all
}

fn products_and_order() -> Vec<Subject> {
    vec![
        subject("prod", &[&[2, 3]], |x| x[0].prod(), |x| Plain::of(&[], |_| x[0].elements.iter().product()))
            .empty(&[&[0, 3]])
            .integers(),
        subject("prod of a number", &[&[]], |x| x[0].prod(), |x| x[0].clone()).integers(),
        subject(
            "prod over the first axis",
            &[&[5, 2]],
            |x| x[0].prod_over(0),
            |x| x[0].lines(0, |line| vec![line.iter().product()]).without(0),
        )
        .empty(&[&[0, 2]])
        .integers(),
        subject(
            "prod over outer axes, kept",
            &[&[2, 2, 3]],
            |x| x[0].prod_over(Axes::from([0, -1]).keep()),
            |x| {
                let product = |line: &[f64]| vec![line.iter().product()];
                x[0].lines(0, product).lines(2, product)
            },
        )
        .empty(&[&[2, 0, 3]]),
        subject(
            "cumprod",
            &[&[2, 7]],
            |x| x[0].cumprod(-1),
            |x| x[0].lines(1, |line| (0..line.len()).map(|k| line[..=k].iter().product()).collect()),
        )
        .empty(&[&[2, 0]])
        .integers(),
        subject("sort the first axis", &[&[4, 3]], |x| x[0].sort(0), |x| x[0].lines(0, sorted))
            .empty(&[&[0, 3]])
            .integers(),
        subject("sort the last axis", &[&[2, 5]], |x| x[0].sort(-1), |x| x[0].lines(1, sorted)).integers(),
        subject(
            "sort descending",
            &[&[6]],
            |x| x[0].sort(0).flip([0]),
            |x| x[0].lines(0, |line| sorted(line).into_iter().rev().collect()),
        ),
        subject(
            "top_k",
            &[&[4, 3]],
            |x| x[0].top_k(2, 0).0,
            |x| x[0].lines(0, |line| sorted(line).into_iter().rev().take(2).collect()),
        )
        .empty(&[&[4, 0]])
        .integers(),
        subject(
            "median of an even count",
            &[&[2, 3]],
            |x| x[0].median(),
            |x| Plain::of(&[], |_| quantile(&x[0].elements, 0.5)),
        ),
        subject(
            "median of an odd count",
            &[&[5]],
            |x| x[0].median(),
            |x| Plain::of(&[], |_| sorted(&x[0].elements)[2]),
        ),
        subject(
            "median over an axis",
            &[&[4, 3]],
            |x| x[0].median_over(0),
            |x| x[0].lines(0, |line| vec![quantile(line, 0.5)]).without(0),
        )
        .empty(&[&[4, 0]]),
        subject(
            "quantile",
            &[&[2, 7]],
            |x| x[0].quantile(0.3, 1),
            |x| x[0].lines(1, |line| vec![quantile(line, 0.3)]).without(1),
        ),
        subject("clip", &[&[6]], |x| x[0].clip(-0.61, 0.57), |x| x[0].map(|x| x.clamp(-0.61, 0.57))).empty(&[&[0]]),
    ]
}

fn indexing() -> Vec<Subject> {
    fn columns() -> Tensor {
        Tensor::from([[3_i64, 0], [-1, 1]])
    }
    fn column(row: usize, k: usize) -> usize {
        [[3, 0], [3, 1]][row][k]
    }
    vec![
        subject(
            "take_along",
            &[&[2, 4]],
            |x| x[0].take_along(&columns(), 1),
            |x| Plain::of(&[2, 2], |i| x[0].at(&[i[0], column(i[0], i[1])])),
        )
        .integers(),
        subject(
            "take_along the first axis, broadcast",
            &[&[3, 2]],
            |x| x[0].take_along(&Tensor::from([[2_i64], [-3]]), 0),
            |x| Plain::of(&[2, x[0].shape[1]], |i| x[0].at(&[[2, 0][i[0]], i[1]])),
        )
        .empty(&[&[3, 0]])
        .integers(),
        subject(
            "put_along",
            &[&[2, 4], &[2, 1]],
            |x| x[0].put_along(&columns(), &x[1], 1),
            |x| {
                Plain::of(&[2, 4], |i| match (0..2).any(|k| column(i[0], k) == i[1]) {
                    true => x[1].at(&[i[0], 0]),
                    false => x[0].at(i),
                })
            },
        )
        .integers(),
        subject(
            "add_along",
            &[&[3, 2], &[2, 2]],
            |x| x[0].add_along(&Tensor::from([[2_i64, 1], [2, 0]]), &x[1], 0),
            |x| {
                let named = [[2, 1], [2, 0]];
                let added = |i: &[usize]| -> f64 {
                    (0..2).filter(|k| named[*k][i[1]] == i[0]).map(|k| x[1].at(&[k, i[1]])).sum()
                };
                Plain::of(&[3, 2], |i| x[0].at(i) + added(i))
            },
        )
        .integers(),
        subject(
            "index_at both axes",
            &[&[2, 3]],
            |x| x[0].index_at(&[&Tensor::from([[0_i64], [1]]), &Tensor::from([2_i64, -3, 2])]),
            |x| Plain::of(&[2, 3], |i| x[0].at(&[i[0], [2, 0, 2][i[1]]])),
        )
        .integers(),
        subject(
            "index_at the first axis",
            &[&[3, 2]],
            |x| x[0].index_at(&[&Tensor::from(-1_i64)]),
            |x| Plain::of(&x[0].shape[1..], |i| x[0].at(&[2, i[0]])),
        )
        .empty(&[&[3, 0]]),
        subject(
            "with_at, a place named twice",
            &[&[3, 2], &[3]],
            |x| {
                let (rows, columns) = (Tensor::from([2_i64, 0, 2]), Tensor::from([1_i64, 0, -1]));
                x[0].with_at(&[&rows, &columns], &x[1])
            },
            |x| {
                Plain::of(&[3, 2], |i| match i {
                    [2, 1] => x[1].at(&[2]),
                    [0, 0] => x[1].at(&[1]),
                    _ => x[0].at(i),
                })
            },
        )
        .integers(),
        subject(
            "with_at rows",
            &[&[3, 2], &[2]],
            |x| x[0].with_at(&[&Tensor::from([2_i64, 0])], &x[1]),
            |x| Plain::of(&x[0].shape, |i| if i[0] == 1 { x[0].at(i) } else { x[1].at(&i[1..]) }),
        )
        .empty(&[&[3, 0], &[0]])
        .integers(),
        subject(
            "add_at, a place named twice",
            &[&[4], &[3]],
            |x| x[0].add_at(&[&Tensor::from([1_i64, -1, 1])], &x[1]),
            |x| {
                let added = [0.0, x[1].elements[0] + x[1].elements[2], 0.0, x[1].elements[1]];
                Plain::of(&[4], |i| x[0].at(i) + added[i[0]])
            },
        )
        .integers(),
        subject(
            "embedding",
            &[&[3, 2]],
            |x| x[0].embedding(&Tensor::from([[0_i64, 2], [2, 2]])),
            |x| Plain::of(&[2, 2, 2], |i| x[0].at(&[[[0, 2], [2, 2]][i[0]][i[1]], i[2]])),
        )
        .integers(),
        subject(
            "masked",
            &[&[3, 2]],
            |x| x[0].masked(&Tensor::from([true, false, true])),
            |x| Plain::of(&[2, x[0].shape[1]], |i| x[0].at(&[2 * i[0], i[1]])),
        )
        .empty(&[&[3, 0]])
        .integers(),
    ]
}

fn layout() -> Vec<Subject> {
    vec![
        subject("flatten", &[&[2, 3]], |x| x[0].flatten(), |x| Plain::of(&[6], |i| x[0].elements[i[0]])).integers(),
        subject(
            "squeeze and unsqueeze",
            &[&[2, 1, 3]],
            |x| x[0].squeeze(1).unsqueeze(-1),
            |x| Plain::of(&[2, 3, 1], |i| x[0].at(&[i[0], 0, i[1]])),
        )
        .integers(),
        subject(
            "swap_axes",
            &[&[2, 1, 3]],
            |x| x[0].swap_axes(0, -1),
            |x| Plain::of(&[3, 1, 2], |i| x[0].at(&[i[2], i[1], i[0]])),
        )
        .integers(),
        subject(
            "move_axis",
            &[&[2, 3, 1]],
            |x| x[0].move_axis(0, -1),
            |x| Plain::of(&[3, 1, 2], |i| x[0].at(&[i[2], i[0], i[1]])),
        )
        .integers(),
        subject(
            "split",
            &[&[2, 5]],
            |x| x[0].split(&[1, 0, 3, 1], -1)[2].clone(),
            |x| Plain::of(&[x[0].shape[0], 3], |i| x[0].at(&[i[0], i[1] + 1])),
        )
        .empty(&[&[0, 5]])
        .integers(),
        subject(
            "array_split",
            &[&[5]],
            |x| x[0].array_split(3, 0)[1].clone(),
            |x| Plain::of(&[2], |i| x[0].at(&[i[0] + 2])),
        )
        .integers(),
        subject(
            "diagonal above",
            &[&[2, 3, 4]],
            |x| x[0].diagonal(2),
            |x| Plain::of(&[x[0].shape[0], 2], |i| x[0].at(&[i[0], i[1], i[1] + 2])),
        )
        .empty(&[&[0, 3, 4]])
        .integers(),
        subject(
            "diagonal below",
            &[&[3, 3]],
            |x| x[0].diagonal(-1),
            |x| Plain::of(&[2], |i| x[0].at(&[i[0] + 1, i[0]])),
        )
        .integers(),
        subject(
            "tril",
            &[&[3, 4]],
            |x| x[0].tril(-1),
            |x| Plain::of(&[3, 4], |i| if i[1] < i[0] { x[0].at(i) } else { 0.0 }),
        )
        .integers(),
        subject(
            "triu",
            &[&[2, 3, 2]],
            |x| x[0].triu(0),
            |x| Plain::of(&[2, 3, 2], |i| if i[2] >= i[1] { x[0].at(i) } else { 0.0 }),
        )
        .integers(),
        subject(
            "tile",
            &[&[2, 3]],
            |x| x[0].tile(&[2, 1, 2]),
            |x| Plain::of(&[2, 2, 6], |i| x[0].at(&[i[1], i[2] % 3])),
        )
        .integers(),
        subject("tile by nothing", &[&[3]], |x| x[0].tile(&[0]) + x[0].sum(), |_| Plain::of(&[0], |_| 0.0)),
        subject("repeat", &[&[2, 3]], |x| x[0].repeat(2, 0), |x| Plain::of(&[4, 3], |i| x[0].at(&[i[0] / 2, i[1]])))
            .integers(),
        subject(
            "roll",
            &[&[2, 5]],
            |x| x[0].roll(-7, 1),
            |x| Plain::of(&x[0].shape, |i| x[0].at(&[i[0], (i[1] + 7) % 5])),
        )
        .empty(&[&[0, 5]])
        .integers(),
        subject(
            "diff",
            &[&[2, 4]],
            |x| x[0].diff(-1),
            |x| Plain::of(&[2, 3], |i| x[0].at(&[i[0], i[1] + 1]) - x[0].at(i)),
        )
        .integers(),
        subject(
            "meshgrid",
            &[&[2], &[3]],
            |x| {
                let grid = Tensor::meshgrid([&x[0], &x[1]]);
                &grid[0] * &grid[1]
            },
            |x| Plain::of(&[2, 3], |i| x[0].at(&i[..1]) * x[1].at(&i[1..])),
        )
        .integers(),
        subject(
            "dropout",
            &[&[3, 4]],
            |x| x[0].dropout(Key::new(3), 0.4),
            |x| {
                let kept = |k: usize| Key::new(3).uniform(k as u64) > 0.4;
                Plain::of(&[3, 4], |i| if kept(i[0] * 4 + i[1]) { x[0].at(i) / 0.6 } else { 0.0 })
            },
        ),
        subject(
            "shuffle",
            &[&[2, 4]],
            |x| x[0].shuffle(Key::new(3), 1),
            |x| Plain::of(&[2, 4], |i| x[0].at(&[i[0], Key::new(3).permutation(4)[i[1]]])),
        )
        .integers(),
    ]
}

fn interpolation() -> Vec<Subject> {
    // The arguments move a little around places that are away from knots.
    const PLACES: [f64; 4] = [-0.7, 0.1, 0.8, 2.0];
    const KNOTS: [f64; 4] = [-1.0, -0.3, 0.4, 1.1];
    fn resampled(line: &[f64], places: &[f64]) -> Vec<f64> {
        let at = |place: f64| {
            let place = place.clamp(0.0, (line.len() - 1) as f64);
            let (low, high) = (line[place.floor() as usize], line[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        places.iter().map(|place| at(*place)).collect()
    }
    vec![
        subject(
            "interp",
            &[&[4], &[4], &[4]],
            |x| {
                let near = |k: usize, places: [f64; 4]| &x[k] * 0.05 + Tensor::from(places).cast(x[k].dtype());
                near(0, PLACES).interp(&near(1, KNOTS), &x[2])
            },
            |x| {
                let (place, knot) =
                    (|k: usize| x[0].elements[k] * 0.05 + PLACES[k], |k: usize| x[1].elements[k] * 0.05 + KNOTS[k]);
                Plain::of(&[4], |i| {
                    let (x, y) = (place(i[0]), |k: usize| x[2].elements[k]);
                    match (0..3).find(|k| x < knot(k + 1)) {
                        Some(k) => y(k) + (y(k + 1) - y(k)) * (x - knot(k)) / (knot(k + 1) - knot(k)),
                        None => y(3),
                    }
                })
            },
        ),
        subject(
            "interpolate to the nearest",
            &[&[2, 3]],
            |x| x[0].interpolate(&[3, 5], Interpolation::Nearest),
            |x| Plain::of(&[3, 5], |i| x[0].at(&[i[0] * 2 / 3, i[1] * 3 / 5])),
        )
        .integers(),
        subject(
            "interpolate linearly, corners aligned",
            &[&[2, 2, 3]],
            |x| x[0].interpolate(&[3, 2], Interpolation::Linear { align_corners: true }),
            |x| x[0].lines(1, |line| resampled(line, &[0.0, 0.5, 1.0])).lines(2, |line| resampled(line, &[0.0, 2.0])),
        )
        .empty(&[&[0, 2, 3]]),
        subject(
            "interpolate linearly, cells",
            &[&[2, 4]],
            |x| x[0].interpolate(&[4, 3], Interpolation::Linear { align_corners: false }),
            |x| {
                let places = |old: f64, new: usize| -> Vec<f64> {
                    (0..new).map(|k| (k as f64 + 0.5) * old / new as f64 - 0.5).collect()
                };
                x[0].lines(0, |line| resampled(line, &places(2.0, 4))).lines(1, |line| resampled(line, &places(4.0, 3)))
            },
        ),
    ]
}

fn complex_numbers() -> Vec<Subject> {
    const PAIR: Shapes = &[&[3], &[3]];
    const EMPTY: Shapes = &[&[0], &[0]];
    vec![
        subject(
            "complex product",
            PAIR,
            |x| packed(&(complex(x) * complex(x).conj().exp())),
            |x| complex_map(x, |z| z * z.conj().exp()),
        )
        .empty(EMPTY),
        subject(
            "complex quotient",
            PAIR,
            |x| packed(&(complex(x).cos() / complex(x))),
            |x| complex_map(x, |z| z.cos() / z),
        ),
        subject(
            "complex beside numbers",
            PAIR,
            |x| packed(&(2.0 - (complex(x) * 3.0 + 1.0) / 4.0 + &x[0])),
            |x| complex_map(x, |z| 2.0 - (z * 3.0 + 1.0) / 4.0 + z.re),
        ),
        subject("complex reciprocal", PAIR, |x| packed(&(1.0 / complex(x))), |x| complex_map(x, |z| 1.0 / z)),
        subject("complex ln", PAIR, |x| packed(&complex(x).ln()), |x| complex_map(x, |z| z.ln())),
        subject("complex sqrt", PAIR, |x| packed(&complex(x).sqrt()), |x| complex_map(x, |z| z.sqrt())).empty(EMPTY),
        subject("complex powi", PAIR, |x| packed(&complex(x).powi(5)), |x| complex_map(x, |z| z.powi(5))),
        subject("complex negative powi", PAIR, |x| packed(&complex(x).powi(-2)), |x| complex_map(x, |z| z.powi(-2))),
        subject("complex sin", PAIR, |x| packed(&complex(x).sin()), |x| complex_map(x, |z| z.sin())),
        subject(
            "complex abs",
            PAIR,
            |x| complex(x).abs(),
            |x| Plain::of(&x[0].shape, |i| x[0].at(i).hypot(x[1].at(i))),
        ),
        subject("complex arg", PAIR, |x| complex(x).arg(), |x| Plain::of(&[3], |i| x[1].at(i).atan2(x[0].at(i)))),
        subject(
            "complex from polar",
            PAIR,
            |x| packed(&Complex::from_polar(&x[0], &x[1])),
            |x| complex_map(x, |z| num_complex::Complex64::from_polar(z.re, z.im)),
        ),
        subject(
            "complex matmul with the adjoint",
            &[&[2, 2], &[2, 2]],
            |x| packed(&complex(x).matmul(&complex(x).adjoint())),
            |x| {
                let at = |i: usize, j: usize| num_complex::Complex64::new(x[0].at(&[i, j]), x[1].at(&[i, j]));
                let entry =
                    |i: usize, j: usize| (0..2).map(|k| at(i, k) * at(j, k).conj()).sum::<num_complex::Complex64>();
                Plain::of(&[2, 2, 2], |i| if i[0] == 0 { entry(i[1], i[2]).re } else { entry(i[1], i[2]).im })
            },
        ),
        subject(
            "complex sums and slices",
            &[&[2, 3], &[2, 3]],
            |x| packed(&(complex(x).sum_over(0).slice(&[s(1..)]) + complex(x).mean())),
            |x| {
                let of =
                    |x: &Plain, k: usize| x.at(&[0, k + 1]) + x.at(&[1, k + 1]) + x.elements.iter().sum::<f64>() / 6.0;
                Plain::of(&[2, 2], |i| of(&x[i[0]], i[1]))
            },
        ),
    ]
}

#[cfg(feature = "fft")]
fn fourier() -> Vec<Subject> {
    use glassgrad::operations::Norm;
    use num_complex::Complex64;

    /// The transform by its definition, along an axis of both parts, with a sign and a factor.
    fn transformed(x: &[Plain], axis: usize, sign: f64, factor: f64) -> Plain {
        let part = |line: &[Complex64]| -> Vec<Complex64> {
            let turn = |j: usize, k: usize| {
                Complex64::from_polar(
                    factor,
                    sign * std::f64::consts::TAU * (j * k % line.len()) as f64 / line.len() as f64,
                )
            };
            (0..line.len()).map(|k| (0..line.len()).map(|j| line[j] * turn(j, k)).sum()).collect()
        };
        let shape = &x[0].shape;
        Plain::of(&[&[2], &shape[..]].concat(), |index| {
            let place = |k: usize| [&index[1..=axis], &[k], &index[axis + 2..]].concat();
            let line: Vec<Complex64> =
                (0..shape[axis]).map(|k| Complex64::new(x[0].at(&place(k)), x[1].at(&place(k)))).collect();
            let result = part(&line)[index[axis + 1]];
            if index[0] == 0 { result.re } else { result.im }
        })
    }
    fn halves(x: &Plain) -> [Plain; 2] {
        let half = x.elements.len() / 2;
        let part = |elements: &[f64]| Plain { shape: x.shape[1..].to_vec(), elements: elements.to_vec() };
        [part(&x.elements[..half]), part(&x.elements[half..])]
    }
    fn zeros(x: &Plain) -> Plain {
        x.map(|_| 0.0)
    }
    vec![
        subject(
            "fft of a prime length",
            &[&[2, 5], &[2, 5]],
            |x| packed(&complex(x).fft(-1)),
            |x| transformed(x, 1, -1.0, 1.0),
        )
        .empty(&[&[0, 5], &[0, 5]]),
        subject(
            "fft of the first axis",
            &[&[4, 2], &[4, 2]],
            |x| packed(&complex(x).fft(0)),
            |x| transformed(x, 0, -1.0, 1.0),
        ),
        subject("fft of one", &[&[3, 1], &[3, 1]], |x| packed(&complex(x).fft(1)), |x| transformed(x, 1, -1.0, 1.0)),
        subject("fft of none", &[&[2], &[2]], |x| packed(&complex(x).fft(0)), |x| transformed(x, 0, -1.0, 1.0))
            .empty(&[&[0], &[0]]),
        subject("ifft", &[&[6], &[6]], |x| packed(&complex(x).ifft(0)), |x| transformed(x, 0, 1.0, 1.0 / 6.0)),
        subject(
            "fft, orthonormal",
            &[&[7], &[7]],
            |x| packed(&complex(x).fft_norm(0, Norm::Ortho)),
            |x| transformed(x, 0, -1.0, 1.0 / 7_f64.sqrt()),
        ),
        subject(
            "fft2",
            &[&[2, 3], &[2, 3]],
            |x| packed(&complex(x).fft2()),
            |x| transformed(&halves(&transformed(x, 1, -1.0, 1.0)), 0, -1.0, 1.0),
        ),
        subject(
            "ifft2",
            &[&[2, 3], &[2, 3]],
            |x| packed(&complex(x).ifft2()),
            |x| transformed(&halves(&transformed(x, 1, 1.0, 1.0 / 3.0)), 0, 1.0, 0.5),
        ),
        subject(
            "rfft",
            &[&[2, 5]],
            |x| packed(&x[0].rfft(1)),
            |x| {
                let whole = transformed(&[x[0].clone(), zeros(&x[0])], 1, -1.0, 1.0);
                Plain::of(&[2, 2, 3], |i| whole.at(i))
            },
        ),
        subject("irfft of an even length", &[&[4], &[4]], |x| complex(x).irfft(6, 0), |x| irfft(x, 6)),
        subject("irfft of an odd length", &[&[4], &[4]], |x| complex(x).irfft(7, 0), |x| irfft(x, 7)),
        subject(
            "fftshift",
            &[&[2, 5]],
            |x| x[0].fftshift(1),
            |x| Plain::of(&[2, 5], |i| x[0].at(&[i[0], (i[1] + 3) % 5])),
        )
        .integers(),
        subject("ifftshift", &[&[5]], |x| x[0].ifftshift(0), |x| Plain::of(&[5], |i| x[0].at(&[(i[0] + 2) % 5]))),
    ]
}

/// Real numbers whose transform begins with these: each frequency counts with its conjugate.
#[cfg(feature = "fft")]
fn irfft(x: &[Plain], length: usize) -> Plain {
    let frequency = |j: usize, k: usize| {
        let angle = std::f64::consts::TAU * (j * k) as f64 / length as f64;
        let twice = if k == 0 || 2 * k == length { 1.0 } else { 2.0 };
        let im = if twice == 1.0 { 0.0 } else { x[1].elements[k] * angle.sin() };
        twice * (x[0].elements[k] * angle.cos() - im)
    };
    Plain::of(&[length], |j| (0..=length / 2).map(|k| frequency(j[0], k)).sum::<f64>() / length as f64)
}
