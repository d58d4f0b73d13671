//! The rows of `docs/coming-from.md` that have derivatives: the same expressions, each with the letters that it uses in
//! alphabetical order. `bench/golden/page.py` knows what the letters are, and asks PyTorch and JAX for value, gradient and
//! Hessian product of each row.

use glassgrad::Tensor;
#[cfg(feature = "linalg")]
use glassgrad::dist::MultivariateNormal;
use glassgrad::dist::{
    Bernoulli, Beta, Categorical, Dirichlet, Distribution, Gamma, Laplace, Normal, Poisson, StudentT,
};
use glassgrad::expr::{Axes, s};
use glassgrad::loss::{self, Classes};
use glassgrad::nn::{GroupNorm, InstanceNorm, Layer, PRelu, RmsNorm};
#[cfg(feature = "fft")]
use glassgrad::operations::Complex;
#[cfg(feature = "linalg")]
use glassgrad::operations::linalg::Triangle;
use glassgrad::operations::{
    Attention, Convolution, Interpolation, Padding, Pooling, Quantile, Reduction, SparseMatrix,
};

/// An expression, its letters, and the function of them that it is.
pub(crate) type Row = (&'static str, &'static str, fn(&[Tensor]) -> Tensor);

pub(crate) fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Real and imaginary part along a new first axis.
#[cfg(feature = "fft")]
fn pair(z: &Complex) -> Tensor {
    Tensor::stack([&z.re, &z.im], 0)
}

macro_rules! rows {
    ($all:ident; $(($($letter:ident)*) $code:expr;)*) => {
        $($all.push((stringify!($code), stringify!($($letter)*), |inputs| {
            let mut inputs = inputs.iter().cloned();
            $(let $letter = inputs.next().expect("as many inputs as letters");)*
            assert!(inputs.next().is_none(), "as many letters as inputs");
            $code
        }));)*
    };
}

