//! Einstein notation: the one multiplication of tensors.
//!
//! An [`Einsum`] multiplies its operands element by element over all labels, and sums over the labels
//! that the output does not have. It is closed under transposition because nothing is forbidden: a
//! label may repeat inside an operand (a diagonal is read), repeat in the output (a delta: off the
//! diagonal the result is zero), or stand in the output alone (the result does not depend on it). So
//! products, contractions, outer products, transposes, sums, broadcasts, diagonals and unit tensors
//! are all einsums, and the pullback of an einsum is one: operand and output change places.

use std::collections::BTreeMap;
use std::fmt;

use crate::hashing::{Fingerprint, Structure};
use crate::shape::Shape;

/// A label: its number is its place in the list of extents.
///
/// ```
/// use glassgrad::einsum::{Einsum, Label};
/// let (row, column): (Label, Label) = (0, 1);
/// assert_eq!(Einsum::new(vec![vec![row, column]], vec![row], vec![2, 3]).summed(), [column]);
/// ```
pub type Label = usize;

/// A product of tensors in Einstein notation, with sizes.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// let product = Einsum::parse("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap();
/// assert_eq!(product.output_shape().to_string(), "[2, 4]");
/// // The pullback of the second operand: the cotangent takes the place of the output.
/// assert_eq!(product.pullback(1, 0).to_string(), "ik,ij->jk");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Einsum {
    /// A factor of the whole product, from rules; numbers of the user are operands.
    pub coefficient: f64,
    /// The labels of each operand's axes.
    pub operands: Vec<Vec<Label>>,
    /// For each operand, whether its exact zeros win over infinite and NaN factors. Rules use this for
    /// the (co)tangent behind a choice; products across it are not re-associated.
    pub strong: Vec<bool>,
    /// The labels of the output's axes.
    pub output: Vec<Label>,
    /// The size of each label.
    pub extents: Vec<usize>,
}

/// What is wrong with a product in Einstein notation.
///
/// ```
/// use glassgrad::einsum::Einsum;
/// let error = Einsum::parse("i->j", &[&[2]]).unwrap_err();
/// assert!(error.to_string().contains("label 'j' of the output is in no operand"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EinsumError(pub String);

impl fmt::Display for EinsumError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What stands for axes without labels.
const ELLIPSIS: &str = "...";

/// The axes that the ellipsis stands for, of all operands together. Their labels are the first ones.
struct Ellipsis {
    shape: Shape,
}

impl Ellipsis {
    fn of(inputs: &[&str], shapes: &[&[usize]]) -> Result<Ellipsis, String> {
        let mut common = Shape::scalar();
        for (names, shape) in inputs.iter().zip(shapes) {
            let Some((before, after)) = names.split_once(ELLIPSIS) else { continue };
            let (start, behind) = (before.chars().count(), after.chars().count());
            // Operands with too few axes are reported with their labels.
            let Some(axes) = shape.get(start..shape.len().saturating_sub(behind)) else { continue };
            let axes = Shape::from(axes);
            common = match common.broadcast(&axes) {
                Some(common) => common,
                None => return Err(format!("the axes {common} and {axes} of the ellipsis do not broadcast together")),
            };
        }
        Ok(Ellipsis { shape: common })
    }

    /// The labels of an operand's axes under the ellipsis; an axis that is stretched has a label of its own, of size 1.
    fn labels(&self, axes: &[usize], extents: &mut Vec<usize>) -> Vec<Label> {
        let missing = self.shape.rank() - axes.len();
        let label = |(axis, size): (usize, &usize)| {
            if *size == self.shape[missing + axis] {
                return missing + axis;
            }
            extents.push(*size);
            extents.len() - 1
        };
        axes.iter().enumerate().map(label).collect()
    }
}

/// The output of a notation without an arrow: the ellipsis, and then the labels that occur once, in alphabetical order.
fn implicit_output(inputs: &str) -> String {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for name in inputs.chars().filter(|name| name.is_alphabetic()) {
        *counts.entry(name).or_default() += 1;
    }
    let once = counts.into_iter().filter(|(_, count)| *count == 1).map(|(name, _)| name);
    let ellipsis = if inputs.contains(ELLIPSIS) { ELLIPSIS } else { "" };
    ellipsis.chars().chain(once).collect()
}

