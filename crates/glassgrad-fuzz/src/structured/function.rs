//! Random functions of lists of tensors: every decision follows from the seed and the shapes.

use glassgrad::Tensor;
use glassgrad::dtype::DType;
use glassgrad::rng::Key;

use crate::random::Random;

/// A random function with its point.
#[derive(Clone, Debug)]
pub struct Function {
    seed: u64,
    /// The arguments.
    pub point: Vec<Tensor>,
    /// Whether the arguments have several types of real numbers.
    pub mixed: bool,
    steps: usize,
}

impl Function {
    /// The function of a seed.
    pub fn new(seed: u64) -> Function {
        let mut random = Random::new(seed);
        let extents = [random.below(4) + 1, random.below(3) + 2];
        let mut shape = || -> Vec<usize> {
            let [n, m] = extents;
            match random.below(12) {
                0 => Vec::new(),
                1 => vec![1],
                2 => vec![0],
                3 => vec![n, 1],
                4 | 5 => vec![n, m],
                6 => vec![m, m],
                7 | 8 => vec![m],
                _ => vec![n],
            }
        };
        let shapes: Vec<Vec<usize>> = (0..1 + seed as usize % 3).map(|_| shape()).collect();
        let mixed = random.chance(0.08);
        let point = shapes
            .iter()
            .enumerate()
            .map(|(place, shape)| {
                let tensor = Tensor::normal(Key::new(seed ^ (place as u64 + 1)), &shape[..]);
                if mixed && place == 0 { tensor.cast(DType::F32) } else { tensor.cast(DType::F64) }
            })
            .collect();
        Function { seed, point, mixed, steps: 2 + random.below(7) }
    }

    /// The function as text, step by step.
    pub fn text(&self) -> String {
        let mut log = Vec::new();
        let _ = self.values(&self.point, &mut log);
        let shapes: Vec<String> = self.point.iter().map(|leaf| leaf.describe()).collect();
        format!("arguments {}\n{}", shapes.join(", "), log.join("\n"))
    }

    /// A number: the sum of everything that was not used, or a function of it.
    pub fn number(&self, x: &[Tensor]) -> Tensor {
        let values = self.values(x, &mut Vec::new());
        let total = values.iter().rev().take(3).fold(Tensor::from(0.0), |sum, value| sum + value.sum());
        // A ridge makes many of the systems regular.
        match self.seed % 4 {
            0 => total,
            _ => x.iter().fold(total, |sum, leaf| sum + leaf.cast(DType::F64).square().sum() * 0.7),
        }
    }

    /// The last tensor.
    pub fn tensor(&self, x: &[Tensor]) -> Tensor {
        self.values(x, &mut Vec::new()).pop().unwrap_or_else(|| Tensor::from(0.0))
    }

    fn values(&self, x: &[Tensor], log: &mut Vec<String>) -> Vec<Tensor> {
        let mut random = Random::new(self.seed.wrapping_mul(31).wrapping_add(7));
        let mut values: Vec<Tensor> = x.iter().map(|leaf| leaf.cast(DType::F64)).collect();
        for step in 0..self.steps {
            let place = random.below(values.len());
            let a = values[place].clone();
            let same: Vec<usize> = (0..values.len()).filter(|k| values[*k].shape() == a.shape()).collect();
            let other = *random.choose(&same);
            let b = values[other].clone();
            let constant =
                Tensor::normal(Key::new(self.seed ^ (0x100 + step as u64)), a.shape().clone()).cast(DType::F64);
            let (name, value) = match random.below(17) {
                0 => ("sin", a.sin()),
                1 => ("exp(sin)", a.sin().exp()),
                2 => ("square", a.square()),
                3 => ("tanh", a.tanh()),
                4 => ("times", &a * &b),
                5 => ("plus", &a + &b),
                6 => ("times constant", &a * &constant),
                7 => ("sum", a.sum()),
                8 => ("square of sum", a.sum().square()),
                9 if a.shape().elements() > 0 => ("logsumexp", a.logsumexp()),
                10 if a.rank() == 2 && a.shape().elements() > 0 => ("gram", a.transpose().matmul(&a)),
                11 if a.rank() == 1 => ("outer", Tensor::einsum("i,j->ij", [&a, &b])),
                12 => ("scaled by sum", &a * b.sum()),
                13 if a.rank() == 2 => {
                    let weights = Tensor::normal(Key::new(self.seed ^ 0x999), [a.shape()[1], 3]).cast(DType::F64);
                    ("linear layer", a.matmul(&weights).tanh())
                }
                14 => ("flattened", a.reshape([a.shape().elements()])),
                15 if a.rank() == 1 && a.shape()[0] > 1 => {
                    ("differences", a.slice(&[(1..).into()]) - a.slice(&[(..-1).into()]))
                }
                _ => ("cubed", a.powi(3) * 0.3),
            };
            log.push(format!("v{} = {name} of v{place}, v{other}", values.len()));
            values.push(value);
        }
        values
    }
}
