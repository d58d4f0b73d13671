//! Reductions, products, and what moves elements.

use glassgrad::Tensor;
use glassgrad::expr::{Axes, s};

use super::{Entry, at};

pub(crate) const REDUCTIONS: &[Entry] = &[
    ("sum", |x| x[0].sum()),
    ("sum over 0", |x| x[0].sum_over(0)),
    ("sum over -1", |x| x[0].sum_over(-1)),
    ("sum over 0 and 2", |x| x[0].sum_over([0, 2])),
    ("sum over 1 kept", |x| x[0].sum_over(Axes::from(1).keep()) * &x[0]),
    ("sum of squares", |x| x[0].square().sum()),
    ("mean", |x| x[0].mean()),
    ("mean over 1", |x| x[0].mean_over(1)),
    ("mean over 0 and 1", |x| x[0].powi(3).mean_over([0, 1])),
    ("var", |x| x[0].var()),
    ("var over 1", |x| x[0].var_over(1)),
    ("var over 0 and 2", |x| x[0].var_over([0, 2])),
    ("std", |x| x[0].std()),
    ("std over 1", |x| x[0].std_over(1)),
    ("max", |x| x[0].max()),
    ("max over 0", |x| x[0].max_over(0)),
    ("max over -2", |x| x[0].max_over(-2).square()),
    ("max over 0 and 2", |x| x[0].max_over([0, 2]).square()),
    ("max with ties", |x| x[0].max_over(1)),
    ("min", |x| x[0].min()),
    ("min over 1", |x| x[0].min_over(1).powi(3)),
    ("min with ties", |x| x[0].min_over(1)),
    ("range", |x| x[0].max_over(1) - x[0].min_over(1)),
    ("norm", |x| x[0].norm()),
    ("norm over 1", |x| x[0].norm_over(1)),
    ("norm over 0 and 2", |x| x[0].norm_over([0, 2])),
    ("one norm", |x| x[0].abs().sum_over(1)),
    ("four norm", |x| x[0].powi(4).sum_over(1).powf(0.25)),
    ("logsumexp", |x| x[0].logsumexp()),
    ("logsumexp over 1", |x| x[0].logsumexp_over(1)),
    ("logsumexp over 0 and 2", |x| x[0].logsumexp_over([0, 2])),
    ("logsumexp of large numbers", |x| x[0].logsumexp_over(1)),
    ("softmax over 0", |x| x[0].softmax(0)),
    ("softmax over -1", |x| x[0].softmax(-1)),
    ("softmax of large numbers", |x| x[0].softmax(-1)),
    ("softmax with a temperature", |x| (&x[0] / &x[1]).softmax(-1)),
    ("log_softmax over 1", |x| x[0].log_softmax(1)),
    ("log_softmax of large numbers", |x| x[0].log_softmax(-1)),
    ("entropy of softmax", |x| -(x[0].softmax(-1) * x[0].log_softmax(-1)).sum_over(-1)),
    ("softmax of softmax", |x| (5.0 * x[0].softmax(-1)).softmax(0)),
    ("normalised", |x| &x[0] / x[0].norm_over(Axes::from(1).keep())),
    ("standardised", |x| (&x[0] - x[0].mean_over(0)) / x[0].std_over(0)),
    ("weighted mean", |x| (&x[0] * &x[1]).sum_over(1) / x[1].sum()),
    ("skewness", |x| ((&x[0] - x[0].mean()) / x[0].std()).powi(3).mean()),
    ("covariance", |x| {
        let centred = &x[0] - x[0].mean_over(0);
        centred.transpose().matmul(&centred) / 4.0
    }),
    ("correlation", |x| {
        let (a, b) = (&x[0] - x[0].mean(), &x[1] - x[1].mean());
        (a * b).mean() / x[0].std() / x[1].std()
    }),
    ("log mean exp", |x| x[0].logsumexp_over(1) - 4_f64.ln()),
    ("smooth maximum", |x| (&x[0] * (3.0 * &x[0]).softmax(-1)).sum_over(-1)),
];