/// The labels of a part of the output; one that no operand has gets the size behind its equals sign.
fn output_labels(
    names: &str,
    labels: &mut BTreeMap<char, Label>,
    extents: &mut Vec<usize>,
) -> Result<Vec<Label>, String> {
    let mut result = Vec::new();
    let mut names = names.chars().peekable();
    while let Some(name) = names.next() {
        if !name.is_alphabetic() {
            return Err(format!("'{name}' is no label; labels are letters"));
        }
        let mut size = String::new();
        if names.next_if_eq(&'=').is_some() {
            while let Some(digit) = names.next_if(char::is_ascii_digit) {
                size.push(digit);
            }
        }
        let label = match (labels.get(&name), size.parse::<usize>()) {
            (Some(label), Ok(size)) if extents[*label] != size => {
                return Err(format!("label '{name}' has size {} and size {size}", extents[*label]));
            }
            (Some(label), _) => *label,
            (None, Ok(size)) => {
                extents.push(size);
                labels.insert(name, extents.len() - 1);
                extents.len() - 1
            }
            (None, Err(_)) => {
                return Err(format!("label '{name}' of the output is in no operand; give its size: {name}=3"));
            }
        };
        result.push(label);
    }
    Ok(result)
}

impl Einsum {
    /// Reads a notation such as `ij,jk->ik` for operands of these shapes.
    ///
    /// A label of the output that no operand has needs a size, given after an equals sign: `i->ij=3`
    /// repeats a vector in three columns. An ellipsis `...` stands for the axes that have no label; those of all operands
    /// broadcast together. Without an arrow, the output has the axes of the ellipsis and then the labels that occur once,
    /// in alphabetical order.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let spread = Einsum::parse("i->ij=3", &[&[2]]).unwrap();
    /// assert_eq!(spread.output_shape().to_vec(), [2, 3]);
    /// let error = Einsum::parse("ij,jk->ik", &[&[2, 3], &[4, 5]]).unwrap_err();
    /// assert_eq!(error.to_string(), "\"ij,jk->ik\": label 'j' has size 3 and size 4");
    /// ```
    pub fn parse(notation: &str, shapes: &[&[usize]]) -> Result<Einsum, EinsumError> {
        let error = |message: String| Err(EinsumError(format!("\"{notation}\": {message}")));
        let compact: String = notation.chars().filter(|character| !character.is_whitespace()).collect();
        let (inputs, output) = match compact.split_once("->") {
            Some((inputs, output)) => (inputs, output.to_owned()),
            None => (&compact[..], implicit_output(&compact)),
        };
        let inputs: Vec<&str> =
            if inputs.is_empty() && shapes.is_empty() { Vec::new() } else { inputs.split(',').collect() };
        if inputs.len() != shapes.len() {
            return error(format!("it names {} operands, but there are {}", inputs.len(), shapes.len()));
        }
        let ellipsis = match Ellipsis::of(&inputs, shapes) {
            Ok(ellipsis) => ellipsis,
            Err(message) => return error(message),
        };
        let mut labels: BTreeMap<char, Label> = BTreeMap::new();
        let mut extents: Vec<usize> = ellipsis.shape.to_vec();
        let mut operands = Vec::new();
        for (number, (names, shape)) in inputs.iter().zip(shapes).enumerate() {
            let (before, after) = names.split_once(ELLIPSIS).unwrap_or((names, ""));
            let unnamed = shape.len().checked_sub(before.chars().count() + after.chars().count());
            let Some(unnamed) = unnamed.filter(|unnamed| names.contains(ELLIPSIS) || *unnamed == 0) else {
                let shape = Shape::from(*shape);
                return error(format!("operand {} has the labels \"{names}\", but the shape {shape}", number + 1));
            };
            let start = before.chars().count();
            let mut operand = Vec::new();
            let named = before.chars().zip(0..).chain(after.chars().zip(start + unnamed..));
            for (name, axis) in named {
                let size = shape[axis];
                if !name.is_alphabetic() {
                    return error(format!("'{name}' is no label; labels are letters"));
                }
                let label = *labels.entry(name).or_insert_with(|| {
                    extents.push(size);
                    extents.len() - 1
                });
                if extents[label] != size {
                    return error(format!("label '{name}' has size {} and size {size}", extents[label]));
                }
                operand.push(label);
            }
            let stretched = ellipsis.labels(&shape[start..start + unnamed], &mut extents);
            operand.splice(start..start, stretched);
            operands.push(operand);
        }
        let (before, after) = output.split_once(ELLIPSIS).unwrap_or((&output, ""));
        if !output.contains(ELLIPSIS) && ellipsis.shape.rank() > 0 {
            return error(
                "the output lacks the axes of the ellipsis; write \"...\" in it, or sum over labels".to_owned(),
            );
        }
        let mut result = Vec::new();
        for (part, names) in [before, after].into_iter().enumerate() {
            if part == 1 {
                result.extend(0..ellipsis.shape.rank());
            }
            match output_labels(names, &mut labels, &mut extents) {
                Ok(found) => result.extend(found),
                Err(message) => return error(message),
            }
        }
        Ok(Einsum::new(operands, result, extents))
    }

