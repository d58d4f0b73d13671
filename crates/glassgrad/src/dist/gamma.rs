//! The gamma distribution, and distributions of ratios of its variates: beta, Dirichlet and Student's t.

use super::Distribution;
use crate::Tree;
use crate::expr::{Axes, Keys, Tensor};

/// The gamma distribution of positive numbers.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, Gamma}};
/// let waiting = Gamma { concentration: Tensor::from(3.0), rate: Tensor::from(2.0) };
/// assert_eq!((waiting.mean().item().unwrap(), waiting.variance().item().unwrap()), (1.5, 0.75));
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Gamma {
    /// The concentration α, also called shape.
    pub concentration: Tensor,
    /// The rate β, the inverse of the scale.
    pub rate: Tensor,
}

impl Gamma {
    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Gamma};
    /// let one = Gamma { concentration: Tensor::from(3.0), rate: Tensor::from(2.0) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Gamma) -> Tensor {
        let (a, b) = (&self.concentration, &other.concentration);
        (a - b) * a.digamma() - a.lgamma()
            + b.lgamma()
            + b * (self.rate.ln() - other.rate.ln())
            + a * (&other.rate - &self.rate) / &self.rate
    }
}

impl Distribution for Gamma {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        self.concentration.xlogy(&self.rate) + (&self.concentration - 1.0).xlogy(observed)
            - &self.rate * observed
            - self.concentration.lgamma()
    }

    fn mean(&self) -> Tensor {
        &self.concentration / &self.rate
    }

    fn variance(&self) -> Tensor {
        &self.concentration / self.rate.square()
    }

    /// 0 for concentrations below 1, where the density has no maximum but a pole.
    fn mode(&self) -> Tensor {
        (&self.concentration - 1.0).relu() / &self.rate
    }

    /// The derivative passes through: exactly in the rate, and by implicit reparameterization in the concentration.
    fn sample(&self, key: &Keys) -> Tensor {
        let like = &self.concentration + self.rate.zeros_like();
        like.log_gamma_sample(key).exp() / &self.rate
    }
}

/// The beta distribution of numbers between 0 and 1.
///
/// ```
/// use glassgrad::{Tensor, dist::{Beta, Distribution}};
/// let share = Beta { alpha: Tensor::from(3.0), beta: Tensor::from(1.0) };
/// assert_eq!(share.mean().item().unwrap(), 0.75);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Beta {
    /// The concentration at 1.
    pub alpha: Tensor,
    /// The concentration at 0.
    pub beta: Tensor,
}

impl Beta {
    /// The logarithm of the beta function of both concentrations.
    #[track_caller]
    fn log_normalizer(&self) -> Tensor {
        self.alpha.lgamma() + self.beta.lgamma() - (&self.alpha + &self.beta).lgamma()
    }

    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Beta};
    /// let one = Beta { alpha: Tensor::from(3.0), beta: Tensor::from(2.0) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Beta) -> Tensor {
        let (alpha, beta) = (&self.alpha - &other.alpha, &self.beta - &other.beta);
        let total = (&alpha + &beta) * (&self.alpha + &self.beta).digamma();
        other.log_normalizer() - self.log_normalizer() + alpha * self.alpha.digamma() + beta * self.beta.digamma()
            - total
    }
}

impl Distribution for Beta {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        (&self.alpha - 1.0).xlogy(observed) + (&self.beta - 1.0).xlog1py(-observed) - self.log_normalizer()
    }

    fn mean(&self) -> Tensor {
        &self.alpha / (&self.alpha + &self.beta)
    }

    fn variance(&self) -> Tensor {
        let total = &self.alpha + &self.beta;
        &self.alpha * &self.beta / (total.square() * (&total + 1.0))
    }

    /// (α - 1)/(α + β - 2), where both concentrations are above 1; else the end, or the mean, that is most likely.
    fn mode(&self) -> Tensor {
        let (at_one, at_zero) = ((&self.alpha - 1.0).relu(), (&self.beta - 1.0).relu());
        let total = &at_one + &at_zero;
        let neither = total.equal(0.0);
        neither.choose(&self.mean(), &(at_one / neither.choose(&total.ones_like(), &total)))
    }

    /// The derivative in both concentrations passes through by implicit reparameterization.
    fn sample(&self, key: &Keys) -> Tensor {
        let (alpha, beta) = (&self.alpha + self.beta.zeros_like(), &self.beta + self.alpha.zeros_like());
        (alpha.log_gamma_sample(key.fold(0)) - beta.log_gamma_sample(key.fold(1))).sigmoid()
    }
}

/// The Dirichlet distribution of probabilities along the last axis.
///
/// ```
/// use glassgrad::{Tensor, dist::{Dirichlet, Distribution}};
/// let shares = Dirichlet { concentration: Tensor::from([1.0, 2.0, 1.0]) };
/// assert_eq!(shares.mean().to_string(), "[0.25,  0.5, 0.25]");
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Dirichlet {
    /// The concentration of each class.
    pub concentration: Tensor,
}

