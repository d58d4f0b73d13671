//! Linear algebra. What is determined only up to signs or order enters through what is determined.

use glassgrad::Tensor;
use glassgrad::operations::linalg::Triangle;

use super::{Entry, constant};

pub(crate) const MATRICES: &[Entry] = &[
    ("solve", |x| x[0].solve(&x[1])),
    ("solve for a vector", |x| x[0].solve(&x[1])),
    ("solve of a stack", |x| x[0].solve(&x[1])),
    ("solve_triangular lower", |x| x[0].solve_triangular(&x[1], Triangle::lower())),
    ("solve_triangular upper", |x| x[0].transpose().solve_triangular(&x[1], Triangle::upper())),
    ("inv", |x| x[0].inv()),
    ("inv of a stack", |x| x[0].inv()),
    ("cholesky", |x| x[0].cholesky()),
    ("cholesky of a stack", |x| x[0].cholesky()),
    ("qr orthogonal", |x| x[0].qr().0),
    ("qr triangular", |x| x[0].qr().1),
    ("qr of a tall matrix", |x| x[0].qr().0.matmul(&constant(&x[0], &[1.0, 0.5, 0.0, 2.0]).reshape([2, 2]))),
    ("svd values", |x| x[0].svd().1),
    ("svd polar factor", |x| {
        let (u, _, vt) = x[0].svd();
        u.matmul(&vt)
    }),
    ("svd of a tall matrix", |x| {
        let (u, s, vt) = x[0].svd();
        (u * s.ln()).matmul(&vt)
    }),
    ("nuclear norm", |x| x[0].nuclear_norm()),
    ("spectral norm", |x| x[0].spectral_norm()),
    ("eigh values", |x| x[0].eigh().0),
    ("eigh squared vectors", |x| x[0].eigh().1.square()),
    ("matrix logarithm by eigh", |x| {
        let (values, vectors) = x[0].eigh();
        (&vectors * values.ln()).matmul(&vectors.transpose())
    }),
    ("lstsq", |x| x[0].lstsq(&x[1])),
    ("det", |x| x[0].det()),
    ("det of a stack", |x| x[0].det()),
    ("logdet", |x| x[0].logdet()),
    ("slogdet", |x| x[0].slogdet().1),
    ("expm", |x| x[0].expm()),
    ("expm of a rotation", |x| (&x[0] * constant(&x[0], &[0.0, -1.0, 1.0, 0.0]).reshape([2, 2])).expm()),
    ("pinv", |x| x[0].pinv()),
    ("matrix_power 4", |x| x[0].matrix_power(4)),
    ("matrix_power -2", |x| x[0].matrix_power(-2)),
    ("lu factors", |x| {
        let (_, l, u) = x[0].lu();
        Tensor::stack([&l, &u], 0)
    }),
    ("gaussian process likelihood", |x| {
        let distance = (x[0].unsqueeze(1) - &x[0]).square();
        let kernel = (-distance / &x[2]).exp() + identity(&x[0], 4) * 0.5;
        (x[1].matmul(&kernel.solve(&x[1])) + kernel.logdet()) * 0.5
    }),
    ("multivariate normal", |x| {
        let factor = x[1].cholesky();
        let white = factor.solve_triangular(&x[0], Triangle::lower());
        white.square().sum() * 0.5 + factor.diag().ln().sum()
    }),
    ("ridge regression", |x| {
        let normal = x[0].transpose().matmul(&x[0]) + &x[2] * identity(&x[0], 2);
        normal.solve(&x[0].transpose().matmul(&x[1]))
    }),
    ("kalman gain", |x| {
        let seen = x[0].matmul(&x[2].transpose());
        seen.matmul(&(x[2].matmul(&seen) + &x[1]).inv())
    }),
];

fn identity(beside: &Tensor, size: usize) -> Tensor {
    Tensor::eye(size).cast(beside.dtype())
}