    /// A product from lists of labels; each operand's axes must agree with the extents.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::new(vec![vec![0, 1], vec![1]], vec![0], vec![2, 3]).to_string(), "ij,j->i");
    /// ```
    #[inline]
    pub fn new(operands: Vec<Vec<Label>>, output: Vec<Label>, extents: Vec<usize>) -> Einsum {
        let strong = vec![false; operands.len()];
        Einsum { coefficient: 1.0, operands, strong, output, extents }
    }

    /// The same product times a number.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::elementwise(&[4], 1).scaled(-1.0).to_string(), "-1 i->i");
    /// ```
    #[inline]
    pub fn scaled(mut self, factor: f64) -> Einsum {
        self.coefficient *= factor;
        self
    }

    /// The unit tensor of a shape: δ with the shape twice, the seed of a whole Jacobian.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::unit(&[2, 3]).to_string(), "->ijij");
    /// ```
    #[inline]
    pub fn unit(shape: &[usize]) -> Einsum {
        let labels: Vec<Label> = (0..shape.len()).collect();
        Einsum::new(Vec::new(), labels.iter().chain(&labels).copied().collect(), shape.to_vec())
    }

    /// A permutation of axes: axis k of the result is axis `order[k]` of the operand.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::permutation(&[2, 3, 4], &[2, 0, 1]).output_shape().to_vec(), [4, 2, 3]);
    /// ```
    #[inline]
    pub fn permutation(shape: &[usize], order: &[usize]) -> Einsum {
        Einsum::new(vec![(0..shape.len()).collect()], order.to_vec(), shape.to_vec())
    }

    /// A broadcast to a shape, by the rules of [`Shape::broadcast`]; axes of size 1 are summed away,
    /// which for one element is no sum at all.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::broadcast(&[3], &[2, 3]).to_string(), "j->ij");
    /// ```
    pub fn broadcast(from: &[usize], to: &[usize]) -> Einsum {
        let missing = to.len() - from.len();
        let mut extents = to.to_vec();
        let mut operand = Vec::new();
        for (axis, size) in from.iter().enumerate() {
            if *size == to[missing + axis] {
                operand.push(missing + axis);
            } else {
                extents.push(1);
                operand.push(extents.len() - 1);
            }
        }
        Einsum::new(vec![operand], (0..to.len()).collect(), extents)
    }

    /// The sum over some axes of a shape.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::sum(&[2, 3, 4], &[0, 2]).to_string(), "ijk->j");
    /// ```
    #[inline]
    pub fn sum(shape: &[usize], axes: &[usize]) -> Einsum {
        let kept = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
        Einsum::new(vec![(0..shape.len()).collect()], kept, shape.to_vec())
    }

