//! Running sums, orders and copies along axes; convolution, pooling and interpolation; complex numbers.

use glassgrad::Tensor;
use glassgrad::operations::{Complex, Convolution, Interpolation, Pooling};

use super::Entry;

pub(crate) const ORDERS: &[Entry] = &[
    ("prod", |x| x[0].prod()),
    ("prod over 0", |x| x[0].prod_over(0)),
    ("prod over -1", |x| x[0].prod_over(-1)),
    ("prod with a zero", |x| x[0].prod_over(1)),
    ("cumsum over 0", |x| x[0].cumsum(0).square()),
    ("cumsum over -1", |x| x[0].square().cumsum(-1)),
    ("cumprod over 1", |x| x[0].cumprod(1)),
    ("cumprod over 0", |x| x[0].cumprod(0).square()),
    ("sort over -1", |x| x[0].sort(-1).square()),
    ("sort over 0", |x| x[0].sort(0).powi(3)),
    ("top_k", |x| x[0].top_k(2, -1).0.square()),
    ("median over 1 of five", |x| x[0].median_over(1).square()),
    ("median over 0 of four", |x| x[0].median_over(0).square()),
    ("median of all", |x| x[0].median().square()),
    ("quantile 0.3", |x| x[0].quantile(0.3, 1).square()),
    ("quantile 1", |x| x[0].quantile(1.0, 0).square()),
    ("argmin chosen", |x| (x[0].argmin(1).one_hot(4, x[0].dtype()) * x[0].powi(3)).sum_over(1)),
    ("take_along 1", |x| x[0].take_along(&x[1], 1).square()),
    ("take_along 0", |x| x[0].take_along(&x[1], 0).square()),
    ("tile", |x| x[0].tile(&[2, 3]).square()),
    ("repeat over 0", |x| x[0].repeat(3, 0).square()),
    ("repeat over 1", |x| x[0].repeat(2, 1).powi(3)),
    ("roll over 0", |x| &x[0] * x[0].roll(1, 0)),
    ("roll over 1 backwards", |x| &x[0] * x[0].roll(-3, 1)),
    ("tril", |x| x[0].tril(0).square()),
    ("tril 1", |x| x[0].tril(1).square()),
    ("tril -1", |x| x[0].tril(-1).square()),
    ("triu", |x| x[0].triu(0).square()),
    ("triu 1", |x| x[0].triu(1).square()),
    ("meshgrid", |x| {
        let grid = Tensor::meshgrid([&x[0], &x[1]]);
        grid[0].square() * &grid[1]
    }),
    ("embedding", |x| x[0].embedding(&x[1]).square()),
    ("smallest gaps of sorted", |x| x[0].sort(0).diff(0)),
    ("ranked loss", |x| (x[0].sort(0) * &x[1]).sum()),
    ("diff", |x| x[0].diff(0).square()),
    ("diagonal 1", |x| x[0].diagonal(1).square()),
    ("swap_axes", |x| x[0].swap_axes(0, -1) * &x[0]),
    ("move_axis", |x| x[0].move_axis(0, -1).square()),
    ("split", |x| {
        let parts = x[0].split(&[2, 1, 2], 0);
        &parts[0] * &parts[2]
    }),
    ("clip between tensors", |x| x[0].clip(&x[1], &x[2]).square()),
    ("index_at", |x| x[0].index_at(&[&x[1], &x[2]]).square()),
    ("with_at", |x| x[0].with_at(&[&x[1], &x[2]], &x[3]).square()),
    ("add_at", |x| x[0].add_at(&[&x[1], &x[2]], &x[3]).square()),
    ("put_along", |x| x[0].put_along(&x[1], &x[2], 1).square()),
    ("add_along", |x| x[0].add_along(&x[1], &x[2], 1).square()),
    ("pad_with", |x| x[0].pad_with(&[(1, 0), (0, 2)], 1.5).square()),
];

