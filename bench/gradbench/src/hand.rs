//! Hand tracking: the distances between measured points and a skinned hand model in the pose of 26 parameters.

use crate::models::{less, scale};
use glassgrad::scalar::{CompiledTape, Dual, Recorded};
use glassgrad::{Real, c};

/// Two coordinates of a point on its triangle, and the pose.
pub(crate) const COLUMNS: usize = 28;

/// Points up to which code is generated: it grows with their number, and takes seconds to compile for more.
const MOST_COMPILED: usize = 400;

/// An angle below which a rotation is the identity, as the suite has it.
const SMALLEST_ANGLE: f64 = 1e-4;

type Matrix<T> = [[T; 4]; 4];

/// The model and the measurements.
pub(crate) struct Hand {
    /// The bone that each bone hangs on, an earlier one; the root has none.
    pub(crate) parents: Vec<Option<usize>>,
    pub(crate) relatives: Vec<Matrix<f64>>,
    pub(crate) inverse_absolutes: Vec<Matrix<f64>>,
    /// For each vertex, its position in the pose of rest and the weight of each bone.
    pub(crate) positions: Vec<[f64; 4]>,
    pub(crate) weights: Vec<Vec<f64>>,
    pub(crate) triangles: Vec<[usize; 3]>,
    pub(crate) mirrored: bool,
    /// The vertex, or the triangle if points have coordinates on one, that each measured point belongs to.
    pub(crate) correspondences: Vec<usize>,
    pub(crate) points: Vec<[f64; 3]>,
}

impl Hand {
    /// The residuals, three for each point. Without coordinates on triangles the points belong to vertices.
    pub(crate) fn residuals<T: Real>(&self, theta: &[T], coordinates: &[[T; 2]]) -> Vec<T> {
        let mut residuals = Vec::with_capacity(3 * self.points.len());
        self.visit_residuals(theta, coordinates, |residual| residuals.push(residual));
        residuals
    }

    /// The same one after the other: with many tangents a list of them would be as large as the Jacobian.
    fn visit_residuals<T: Real>(&self, theta: &[T], coordinates: &[[T; 2]], mut visit: impl FnMut(T)) {
        let transforms = self.transforms(theta);
        let rotation = rotation_about([theta[0], theta[1], theta[2]]);
        // Only vertices that a point belongs to are moved, each once.
        let mut places = vec![usize::MAX; self.positions.len()];
        let mut moved: Vec<[T; 3]> = Vec::new();
        let mut vertex = |number: usize| -> [T; 3] {
            if places[number] == usize::MAX {
                places[number] = moved.len();
                let mut skinned = self.skin(&transforms, number);
                if self.mirrored {
                    skinned[0] = -skinned[0];
                }
                let turned = |row: usize| (0..3).map(|k| rotation[row][k] * skinned[k]).sum::<T>() + theta[3 + row];
                moved.push(std::array::from_fn(turned));
            }
            moved[places[number]]
        };
        for (number, (point, target)) in self.points.iter().zip(&self.correspondences).enumerate() {
            let position: [T; 3] = match coordinates.get(number) {
                None => vertex(*target),
                Some([u, v]) => {
                    let [a, b, d] = self.triangles[*target].map(&mut vertex);
                    let w = less(1.0, *u) - *v;
                    std::array::from_fn(|k| *u * a[k] + *v * b[k] + w * d[k])
                }
            };
            (0..3).for_each(|k| visit(less(point[k], position[k])));
        }
    }

    /// The Jacobian row by row, with all tangents in one evaluation.
    pub(crate) fn jacobian(&self, theta: &[f64], coordinates: &[[f64; 2]]) -> (Vec<f64>, usize) {
        let along = |value: f64, lane: usize| Dual::<f64, COLUMNS>::along(value, lane);
        let pose: Vec<_> = theta.iter().enumerate().map(|(k, theta)| along(*theta, 2 + k)).collect();
        let coordinates: Vec<_> = coordinates.iter().map(|[u, v]| [along(*u, 0), along(*v, 1)]).collect();
        let first = if coordinates.is_empty() { 2 } else { 0 };
        let columns = 2 + theta.len() - first;
        let mut rows = Vec::with_capacity(3 * self.points.len() * columns);
        self.visit_residuals(&pose, &coordinates, |residual| {
            rows.extend_from_slice(&residual.tangents[first..first + columns]);
        });
        (rows, columns)
    }

