//! Reducing the learning rate on a plateau of the loss.

use crate::formula::Symbol;
use crate::ops::{Algebra as _, Relation};
use crate::optim::{Link, Rule, Slot};

/// Multiplies updates by a factor that decays whenever the loss has not improved for some steps. The loss must be given,
/// with [`Optimizer::update_with_loss`](crate::optim::Optimizer::update_with_loss); without it nothing changes.
///
/// ```
/// use glassgrad::optim::{Optimizer, Plateau};
/// assert_eq!(Optimizer::adam(0.1).link(Plateau::new(0.1, 10)).names(), ["Adam", "plateau"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The decay of the factor.
    pub factor: f64,
    /// The number of steps without improvement that are tolerated.
    pub patience: u64,
    /// The relative decrease that counts as an improvement.
    pub threshold: f64,
}

impl Plateau {
    /// With a threshold of 10⁻⁴.
    ///
    /// ```
    /// use glassgrad::optim::Plateau;
    /// assert_eq!(Plateau::new(0.5, 3).threshold, 1e-4);
    /// ```
    pub fn new(factor: f64, patience: u64) -> Plateau {
        Plateau { factor, patience, threshold: 1e-4 }
    }
}

impl Link for Plateau {
    fn name(&self) -> &'static str {
        "plateau"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![
            Slot::scalar("best loss", "b", f64::INFINITY),
            Slot::scalar("steps without improvement", "n", 0.0),
            Slot::scalar("factor", "f", 1.0),
        ]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let Some(loss) = rule.loss() else { return rule.update() };
        let (best, waited, factor) = (rule.slot("b"), rule.slot("n"), rule.slot("f"));
        let threshold = rule.constant("θ", self.threshold);
        let (decay, patience) = (rule.constant("γ", self.factor), rule.constant("p", self.patience as f64));
        let [zero, one, largest] = [0.0, 1.0, f64::MAX].map(|number| rule.number(number));
        // Relative to the magnitude, so that it also holds for negative losses.
        let bar = rule.define("q", best - threshold * best.abs().min(largest));
        let waited = rule.define("k", Symbol::choose(loss, Relation::Less, bar, zero, waited + one));
        rule.set("b", Symbol::choose(loss, Relation::Less, bar, loss, best));
        rule.set("n", Symbol::choose(waited, Relation::Greater, patience, zero, waited));
        // A loss that does not fall shortens the steps after this one.
        rule.set("f", Symbol::choose(waited, Relation::Greater, patience, decay * factor, factor));
        factor * rule.update()
    }
}