pub(crate) const PRODUCTS: &[Entry] = &[
    ("einsum ij,jk->ik", |x| Tensor::einsum("ij,jk->ik", [&x[0], &x[1]])),
    ("einsum ij->ji", |x| Tensor::einsum("ij->ji", [&x[0]])),
    ("einsum ii->", |x| Tensor::einsum("ii->", [&x[0]])),
    ("einsum ii->i", |x| Tensor::einsum("ii->i", [&x[0]])),
    ("einsum iij->j", |x| Tensor::einsum("iij->j", [&x[0]])),
    ("einsum ijij->ij", |x| Tensor::einsum("ijij->ij", [&x[0]])),
    ("einsum ij->", |x| Tensor::einsum("ij->", [&x[0]])),
    ("einsum ijk->k", |x| Tensor::einsum("ijk->k", [&x[0]])),
    ("einsum ijk->kij", |x| Tensor::einsum("ijk->kij", [&x[0]])),
    ("einsum i,j->ij", |x| Tensor::einsum("i,j->ij", [&x[0], &x[1]])),
    ("einsum i,i->", |x| Tensor::einsum("i,i->", [&x[0], &x[1]])),
    ("einsum ij,j->i", |x| Tensor::einsum("ij,j->i", [&x[0], &x[1]])),
    ("einsum ij,ij->", |x| Tensor::einsum("ij,ij->", [&x[0], &x[1]])),
    ("einsum ij,ij->i", |x| Tensor::einsum("ij,ij->i", [&x[0], &x[1]])),
    ("einsum ij,kj->ik", |x| Tensor::einsum("ij,kj->ik", [&x[0], &x[1]])),
    ("einsum ij,ji->", |x| Tensor::einsum("ij,ji->", [&x[0], &x[1]])),
    ("einsum i,ij,j->", |x| Tensor::einsum("i,ij,j->", [&x[0], &x[1], &x[2]])),
    ("einsum i,j,k->ijk", |x| Tensor::einsum("i,j,k->ijk", [&x[0], &x[1], &x[2]])),
    ("einsum bij,bjk->bik", |x| Tensor::einsum("bij,bjk->bik", [&x[0], &x[1]])),
    ("einsum bqd,bkd->bqk", |x| Tensor::einsum("bqd,bkd->bqk", [&x[0], &x[1]])),
    ("einsum abc,cd->abd", |x| Tensor::einsum("abc,cd->abd", [&x[0], &x[1]])),
    ("einsum ab,bc,cd->ad", |x| Tensor::einsum("ab,bc,cd->ad", [&x[0], &x[1], &x[2]])),
    ("einsum ijk,jl,km->ilm", |x| Tensor::einsum("ijk,jl,km->ilm", [&x[0], &x[1], &x[2]])),
    ("einsum ii,ij->j", |x| Tensor::einsum("ii,ij->j", [&x[0], &x[1]])),
    ("einsum i,i,i->i", |x| Tensor::einsum("i,i,i->i", [&x[0], &x[1], &x[2]])),
    ("einsum ijkl,kl->ij", |x| Tensor::einsum("ijkl,kl->ij", [&x[0], &x[1]])),
    ("einsum i->ii", |x| Tensor::einsum("i->ii", [&x[0]])),
    ("einsum i->ij=3", |x| Tensor::einsum("i->ij=3", [&x[0]])),
    ("einsum of one tensor twice", |x| Tensor::einsum("ij,jk->ik", [&x[0], &x[0]])),
    ("einsum of one tensor three times", |x| Tensor::einsum("i,j,k->ijk", [&x[0], &x[0], &x[0]])),
    ("matmul 1 1", |x| x[0].matmul(&x[1])),
    ("matmul 2 1", |x| x[0].matmul(&x[1])),
    ("matmul 1 2", |x| x[0].matmul(&x[1])),
    ("matmul 2 2", |x| x[0].matmul(&x[1])),
    ("matmul 3 1", |x| x[0].matmul(&x[1])),
    ("matmul 1 3", |x| x[0].matmul(&x[1])),
    ("matmul 3 2", |x| x[0].matmul(&x[1])),
    ("matmul 2 3", |x| x[0].matmul(&x[1])),
    ("matmul 3 3", |x| x[0].matmul(&x[1])),
    ("matmul 4 3", |x| x[0].matmul(&x[1])),
    ("matmul stretched", |x| x[0].matmul(&x[1])),
    ("inner", |x| x[0].inner(&x[1])),
    ("outer", |x| x[0].outer(&x[1])),
    ("outer of matrices", |x| x[0].outer(&x[1])),
    ("kron", |x| x[0].kron(&x[1])),
    ("trace", |x| x[0].trace()),
    ("diag of a matrix", |x| x[0].diag()),
    ("diag of a vector", |x| x[0].diag()),
    ("gram matrix", |x| x[0].matmul(&x[0].transpose())),
    ("quadratic form", |x| x[1].matmul(&x[0]).matmul(&x[1])),
    ("third power of a matrix", |x| x[0].matmul(&x[0]).matmul(&x[0])),
    ("trace of a power", |x| x[0].matmul(&x[0]).matmul(&x[0]).matmul(&x[0]).trace()),
    ("squared distances", |x| (x[0].unsqueeze(1) - &x[1]).square().sum_over(-1)),
    ("rbf kernel", |x| (((x[0].unsqueeze(1) - &x[0]) / &x[1]).square().sum_over(-1) * -0.5).exp()),
    ("cosine similarities", |x| {
        let unit = |x: &Tensor| x / x.norm_over(Axes::from(1).keep());
        unit(&x[0]).matmul(&unit(&x[1]).transpose())
    }),
    ("frobenius distance", |x| (&x[0] - x[1].matmul(&x[2])).square().sum()),
    ("rayleigh quotient", |x| x[1].matmul(&x[0]).matmul(&x[1]) / x[1].matmul(&x[1])),
    ("commutator", |x| x[0].matmul(&x[1]) - x[1].matmul(&x[0])),
    ("bilinear layer", |x| Tensor::einsum("bi,oij,bj->bo", [&x[0], &x[1], &x[2]])),
    ("tensor train", |x| Tensor::einsum("ia,ajb,bk->ijk", [&x[0], &x[1], &x[2]])),
    ("householder", |x| &x[0] - 2.0 * x[1].outer(&x[1].matmul(&x[0])) / x[1].matmul(&x[1])),
    ("chain of squares", |x| x[0].matmul(&x[0].matmul(&x[0].tanh()).tanh()).tanh()),
];

