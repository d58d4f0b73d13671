//! Fingerprints of structure: graphs with the same one run the same program.
//!
//! 128 bits, mixed word by word. Two different graphs of one process would share a fingerprint by chance once in
//! about 2¹²⁸ pairs.

use crate::dtype::DType;
use crate::einsum::Einsum;
use crate::expr::{Node, Op};
use crate::formula::{Formula, Node as FormulaNode};
use crate::view::View;

/// Words mixed into 128 bits.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint {
    first: u64,
    second: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint { first: 0x243F_6A88_85A3_08D3, second: 0x1319_8A2E_0370_7344 }
    }
}

impl Fingerprint {
    #[inline]
    pub(crate) fn word(&mut self, word: u64) {
        // Two multiplications whose upper halves fold back, with different odd factors.
        let mix = |state: u64, factor: u64| {
            let product = u128::from(state ^ word) * u128::from(factor);
            (product as u64) ^ ((product >> 64) as u64)
        };
        self.first = mix(self.first, 0x9E37_79B9_7F4A_7C15).rotate_left(23);
        self.second = mix(self.second.wrapping_add(word), 0xC2B2_AE3D_27D4_EB4F).rotate_left(41) ^ word;
    }

    fn words(&mut self, words: &[usize]) {
        self.word(words.len() as u64);
        words.iter().for_each(|word| self.word(*word as u64));
    }

    pub(crate) fn finish(mut self) -> u128 {
        self.word(0x5851_F42D_4C95_7F2D);
        self.word(self.first);
        (u128::from(self.first) << 64) | u128::from(self.second)
    }

    /// A leaf: its shape and type, not its value.
    pub(crate) fn leaf(&mut self, node: &Node) {
        self.word(1);
        self.words(&node.shape);
        self.word(node.dtype as u64);
    }

    /// A node of numbered inputs. Whether nodes that look the same are the same.
    pub(crate) fn node(&mut self, node: &Node, inputs: &[usize]) -> bool {
        self.word(2);
        self.words(inputs);
        self.words(&node.shape);
        self.word(node.dtype as u64);
        self.operation(&node.op)
    }

    /// A node of a listed graph, as [`Fingerprint::node`].
    pub(super) fn listed(&mut self, op: &Op, inputs: &[usize], shape: &[usize], dtype: DType) -> bool {
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
                self.formula(formula);
                return true;
            }
            Op::Einsum(einsum) => {
                self.word(5);
                self.einsum(einsum);
                return true;
            }
            Op::Add => (6, &[]),
            Op::Cast => (7, &[]),
            Op::Reshape => (8, &[]),
            Op::Read(view) => {
                self.word(9);
                self.view(view);
                return true;
            }
            Op::Spread(view) => {
                self.word(10);
                self.view(view);
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
            Op::Largest(axis) => (17, std::slice::from_ref(axis)),
            Op::LargestPlace(axis) => (18, std::slice::from_ref(axis)),
            Op::OneHot => (19, &[]),
            Op::Stop => (20, &[]),
            Op::Scan(body) => {
                self.word(21);
                self.words(&[body.length, body.carries.len(), body.entries.len()]);
                return true;
            }
            Op::Region(region) => {
                self.word(24);
                self.words(&region.awaited);
                self.words(&[region.body.carries.len()]);
                return true;
            }
            Op::Sweep(sweep) => {
                self.word(25);
                let body = &sweep.body;
                self.words(&[body.length, body.carries.len(), body.entries.len()]);
                self.words(&[sweep.states, sweep.sequences, sweep.snapshots]);
                return true;
            }
            Op::After => (26, &[]),
            Op::Part(number) => (22, std::slice::from_ref(number)),
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

    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        text.bytes().for_each(|byte| self.word(u64::from(byte)));
    }

    pub(super) fn einsum(&mut self, einsum: &Einsum) {
        self.word(einsum.coefficient.to_bits());
        self.word(einsum.operands.len() as u64);
        einsum.operands.iter().for_each(|labels| self.words(labels));
        einsum.strong.iter().for_each(|strong| self.word(u64::from(*strong)));
        self.words(&einsum.output);
        self.words(&einsum.extents);
    }

    fn view(&mut self, view: &View) {
        self.words(&view.input);
        for axis in &view.axes {
            self.word(axis.offset as u64);
            self.word(axis.steps.len() as u64);
            for (along, step) in &axis.steps {
                self.word(*along as u64);
                self.word(*step as u64);
            }
        }
    }

    fn formula(&mut self, formula: &Formula) {
        self.word(formula.nodes.len() as u64);
        for node in &formula.nodes {
            match *node {
                FormulaNode::Number(number) => {
                    self.word(1);
                    self.word(number.to_bits());
                }
                FormulaNode::Variable(variable) => {
                    self.word(2);
                    self.word(variable as u64);
                }
                FormulaNode::Unary(operation, x, parameter) => {
                    self.word(3 | (operation as u64) << 8);
                    self.word(x as u64);
                    self.word(parameter.to_bits());
                }
                FormulaNode::Binary(operation, a, b) => {
                    self.word(4 | (operation as u64) << 8);
                    self.words(&[a, b]);
                }
                FormulaNode::Choose(left, relation, right, taken, otherwise) => {
                    self.word(5 | (relation as u64) << 8);
                    self.words(&[left, right, taken, otherwise]);
                }
            }
        }
        self.words(&formula.outputs);
    }
}
