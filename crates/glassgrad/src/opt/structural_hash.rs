//! Structural hashes: graphs with the same one run the same plan.

use crate::dtype::DType;
use crate::expr::{Distribution, MultiOp, Node, Op};
pub(crate) use crate::hashing::Fingerprint;

/// What a structural hash takes of a graph.
pub(super) trait StructuralHash {
    /// A leaf: its shape and type, not its value.
    fn leaf(&mut self, node: &Node);
    /// A node of numbered inputs. Returns whether the hash determines the node, so that its plan may be cached.
    fn node(&mut self, node: &Node, inputs: &[usize]) -> bool;
    /// An operation with several outputs of numbered inputs, after its subgraph.
    fn multi(&mut self, op: &MultiOp, inputs: &[usize]);
    /// A node of a listed graph, as [`StructuralHash::node`].
    fn listed(&mut self, op: &Op, inputs: &[usize], shape: &[usize], dtype: DType) -> bool;
    /// An operation alone.
    fn operation(&mut self, op: &Op) -> bool;
}

impl StructuralHash for Fingerprint {
    fn leaf(&mut self, node: &Node) {
        self.word(1);
        self.words(&node.shape);
        self.word(node.dtype as u64);
    }

    fn node(&mut self, node: &Node, inputs: &[usize]) -> bool {
        self.word(2 | (node.dtype as u64) << 8 | (inputs.len() as u64) << 16);
        for pair in inputs.chunks(2) {
            self.word(pair.iter().fold(0, |word, input| word << 32 | *input as u64));
        }
        // Products hash their sizes; elementwise operations have those of their inputs.
        if !matches!(node.op, Op::Einsum(_) | Op::Map(_) | Op::Add | Op::Variable | Op::StopGradient | Op::Cast) {
            self.words(&node.shape);
        }
        self.operation(&node.op)
    }

    fn multi(&mut self, op: &MultiOp, inputs: &[usize]) {
        self.word(3);
        self.words(inputs);
        op.hash(self);
    }

    fn listed(&mut self, op: &Op, inputs: &[usize], shape: &[usize], dtype: DType) -> bool {
        self.words(inputs);
        self.words(shape);
        self.word(dtype as u64);
        self.operation(op)
    }

    fn operation(&mut self, op: &Op) -> bool {
        // The names of operations are numbers here; their order does not matter.
        let (number, payload): (u64, &[usize]) = match op {
            Op::Leaf => (1, &[]),
            Op::Placeholder => (2, &[]),
            Op::Variable => (3, &[]),
            Op::Map(formula) => {
                self.word(4);
                self.shared(formula);
                return true;
            }
            Op::Einsum(einsum) => {
                self.word(5);
                self.shared(einsum);
                return true;
            }
            Op::Add => (6, &[]),
            Op::Cast => (7, &[]),
            Op::Reshape => (8, &[]),
            Op::ReadView(view) => {
                self.word(9);
                self.shared(view);
                return true;
            }
            Op::ScatterView(view) => {
                self.word(10);
                self.shared(view);
                return true;
            }
            Op::Concatenate(axis) => (11, std::slice::from_ref(axis)),
            Op::Gather(axis) => (12, std::slice::from_ref(axis)),
            Op::ScatterAdd(axis) => (13, std::slice::from_ref(axis)),
            Op::Compare(relation) => {
                self.word(14);
                self.word(*relation as u64);
                return true;
            }
            Op::Logic(logic) => {
                self.word(15);
                self.word(*logic as u64);
                return true;
            }
            Op::Select => (16, &[]),
            Op::Max(axes) => (17, axes),
            Op::ArgMax(axis) => (18, std::slice::from_ref(axis)),
            Op::OneHot(operation) => {
                self.word(19);
                self.text(operation);
                return true;
            }
            Op::ArgSort { descending } => {
                self.word(27);
                self.word(u64::from(*descending));
                return true;
            }
            Op::Draw(distribution) => {
                self.word(28);
                self.text(distribution.name());
                if let Distribution::Keys(numbers) = distribution {
                    self.word(numbers.len() as u64);
                    numbers.iter().for_each(|number| self.word(*number));
                }
                return true;
            }
            Op::StopGradient => (20, &[]),
            Op::ControlDependency => (26, &[]),
            Op::GetOutput(number) => (22, std::slice::from_ref(number)),
            Op::Collective(collective) => {
                self.word(29);
                self.words(&collective.numbers());
                return true;
            }
            Op::Custom(custom) => {
                let Some(key) = custom.0.key() else { return false };
                self.word(23);
                self.text(custom.0.name());
                self.text(&key);
                return true;
            }
            Op::Failed(_) => return false,
        };
        self.word(number);
        self.words(payload);
        true
    }
}