    /// Machine code for the residuals and the Jacobian, of whose columns the coordinates of all points share two. `None` where it
    /// would be too large. The arguments are the pose and then the coordinates.
    pub(crate) fn compiled(&self, theta: &[f64], coordinates: &[[f64; 2]]) -> Option<(CompiledTape, Vec<f64>)> {
        if self.points.len() > MOST_COMPILED {
            return None;
        }
        let x = [theta, coordinates.as_flattened()].concat();
        let recorded = Recorded::several(
            |x, y| {
                let (theta, coordinates) = x.split_at(theta.len());
                let coordinates: Vec<_> = coordinates.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
                y.copy_from_slice(&self.residuals(theta, &coordinates));
            },
            &x,
            3 * self.points.len(),
        );
        let number = |chosen: bool| if chosen { 1.0 } else { 0.0 };
        let shared = (0..if coordinates.is_empty() { 0 } else { 2 }).map(|axis| {
            let own = |k: usize| number(k >= theta.len() && (k - theta.len()) % 2 == axis);
            (0..x.len()).map(own).collect::<Vec<f64>>()
        });
        let own = (0..theta.len()).map(|place| (0..x.len()).map(|k| number(k == place)).collect());
        Some((CompiledTape::compressed(&recorded, &shared.chain(own).collect::<Vec<_>>()).ok()?, x))
    }

    /// The transform of each bone from rest to the pose.
    fn transforms<T: Real>(&self, theta: &[T]) -> Vec<Matrix<T>> {
        let mut absolutes: Vec<Matrix<T>> = Vec::with_capacity(self.parents.len());
        for (bone, parent) in self.parents.iter().enumerate() {
            let relative = match bend(bone, theta) {
                None => self.relatives[bone].map(|row| row.map(c)),
                Some(rotation) => product_by(&self.relatives[bone], &rotation, |entry, x| scale(x, entry)),
            };
            absolutes.push(match parent {
                None => relative,
                Some(parent) => product_by(&absolutes[*parent], &relative, |a, b| a * b),
            });
        }
        absolutes.iter().zip(&self.inverse_absolutes).map(|(a, inverse)| product_by(a, inverse, scale)).collect()
    }

    /// The position of a vertex: that under each bone's transform, weighted.
    fn skin<T: Real>(&self, transforms: &[Matrix<T>], vertex: usize) -> [T; 3] {
        let position = &self.positions[vertex];
        let mut skinned = [c::<T>(0.0); 3];
        let bones = transforms.iter().zip(&self.weights[vertex]).filter(|(_, weight)| **weight != 0.0);
        for (transform, weight) in bones {
            for (sum, row) in skinned.iter_mut().zip(transform) {
                *sum += scale(row.iter().zip(position).map(|(entry, x)| scale(*entry, *x)).sum::<T>(), *weight);
            }
        }
        skinned
    }
}

/// The rotation of a bone: three joints of each finger bend, the first of them in two directions.
fn bend<T: Real>(bone: usize, theta: &[T]) -> Option<Matrix<T>> {
    let (finger, joint) = (bone.checked_sub(2)? / 4, (bone - 2) % 4);
    let own = theta.get(6 + 4 * finger..10 + 4 * finger).filter(|_| joint < 3)?;
    let (zero, one) = (c::<T>(0.0), c::<T>(1.0));
    let x = if joint == 0 { own[0] } else { own[1 + joint] };
    let (sx, cx) = (x.sin(), x.cos());
    let (sz, cz) = if joint == 0 { (own[1].sin(), own[1].cos()) } else { (zero, one) };
    Some([[cz, -sz * cx, sz * sx, zero], [sz, cz * cx, -cz * sx, zero], [zero, sx, cx, zero], [zero, zero, zero, one]])
}

/// The product of two matrices, of which one may be of constants.
fn product_by<A: Copy, B: Copy, T: Real>(a: &Matrix<A>, b: &Matrix<B>, multiply: impl Fn(A, B) -> T) -> Matrix<T> {
    std::array::from_fn(|row| std::array::from_fn(|column| (0..4).map(|k| multiply(a[row][k], b[k][column])).sum()))
}

/// The rotation about an axis by its length.
fn rotation_about<T: Real>(axis: [T; 3]) -> [[T; 3]; 3] {
    let angle = axis.iter().map(|a| *a * *a).sum::<T>().sqrt();
    // A guard of a recording.
    if angle < c(SMALLEST_ANGLE) {
        return std::array::from_fn(|row| std::array::from_fn(|column| c(if row == column { 1.0 } else { 0.0 })));
    }
    let unit = axis.map(|a| a / angle);
    let (sine, cosine) = (angle.sin(), angle.cos());
    let rest = less(1.0, cosine);
    std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let symmetric = unit[row] * unit[column] * rest;
            match (3 + column - row) % 3 {
                0 => symmetric + cosine,
                1 => symmetric - unit[(row + 2) % 3] * sine,
                _ => symmetric + unit[(row + 1) % 3] * sine,
            }
        })
    })
}