/// Every row with derivatives.
pub(crate) fn rows() -> Vec<Row> {
    let mut all: Vec<Row> = Vec::new();
    // Element by element.
    rows! { all;
        (p t u) t.lerp(&u, &p);
        (t u) t.lerp(&u, 0.25);
        (t u) t.logaddexp(&u);
        (p t) t.xlogy(&p);
        (p t) t.xlog1py(&p);
        (p t) (&p * t.sigmoid()).logit();
        (t) t.trunc();
        (t) t.frac();
        (t u) t.copysign(&u);
        (t u) t.remainder(&u);
        (t u) t.floor_divide(&u);
        (t) t.replace_nan(0.0);
    }
    // Activations.
    rows! { all;
        (t) (3.0 * &t).relu6();
        (t) (2.0 * &t).hardsigmoid();
        (t) (2.0 * &t).hardswish();
        (t) t.selu();
        (t) t.celu(1.5);
        (t) t.tanhshrink();
        (t) t.softshrink(0.5);
        (t) t.hardshrink(0.5);
        (t) t.softplus_beta(2.0);
        (q) q.glu(-1);
        (t) t.softmin(1);
    }
    // Comparing and choosing.
    rows! { all;
        (t) t.clip_min(0.5);
        (t) t.clip_max(0.5);
        (t u) t.masked_fill(&u.gt(0.0), 9.0);
    }
    // Reductions.
    rows! { all;
        (t) t.var_corrected(1, 1.0);
        (t) t.std_corrected(Axes::from(0).keep(), 1.0);
        (t) t.norm_p(1.0, 1);
        (t) t.norm_p(3.0, 1);
        (t) t.norm_p(-1.5, 0);
        (t) t.norm_p(f64::INFINITY, 1);
        (t) t.norm_p(f64::NEG_INFINITY, 1);
        (t) t.normalize(1);
        (t u) t.cosine_similarity(&u, 1);
        (t u) t.cdist(&u);
        (t) t.logcumsumexp(1);
        (line) line.cummax(1);
        (line) line.cummin(1);
        (t) t.argmax(Axes::from(1).keep()).cast(t.dtype()) * &t;
        (t) t.max_with_index(1).0;
        (t) t.min_with_index(0).0;
    }
    // Shapes.
    rows! { all;
        (q) q.reshape([-1, 4]);
        (q) q.flatten_axes(1, -1);
        (q) q.unflatten(2, &[2, 2]);
        (q) q.move_axes([0, 1], [-1, 0]);
        (q) q.diagonal_over(1, 0, 2);
        (photo) photo.pad_by(&[(0, 0), (0, 0), (2, 3)], Padding::Reflect);
        (photo) photo.pad_by(&[(0, 0), (0, 0), (2, 1)], Padding::Replicate);
        (photo) photo.pad_by(&[(0, 0), (0, 0), (2, 1)], Padding::Circular);
        (photo) photo.pad_by(&[(0, 0), (3, 1), (2, 4)], Padding::Symmetric);
        (t) t.pad_by(&[(0, 0), (-1, 2)], Padding::Zeros);
    }
    // Order.
    rows! { all;
        (t) t.sort_descending(1);
        (line) line.kth_value(3, 1).0;
        (line) line.median_with_index(1).0;
        (line) line.quantile_by(0.3, 1, Quantile::Higher);
        (line) line.quantile_by(0.3, 1, Quantile::Midpoint);
        (line) line.quantile_by(0.4, 1, Quantile::Nearest);
        (line) line.quantiles(&[0.1, 0.6], 1);
    }
    // Products.
    rows! { all;
        (b q) q.tensordot(&b, [1], [0]);
        (q) q.tensordot(&q, [0, 2], [0, 2]);
        (q t) t.bilinear(&q.sum_over(1), &q);
        (q) q.trace_over(1, 1, 2);
    }
    // Indexing.
    rows! { all;
        (i t) t.segment_sum(&i, 3);
        (line t) line.scatter_reduce(&Tensor::from([[1_i64, 3, 1], [1, 3, 1]]), &t, 1, Reduction::Max, true);
        (line t) line.scatter_reduce(&Tensor::from([[1_i64, 3, 1], [0, 6, 6]]), &t, 1, Reduction::Sum, true);
        (line t) line.scatter_reduce(&Tensor::from([[1_i64, 3, 1], [0, 6, 6]]), &t, 1, Reduction::Mean, false);
        (line t) line.scatter_reduce(&Tensor::from([[1_i64, 3, 1], [0, 6, 6]]), &t, 1, Reduction::Min, true);
        (t) t.flatten().segment_max(&Tensor::from([0_i64, 1, 0, 0, 1, 1]), 2);
        (t) t.flatten().segment_min(&Tensor::from([0_i64, 1, 0, 0, 1, 1]), 2);
        (t) t.segment_mean(&Tensor::from([0_i64, 0]), 2);
    }
    // Losses.
    rows! { all;
        (t u) loss::mae(&t, &u);
        (t u) loss::mse(&t, &u);
        (t u) loss::huber(&t, &u, 0.75);
        (t u) loss::smooth_l1(&t, &u, 0.75);
        (t u) loss::log_cosh(&t, &u);
        (p t u) loss::gaussian_nll(&t, &u, &p);
        (p t) loss::poisson_nll(&t, &p);
        (t u) loss::kl_div(&t.log_softmax(1), &u.softmax(1));
        (t u) loss::kl_div_logs(&t.log_softmax(1), &u.log_softmax(1));
        (i t) loss::cross_entropy(&t, &i);
        (i t) loss::nll_with(&t.log_softmax(1), &i, &Classes::default().weight(&Tensor::from([1.0, 2.0, 0.5]).cast(t.dtype()))).0;
        (i t) loss::nll_with(&t.log_softmax(1), &i, &Classes::default().ignore_index(0)).0;
        (i t) { let (loss, weight) = loss::cross_entropy_with(&t, &i, &Classes::default().weight(&Tensor::from([1.0, 2.0, 0.5]).cast(t.dtype())).label_smoothing(0.1)); loss.sum() / weight.sum() };
        (p t) loss::binary_cross_entropy(&t, &p);
        (t u) loss::triplet_margin(&t, &u, &(&t * &u), 2.0);
        (t u) loss::cosine_embedding(&t, &u, &Tensor::from([1.0, -1.0]).cast(t.dtype()), -0.9);
        (p t u) loss::margin_ranking(&t, &u, &(&p - 0.4).sign(), 0.5);
        (t u) loss::soft_margin(&t, &u.sign());
        (t u) loss::hinge_embedding(&t, &u.sign(), 1.0);
        (photo) loss::ctc(&photo.move_axis(0, 1).log_softmax(-1), &Tensor::from([[1_i64, 2, 2], [3, 1, 0]]), &Tensor::from([5_i64, 4]), &Tensor::from([3_i64, 2]), 0);
    }
    // Windows, images and signals.
    rows! { all;
        (photo) photo.im2col([2, 3], Convolution::default().stride([1, 2]));
        (b) b.slice(&[s(..2)]).tile(&[2, 4]).col2im([2, 3], 2, Convolution::default().padding(1));
        (volume) volume.conv3d(&volume.slice(&[s(..), s(..2), s(..2), s(..2)]).unsqueeze(0), Convolution::default());
        (volume) volume.conv_transpose3d(&volume.slice(&[s(..), s(..2), s(..2), s(..2)]).unsqueeze(0), Convolution::default());
        (volume) volume.max_pool3d(Pooling::new(2));
        (volume) volume.avg_pool3d(Pooling::new(2).stride(1));
        (volume) volume.adaptive_avg_pool3d([2, 3, 1]);
        (volume) volume.adaptive_max_pool3d([2, 3, 1]);
        (photo) photo.max_pool2d(Pooling::new(2).ceil_mode());
        (photo) photo.avg_pool2d(Pooling::new(3).stride(2).padding(1).ceil_mode());
        (photo) photo.avg_pool2d(Pooling::new([2, 4]).stride([2, 3]).padding([0, 1]).ceil_mode().ignore_padding());
        (photo) photo.avg_pool2d(Pooling::new(2).divisor(3));
        (photo) photo.max_pool_with_indices(Pooling::<2>::new(3).stride(2).padding(1)).0;
        (photo q) photo.grid_sample(&q.move_axis(0, -1), Padding::Zeros, false);
        (photo q) photo.grid_sample(&(0.9 * q.move_axis(0, -1)), Padding::Replicate, true);
        (photo) photo.interpolate(&[7, 4], Interpolation::Cubic { align_corners: false });
        (photo) photo.interpolate(&[8, 9], Interpolation::Cubic { align_corners: true });
    }
    // Layers.
    rows! { all;
        (q) q.layer_norm([1, 2], 1e-5);
        (q) q.rms_norm(-1, 1e-6);
        (q) q.reshape([2, 4, 3]).group_norm(2, 1e-5);
        (q) q.instance_norm(1e-5);
        (q v) GroupNorm { scale: v.clone(), shift: &v * 2.0, groups: 3, epsilon: 1e-5 }.apply(&q);
        (q v) InstanceNorm { scale: v.clone(), shift: &v * 2.0, epsilon: 1e-5 }.apply(&q);
        (t v) RmsNorm { scale: v.clone(), epsilon: 1e-6 }.apply(&t);
        (t v) PRelu { slope: v.abs() }.apply(&t);
        (q) q.rotary_embedding(100.0, 2);
    }
    // Linear algebra.
    #[cfg(feature = "linalg")]
    rows! { all;
        (b) (&b + b.transpose()).eigvalsh(Triangle::lower());
        (b) (&b + b.transpose()).eigvalsh(Triangle::upper());
        (a b t) Tensor::stack([&b, &a], 0).solve_vectors(&t);
        (b) b.eigvals().abs().sum();
        (b) b.eig().1.abs_square().matmul(&b.eigvals().re);
        (b) b.sqrtm();
        (b) b.logm();
        (a t v) MultivariateNormal::new(&v, &a).log_probability(&t);
        (a b v) MultivariateNormal::new(&v, &b.matmul(&b.transpose())).kl_divergence(&MultivariateNormal::new(&(&v * 2.0), &a));
    }
    // Complex numbers and Fourier.
    #[cfg(feature = "fft")]
    rows! { all;
        (q) pair(&Complex::new(q.clone(), q.square()).fftn([0, 1, 2]));
        (q) pair(&Complex::new(q.clone(), q.square()).ifftn([0, 2]));
    }
    // Distributions.
    rows! { all;
        (p t u) Gamma { concentration: p.clone(), rate: u.exp() }.log_probability(&t.exp());
        (p t u) Beta { alpha: t.exp(), beta: u.exp() }.log_probability(&p);
        (t u) Dirichlet { concentration: t.exp() }.log_probability(&u.softmax(-1));
        (p t u) StudentT { freedom: u.exp(), mean: t.clone(), log_scale: p.ln() }.log_probability(&(&t * &u));
        (p t u) Laplace { mean: t.clone(), log_scale: p.ln() }.log_probability(&u);
        (p t u) Normal { mean: t.clone(), log_deviation: p.ln() }.log_probability(&u);
        (p t u) Gamma { concentration: p.clone(), rate: u.exp() }.kl_divergence(&Gamma { concentration: t.exp(), rate: p.clone() });
        (p t u) Beta { alpha: p.clone(), beta: u.exp() }.kl_divergence(&Beta { alpha: t.exp(), beta: p.clone() });
        (t u) Dirichlet { concentration: t.exp() }.kl_divergence(&Dirichlet { concentration: u.exp() });
        (p t u) Laplace { mean: t.clone(), log_scale: p.ln() }.kl_divergence(&Laplace { mean: u.clone(), log_scale: p.ln() * 2.0 });
        (p t u) Normal { mean: t.clone(), log_deviation: p.ln() }.kl_divergence(&Normal { mean: u.clone(), log_deviation: p.ln() * 2.0 });
        (t u) Bernoulli { logits: t.clone() }.kl_divergence(&Bernoulli { logits: u.clone() });
        (t u) Categorical { logits: t.clone() }.kl_divergence(&Categorical { logits: u.clone() });
        (t u) Poisson { log_rate: t.clone() }.kl_divergence(&Poisson { log_rate: u.clone() });
    }
    // Attention, ellipses, sparse matrices.
    rows! { all;
        (q) q.scaled_dot_product_attention(&q, &q, &Attention::default());
        (q) q.scaled_dot_product_attention(&q, &q, &Attention::default().causal());
        (q) q.scaled_dot_product_attention(&q.slice(&[s(..1)]), &q.slice(&[s(..1)]), &Attention::default());
        (q) Tensor::einsum("...ij->...ji", [&q]);
        (b q) Tensor::einsum("...ij,ik", [&q, &b]);
        (b t) SparseMatrix::from_coo(&[0, 1, 1], &[2, 0, 2], t.slice(&[s(0)]), [2, 3]).matmul(&b);
    }
    // Special functions.
    rows! { all;
        (t) t.tanh().erfinv();
        (t) t.bessel_i(0);
        (t) t.bessel_i(1);
        (t) t.bessel_i(3);
        (t) t.bessel_j(0);
        (t) t.bessel_j(1);
        (t) (&t * 4.0).bessel_j(3);
        (t) t.exp().zeta(2.5);
        (t) t.exp().gammainc(2.5);
        (t) t.exp().gammaincc(0.75);
        (t) t.sigmoid().betainc(1.5, 2.5);
    }
    all
}