pub(crate) const CONVOLUTIONS: &[Entry] = &[
    ("conv1d", |x| x[0].conv1d(&x[1], Convolution::default())),
    ("conv1d stride 2", |x| x[0].conv1d(&x[1], Convolution::default().stride(2))),
    ("conv1d padding 1", |x| x[0].conv1d(&x[1], Convolution::default().padding(1))),
    ("conv1d dilation 2", |x| x[0].conv1d(&x[1], Convolution::default().dilation(2))),
    ("conv1d groups 2", |x| x[0].conv1d(&x[1], Convolution::default().groups(2))),
    ("conv1d stride 2 padding 2 dilation 2", |x| {
        x[0].conv1d(&x[1], Convolution::default().stride(2).padding(2).dilation(2))
    }),
    ("conv2d", |x| x[0].conv2d(&x[1], Convolution::default())),
    ("conv2d stride 2", |x| x[0].conv2d(&x[1], Convolution::default().stride(2))),
    ("conv2d padding 1", |x| x[0].conv2d(&x[1], Convolution::default().padding(1))),
    ("conv2d dilation 2", |x| x[0].conv2d(&x[1], Convolution::default().dilation(2))),
    ("conv2d groups 2", |x| x[0].conv2d(&x[1], Convolution::default().groups(2))),
    ("conv2d stride 2 padding 2 dilation 2", |x| {
        x[0].conv2d(&x[1], Convolution::default().stride(2).padding(2).dilation(2))
    }),
    ("conv_transpose1d", |x| x[0].conv_transpose1d(&x[1], Convolution::default())),
    ("conv_transpose1d stride 2", |x| x[0].conv_transpose1d(&x[1], Convolution::default().stride(2))),
    ("conv_transpose1d stride 2 padding 1", |x| {
        x[0].conv_transpose1d(&x[1], Convolution::default().stride(2).padding(1))
    }),
    ("conv_transpose1d stride 3 padding 1 output padding 1", |x| {
        x[0].conv_transpose1d(&x[1], Convolution::default().stride(3).padding(1).output_padding(1))
    }),
    ("conv_transpose1d dilation 2", |x| x[0].conv_transpose1d(&x[1], Convolution::default().dilation(2))),
    ("conv_transpose2d", |x| x[0].conv_transpose2d(&x[1], Convolution::default())),
    ("conv_transpose2d stride 2", |x| x[0].conv_transpose2d(&x[1], Convolution::default().stride(2))),
    ("conv_transpose2d stride 2 padding 1", |x| {
        x[0].conv_transpose2d(&x[1], Convolution::default().stride(2).padding(1))
    }),
    ("conv_transpose2d stride 3 padding 1 output padding 1", |x| {
        x[0].conv_transpose2d(&x[1], Convolution::default().stride(3).padding(1).output_padding(1))
    }),
    ("conv_transpose2d dilation 2", |x| x[0].conv_transpose2d(&x[1], Convolution::default().dilation(2))),
    ("max_pool1d", |x| x[0].max_pool1d(Pooling::new(2)).square()),
    ("max_pool1d overlapping", |x| x[0].max_pool1d(Pooling::new(3).stride(2).padding(1)).square()),
    ("max_pool2d", |x| x[0].max_pool2d(Pooling::new(2)).square()),
    ("max_pool2d overlapping", |x| x[0].max_pool2d(Pooling::new(3).stride(1)).square()),
    ("avg_pool1d", |x| x[0].avg_pool1d(Pooling::new(2)).square()),
    ("avg_pool1d padded", |x| x[0].avg_pool1d(Pooling::new(3).stride(2).padding(1)).square()),
    ("avg_pool2d", |x| x[0].avg_pool2d(Pooling::new(2)).square()),
    ("avg_pool2d overlapping", |x| x[0].avg_pool2d(Pooling::new(3).stride(1)).square()),
    ("adaptive_avg_pool1d", |x| x[0].adaptive_avg_pool1d(3).square()),
    ("adaptive_max_pool1d", |x| x[0].adaptive_max_pool1d(3).square()),
    ("adaptive_avg_pool2d", |x| x[0].adaptive_avg_pool2d([3, 2]).square()),
    ("adaptive_max_pool2d", |x| x[0].adaptive_max_pool2d([3, 2]).square()),
];

pub(crate) const INTERPOLATIONS: &[Entry] = &[
    ("interp", |x| x[0].interp(&x[1], &x[2]).square()),
    ("interpolate linear 1d", |x| x[0].interpolate(&[7], CELLS).square()),
    ("interpolate nearest 1d", |x| x[0].interpolate(&[8], Interpolation::Nearest).square()),
    ("interpolate linear 2d", |x| x[0].interpolate(&[5, 6], CELLS).square()),
    ("interpolate nearest 2d", |x| x[0].interpolate(&[4, 9], Interpolation::Nearest).square()),
];

const CELLS: Interpolation = Interpolation::Linear { align_corners: false };

pub(crate) const COMPLEX: &[Entry] = &[
    ("complex exp", |x| parts(complex(x).exp())),
    ("complex ln", |x| parts(complex(x).ln())),
    ("complex sqrt", |x| parts(complex(x).sqrt())),
    ("complex sin", |x| parts(complex(x).sin())),
    ("complex cube", |x| parts(complex(x).powi(3))),
    ("complex quotient", |x| parts(complex(x) / complex(&x[2..]))),
    ("complex abs and arg", |x| Tensor::stack([&complex(x).abs(), &complex(x).arg()], 0)),
    ("complex matmul", |x| parts(complex(x).matmul(&complex(&x[2..])))),
];

/// The complex tensor of two real ones.
pub(crate) fn complex(x: &[Tensor]) -> Complex {
    Complex::new(x[0].clone(), x[1].clone())
}

/// The real and the imaginary part along a new first axis.
pub(crate) fn parts(z: Complex) -> Tensor {
    Tensor::stack([&z.re, &z.im], 0)
}