    /// The product element by element of two operands of one shape.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::elementwise(&[2, 3], 2).to_string(), "ij,ij->ij");
    /// ```
    #[inline]
    pub fn elementwise(shape: &[usize], count: usize) -> Einsum {
        let labels: Vec<Label> = (0..shape.len()).collect();
        Einsum::new(vec![labels.clone(); count], labels, shape.to_vec())
    }

    /// The shape of the output.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert_eq!(Einsum::parse("ij->ji", &[&[2, 3]]).unwrap().output_shape().to_vec(), [3, 2]);
    /// ```
    #[inline]
    pub fn output_shape(&self) -> Shape {
        self.output.iter().map(|label| self.extents[*label]).collect()
    }

    /// The shape that an operand must have.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let product = Einsum::parse("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap();
    /// assert_eq!(product.operand_shape(1).to_vec(), [3, 4]);
    /// ```
    #[inline]
    pub fn operand_shape(&self, operand: usize) -> Shape {
        self.operands[operand].iter().map(|label| self.extents[*label]).collect()
    }

    /// The labels that are summed over: in an operand, not in the output.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let product = Einsum::parse("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap();
    /// assert_eq!(product.summed(), [1]);
    /// ```
    #[inline]
    pub fn summed(&self) -> Vec<Label> {
        let mut summed: Vec<Label> =
            self.operands.iter().flatten().copied().filter(|l| !self.output.contains(l)).collect();
        summed.sort_unstable();
        summed.dedup();
        summed
    }

    /// The pullback of one operand: its cotangent from that of the output, which stands first and has
    /// `lead` axes more in front. The sizes of these are filled in by [`Einsum::with_lead`].
    ///
    /// Operand and output change places; all else stays. The cotangent of a label that only the operand
    /// has is spread, and one that only the output has is summed.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let trace = Einsum::parse("ii->", &[&[3, 3]]).unwrap();
    /// assert_eq!(trace.pullback(0, 0).to_string(), "->ii");
    /// ```
    pub fn pullback(&self, operand: usize, lead: usize) -> Einsum {
        let leading: Vec<Label> = (self.extents.len()..self.extents.len() + lead).collect();
        let prefixed = |labels: &[Label]| leading.iter().chain(labels).copied().collect::<Vec<_>>();
        let mut operands = vec![prefixed(&self.output)];
        operands
            .extend(self.operands.iter().enumerate().filter(|(k, _)| *k != operand).map(|(_, labels)| labels.clone()));
        let strong = std::iter::once(self.is_strong())
            .chain((0..self.strong.len()).filter(|k| *k != operand).map(|k| self.strong[k]));
        let output = prefixed(&self.operands[operand]);
        let extents = self.extents.iter().copied().chain(std::iter::repeat_n(0, lead)).collect();
        Einsum { coefficient: self.coefficient, operands, strong: strong.collect(), output, extents }
    }

    /// The pushforward of one operand: its tangent, with `lead` axes more in front, takes its place.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let product = Einsum::parse("i,i->", &[&[3], &[3]]).unwrap();
    /// assert_eq!(product.pushforward(0, 1).to_string(), "ji,i->j");
    /// ```
    #[inline]
    pub fn pushforward(&self, operand: usize, lead: usize) -> Einsum {
        let leading: Vec<Label> = (self.extents.len()..self.extents.len() + lead).collect();
        let prefixed = |labels: &[Label]| leading.iter().chain(labels).copied().collect::<Vec<_>>();
        let mut operands = self.operands.clone();
        operands[operand] = prefixed(&operands[operand]);
        let mut strong = self.strong.clone();
        strong[operand] |= self.is_strong();
        let extents = self.extents.iter().copied().chain(std::iter::repeat_n(0, lead)).collect();
        Einsum { coefficient: self.coefficient, operands, strong, output: prefixed(&self.output), extents }
    }

