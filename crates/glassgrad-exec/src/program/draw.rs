//! Random draws by the counter-based generator.

use std::fmt;
use std::sync::Arc;

use crate::array::Buffer;
use crate::dtype::DType;
use crate::rng::Key;

/// What the counter-based generator makes of a key: for each index a number that depends on the key and the index alone.
///
/// ```
/// use glassgrad::{Tensor, expr::{Distribution, Op}, rng::Key};
/// assert!(matches!(Tensor::uniform(Key::new(1), 3).op(), Op::Draw(Distribution::Uniform)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform from 0 up to but not including 1, 32-bit.
    Uniform,
    /// Uniform between 0 and 1, both excluded, 64-bit.
    OpenUniform,
    /// The standard normal distribution, 32-bit.
    Normal,
    /// A permutation of as many integers as are drawn.
    Permutation,
    /// Keys derived from the key, one for each of these numbers.
    Keys(Arc<[u64]>),
}

impl Distribution {
    /// The element type of what is drawn.
    pub fn dtype(&self) -> DType {
        match self {
            Distribution::Uniform | Distribution::Normal => DType::F32,
            Distribution::OpenUniform => DType::F64,
            Distribution::Permutation | Distribution::Keys(_) => DType::I64,
        }
    }

    /// The name under which programs show it.
    pub fn name(&self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::OpenUniform => "open_uniform",
            Distribution::Normal => "normal",
            Distribution::Permutation => "permutation",
            Distribution::Keys(_) => "keys",
        }
    }

    /// All that is drawn from one key, by definition.
    pub fn numbers(&self, key: Key, count: usize) -> Buffer {
        let of = |number: &dyn Fn(u64) -> f64| Buffer::from_fn(self.dtype(), count, |index| number(index as u64));
        match self {
            Distribution::Uniform => of(&|index| key.uniform(index)),
            Distribution::OpenUniform => of(&|index| key.open_uniform(index)),
            Distribution::Normal => of(&|index| key.normal(index)),
            Distribution::Permutation => {
                Buffer::I64(key.permutation(count).iter().map(|place| *place as i64).collect())
            }
            Distribution::Keys(numbers) => {
                Buffer::I64(numbers.iter().map(|number| key.fold(*number).0 as i64).collect())
            }
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