impl Dirichlet {
    /// The sum of concentrations, with its axis.
    #[track_caller]
    fn total(&self) -> Tensor {
        self.concentration.sum_over(Axes::from(-1).keep())
    }

    /// The logarithm of the multivariate beta function.
    #[track_caller]
    fn log_normalizer(&self) -> Tensor {
        self.concentration.lgamma().sum_over(-1) - self.concentration.sum_over(-1).lgamma()
    }

    /// The Kullback-Leibler divergence KL(self ‖ other).
    ///
    /// ```
    /// use glassgrad::{Tensor, dist::Dirichlet};
    /// let one = Dirichlet { concentration: Tensor::from([1.0, 2.0]) };
    /// assert_eq!(one.kl_divergence(&one).item().unwrap(), 0.0);
    /// ```
    #[track_caller]
    pub fn kl_divergence(&self, other: &Dirichlet) -> Tensor {
        let logs = self.concentration.digamma() - self.total().digamma();
        let difference = &self.concentration - &other.concentration;
        other.log_normalizer() - self.log_normalizer() + (difference * logs).sum_over(-1)
    }
}

impl Distribution for Dirichlet {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        (&self.concentration - 1.0).xlogy(observed).sum_over(-1) - self.log_normalizer()
    }

    fn mean(&self) -> Tensor {
        &self.concentration / self.total()
    }

    fn variance(&self) -> Tensor {
        let (mean, total) = (self.mean(), self.total());
        &mean * (1.0 - &mean) / (total + 1.0)
    }

    /// (α - 1)/Σ(α - 1), where all concentrations are above 1; concentrations below count as 1, and if all do the mean is
    /// returned.
    fn mode(&self) -> Tensor {
        let above = (&self.concentration - 1.0).relu();
        let total = above.sum_over(Axes::from(-1).keep());
        let none = total.equal(0.0);
        none.choose(&self.mean(), &(above / none.choose(&total.ones_like(), &total)))
    }

    /// The derivative in the concentrations passes through by implicit reparameterization.
    fn sample(&self, key: &Keys) -> Tensor {
        self.concentration.log_gamma_sample(key).softmax(-1)
    }
}

/// Student's t distribution, with heavier tails than the normal one.
///
/// ```
/// use glassgrad::{Tensor, dist::{Distribution, StudentT}};
/// let cauchy = StudentT { freedom: Tensor::from(1.0), mean: Tensor::from(0.0), log_scale: Tensor::from(0.0) };
/// let density = cauchy.log_probability(&Tensor::from(0.0)).exp().item().unwrap();
/// assert!((density - std::f64::consts::FRAC_1_PI).abs() < 1e-15);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct StudentT {
    /// The degrees of freedom.
    pub freedom: Tensor,
    /// The location, which is the mean for more than one degree of freedom.
    pub mean: Tensor,
    /// The logarithm of the scale.
    pub log_scale: Tensor,
}

impl Distribution for StudentT {
    fn log_probability(&self, observed: &Tensor) -> Tensor {
        let standard = (observed - &self.mean) * (-&self.log_scale).exp();
        let half = (&self.freedom + 1.0) * 0.5;
        half.lgamma()
            - (&self.freedom * 0.5).lgamma()
            - (&self.freedom * std::f64::consts::PI).ln() * 0.5
            - &self.log_scale
            - half * (standard.square() / &self.freedom).log1p()
    }

    /// NaN up to one degree of freedom.
    fn mean(&self) -> Tensor {
        let mean = &self.mean + self.freedom.zeros_like();
        self.freedom.gt(1.0).choose(&mean, &mean.full_like(f64::NAN))
    }

    /// Infinite up to two degrees of freedom, and NaN up to one.
    fn variance(&self) -> Tensor {
        let factor = &self.freedom / (&self.freedom - 2.0);
        let infinite = factor.full_like(f64::INFINITY);
        let few = self.freedom.gt(1.0).choose(&infinite, &factor.full_like(f64::NAN));
        (&self.log_scale * 2.0).exp() * self.freedom.gt(2.0).choose(&factor, &few)
    }

    fn mode(&self) -> Tensor {
        &self.mean + self.freedom.zeros_like()
    }

    /// The derivative passes through: exactly in mean and scale, and by implicit reparameterization in the degrees of freedom.
    fn sample(&self, key: &Keys) -> Tensor {
        let like = &self.freedom + self.mean.zeros_like();
        let noise = Tensor::normal(key.fold(0), like.shape()).cast(like.dtype());
        // A normal number over the root of a χ² variate, twice a gamma one, by its degrees of freedom.
        let log_share = (&like * 0.5).log_gamma_sample(key.fold(1)) - (&like * 0.5).ln();
        &self.mean + self.log_scale.exp() * noise * (log_share * -0.5).exp()
    }
}