    /// Fills in the sizes of the leading labels that a pullback or pushforward added.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let pulled = Einsum::parse("i->", &[&[3]]).unwrap().pullback(0, 1).with_lead(&[5]);
    /// assert_eq!(pulled.output_shape().to_vec(), [5, 3]);
    /// ```
    #[inline]
    pub fn with_lead(mut self, sizes: &[usize]) -> Einsum {
        let start = self.extents.len() - sizes.len();
        self.extents[start..].copy_from_slice(sizes);
        self
    }

    /// A common leading axis of `size` for the output and for those operands that have one.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let product = Einsum::parse("ij,j->i", &[&[2, 3], &[3]]).unwrap();
    /// assert_eq!(product.batched(7, &[false, true]).to_string(), "ij,kj->ki");
    /// ```
    pub fn batched(&self, size: usize, has_axis: &[bool]) -> Einsum {
        let label = self.extents.len();
        let prefixed = |labels: &[Label]| std::iter::once(label).chain(labels.iter().copied()).collect::<Vec<_>>();
        let operands = self.operands.iter().zip(has_axis).map(|(l, has)| if *has { prefixed(l) } else { l.clone() });
        Einsum {
            coefficient: self.coefficient,
            operands: operands.collect(),
            strong: self.strong.clone(),
            output: prefixed(&self.output),
            extents: self.extents.iter().copied().chain([size]).collect(),
        }
    }

    /// Whether the zeros of some operand win.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert!(!Einsum::elementwise(&[2], 2).is_strong());
    /// ```
    #[inline]
    pub fn is_strong(&self) -> bool {
        self.strong.contains(&true)
    }

    /// The same product in which the zeros of one operand win, if they should.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// let product = Einsum::elementwise(&[2], 2).strong_in(0, true);
    /// assert_eq!((product.is_strong(), product.to_string()), (true, "!i,i->i".into()));
    /// ```
    #[inline]
    pub fn strong_in(mut self, operand: usize, strong: bool) -> Einsum {
        self.strong[operand] |= strong;
        self
    }

    /// Whether this is a product of one operand with itself left as it is.
    ///
    /// ```
    /// use glassgrad::einsum::Einsum;
    /// assert!(Einsum::permutation(&[2, 3], &[0, 1]).is_identity());
    /// assert!(!Einsum::parse("ii->ii", &[&[2, 2]]).unwrap().is_identity());
    /// ```
    #[inline]
    pub fn is_identity(&self) -> bool {
        self.coefficient == 1.0 && self.operands.len() == 1 && self.operands[0] == self.output && {
            self.output.iter().enumerate().all(|(axis, label)| !self.output[..axis].contains(label))
        }
    }
}

/// The notation, with letters in the order of appearance; a coefficient stands in front, and an operand
/// whose zeros win has an exclamation mark.
impl Structure for Einsum {
    fn mix_into(&self, fingerprint: &mut Fingerprint) {
        fingerprint.word(self.coefficient.to_bits());
        fingerprint.word(self.operands.len() as u64);
        self.operands.iter().for_each(|labels| fingerprint.words(labels));
        self.strong.iter().for_each(|strong| fingerprint.word(u64::from(*strong)));
        fingerprint.words(&self.output);
        fingerprint.words(&self.extents);
    }
}

impl fmt::Display for Einsum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Labels that came from a notation keep the alphabet from i, as people write it.
        let letter = |label: &Label| {
            let alphabet: Vec<char> = ('i'..='z').chain('a'..='h').chain('A'..='Z').chain('α'..='ω').collect();
            alphabet.get(*label).map_or_else(|| format!("({label})"), char::to_string)
        };
        let written = |labels: &Vec<Label>| labels.iter().map(letter).collect::<String>();
        if self.coefficient != 1.0 {
            write!(formatter, "{} ", self.coefficient)?;
        }
        let mark = |strong: &bool| if *strong { "!" } else { "" };
        let operands: Vec<String> = self
            .operands
            .iter()
            .zip(&self.strong)
            .map(|(labels, strong)| mark(strong).to_owned() + &written(labels))
            .collect();
        write!(formatter, "{}->{}", operands.join(","), written(&self.output))
    }
}
