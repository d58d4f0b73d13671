//! Random tensor expressions: products with diagonals, broadcasts and shared nodes.

use glassgrad::Tensor;
use proptest::prelude::*;

use crate::cases::random_cases;
use crate::check::agrees;
use crate::tensors::normal;

/// One step of a random expression of square matrices and vectors.
#[derive(Clone, Debug)]
enum Step {
    Matmul(usize, usize),
    Times(usize, usize),
    Add(usize, usize),
    Transpose(usize),
    Tanh(usize),
    Exp(usize),
    Square(usize),
    RowSums(usize),
    Diagonal(usize),
    Softmax(usize),
    Outer(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let pair = || (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let one = || any::<prop::sample::Index>();
    let at = |index: prop::sample::Index| index.index(1000);
    prop_oneof![
        pair().prop_map(move |(a, b)| Step::Matmul(at(a), at(b))),
        pair().prop_map(move |(a, b)| Step::Times(at(a), at(b))),
        pair().prop_map(move |(a, b)| Step::Add(at(a), at(b))),
        pair().prop_map(move |(a, b)| Step::Outer(at(a), at(b))),
        one().prop_map(move |a| Step::Transpose(at(a))),
        one().prop_map(move |a| Step::Tanh(at(a))),
        one().prop_map(move |a| Step::Exp(at(a))),
        one().prop_map(move |a| Step::Square(at(a))),
        one().prop_map(move |a| Step::RowSums(at(a))),
        one().prop_map(move |a| Step::Diagonal(at(a))),
        one().prop_map(move |a| Step::Softmax(at(a))),
    ]
}

const SIZE: usize = 3;

/// The value of an expression: every node is a square matrix, kept in bounds by a factor.
fn value(steps: &[Step], x: &Tensor, constants: &[Tensor]) -> Tensor {
    let mut nodes = vec![x.clone()];
    nodes.extend(constants.iter().cloned());
    for step in steps {
        let at = |place: &usize| &nodes[place % nodes.len()];
        let next = match step {
            Step::Matmul(a, b) => at(a).matmul(at(b)) * 0.5,
            Step::Times(a, b) => at(a) * at(b),
            Step::Add(a, b) => at(a) - at(b) * 0.5,
            Step::Transpose(a) => at(a).transpose(),
            Step::Tanh(a) => at(a).tanh(),
            Step::Exp(a) => at(a).tanh().exp(),
            Step::Square(a) => at(a).tanh().square(),
            Step::RowSums(a) => at(a).sum_over(1).unsqueeze(1).broadcast_to([SIZE, SIZE]) * 0.3,
            Step::Diagonal(a) => Tensor::einsum("ii->i", [at(a)]).unsqueeze(0) * at(a),
            Step::Softmax(a) => at(a).softmax(1),
            Step::Outer(a, b) => Tensor::einsum("ij,ik->jk", [at(a), at(b)]) * 0.5,
        };
        nodes.push(next);
    }
    let last = nodes[nodes.len() - 1].tanh();
    last.square().sum() + (x * nodes[nodes.len() - 2].tanh()).sum()
}

proptest! {
    #![proptest_config(random_cases(48))]

    #[test]
    fn hessians_of_random_expressions_agree(steps in prop::collection::vec(step(), 1..7), seed in 0_u64..1000) {
        let constants = [normal(seed, &[SIZE, SIZE]), normal(seed + 1, &[SIZE, SIZE])];
        agrees("random", |x: &Tensor| value(&steps, x, &constants), &normal(seed + 2, &[SIZE, SIZE]));
    }
}