pub(crate) const SHAPES: &[Entry] = &[
    ("reshape", |x| x[0].reshape([3, 4]).square()),
    ("reshape to a vector", |x| x[0].reshape([6]).powi(3)),
    ("permute", |x| x[0].permute([2, 0, 1]).square()),
    ("transpose", |x| x[0].transpose().square()),
    ("expand", |x| x[0].unsqueeze(1) * &x[0]),
    ("broadcast_to", |x| x[0].broadcast_to([2, 3, 2]).square()),
    ("slice a row", |x| x[0].slice(&[s(1)]).square()),
    ("slice a column", |x| x[0].slice(&[s(..), s(-1)]).square()),
    ("slice ranges", |x| x[0].slice(&[s(1..), s(..-1)]).square()),
    ("slice steps", |x| x[0].slice(&[s(..).step(2), s(1..).step(2)]).square()),
    ("slice backwards", |x| x[0].slice(&[s(..).step(-1), s(..).step(-2)]).square()),
    ("slice a new axis", |x| x[0].slice(&[s(..), glassgrad::expr::Index::NewAxis]) * &x[0]),
    ("neighbours", |x| (x[0].slice(&[s(1..)]) - x[0].slice(&[s(..-1)])).square()),
    ("second differences", |x| {
        (x[0].slice(&[s(2..)]) - 2.0 * x[0].slice(&[s(1..5)]) + x[0].slice(&[s(..-2)])).square()
    }),
    ("pad", |x| x[0].pad(&[(1, 0), (2, 1)]).square() + 1.0),
    ("pad and shift", |x| &x[0] * x[0].pad(&[(2, 0)]).slice(&[s(..-2)])),
    ("concatenate over 0", |x| Tensor::concatenate([&x[0], &x[1].square()], 0)),
    ("concatenate over 1", |x| Tensor::concatenate([&x[0].sin(), &x[1], &(&x[0] * &x[1])], 1)),
    ("concatenate with itself", |x| Tensor::concatenate([&x[0], &x[0].square(), &x[0].powi(3)], 1)),
    ("stack over 0", |x| Tensor::stack([&x[0], &(&x[0] * &x[1]), &x[1]], 0)),
    ("stack over 1", |x| Tensor::stack([&(&x[0] * &x[1]), &x[1]], 1)),
    ("stack over -1", |x| Tensor::stack([&x[0].square(), &(&x[1] / &x[0])], 2)),
    ("gather over 0", |x| x[0].take(&x[1], 0).square()),
    ("gather over 1", |x| x[0].take(&x[1], 1).square()),
    ("gather by a matrix", |x| x[0].take(&x[1], 0).square()),
    ("gather one", |x| x[0].take(&x[1], 0).square()),
    ("scatter_add over 0", |x| x[0].scatter_add(&x[1], 0, 4).square()),
    ("scatter_add over 1", |x| x[0].scatter_add(&x[1], 1, 3).square()),
    ("scatter_add by a matrix", |x| x[0].scatter_add(&x[1], 0, 3).square()),
    ("segment softmax", |x| x[0].exp() / x[0].exp().scatter_add(&x[1], 0, 2).take(&x[1], 0)),
    ("flip over 0", |x| x[0].flip([0]) * &x[0]),
    ("flip over both", |x| x[0].flip([0, 1]) * &x[0]),
    ("one_hot product", |x| (x[1].one_hot(4, x[0].dtype()) * x[0].square()).sum_over(1)),
    ("one_hot matmul", |x| x[1].one_hot(3, x[0].dtype()).matmul(&x[0].square())),
    ("argmax chosen", |x| (x[0].argmax(1).one_hot(4, x[0].dtype()) * x[0].square()).sum_over(1)),
    ("masked mean", |x| {
        let positive = x[0].gt(0.0);
        positive.choose(&x[0], &x[0].zeros_like()).sum() / positive.cast(x[0].dtype()).sum()
    }),
    ("rotated", |x| &x[0] * Tensor::concatenate([&x[0].slice(&[s(2..)]), &x[0].slice(&[s(..2)])], 0)),
    ("checkerboard", |x| {
        let part = |row: isize, column: isize| x[0].slice(&[s(row..).step(2), s(column..).step(2)]);
        part(0, 0) * part(1, 1) - part(0, 1) * part(1, 0)
    }),
    ("blocks", |x| {
        let corner = x[2].slice(&[s(..), s(..1)]) * x[1].slice(&[s(..1)]);
        let (above, below) = (Tensor::concatenate([&x[0], &x[1]], 1), Tensor::concatenate([&x[2], &corner], 1));
        Tensor::concatenate([&above, &below], 0).square()
    }),
    ("interleaved", |x| Tensor::stack([&(&x[0] * &x[1]), &(&x[0] - &x[1])], 1).reshape([8])),
    ("moving average", |x| ((x[0].slice(&[s(..-2)]) + x[0].slice(&[s(1..5)]) + x[0].slice(&[s(2..)])) / 3.0).square()),
    ("correlation of windows", |x| (0..3).map(|k| x[0].slice(&[s(k..k + 4)]) * at(&x[1], k)).sum()),
    ("patches", |x| x[0].reshape([2, 2, 2, 2]).permute([0, 2, 1, 3]).reshape([4, 4]).square()),
    ("heads", |x| x[0].reshape([2, 3, 2]).permute([1, 0, 2]) * x[0].mean()),
    ("total variation", |x| {
        let here = x[0].slice(&[s(..-1), s(..-1)]);
        let (below, beside) = (x[0].slice(&[s(1..), s(..-1)]) - &here, x[0].slice(&[s(..-1), s(1..)]) - &here);
        (below.square() + beside.square() + 0.01).sqrt().sum()
    }),
    ("laplacian", |x| {
        let moved = |down: isize, right: isize| x[0].slice(&[s(down..down + 2), s(right..right + 2)]);
        (moved(2, 1) + moved(0, 1) + moved(1, 2) + moved(1, 0) - 4.0 * moved(1, 1)).square()
    }),
    ("embedding of words", |x| x[0].take(&x[1], 0).tanh().mean_over(0)),
    ("antisymmetric part", |x| (&x[0] - x[0].transpose()).square() / 2.0),
    ("determinant of two by two", |x| {
        let entry = |row: isize, column: isize| x[0].slice(&[s(row), s(column)]);
        entry(0, 0) * entry(1, 1) - entry(0, 1) * entry(1, 0)
    }),
    ("cross product", |x| cross(&x[0], &x[1])),
];

/// The cross product of two vectors in space.
pub(crate) fn cross(a: &Tensor, b: &Tensor) -> Tensor {
    let component = |k: isize| {
        let (i, j) = ((k + 1) % 3, (k + 2) % 3);
        at(a, i) * at(b, j) - at(a, j) * at(b, i)
    };
    Tensor::stack([&component(0), &component(1), &component(2)], 0)
}
