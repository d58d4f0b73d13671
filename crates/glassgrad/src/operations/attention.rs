//! Scaled dot-product attention, of which no matrix of scores is kept.
//!
//! Queries are cut into tiles, and a loop goes over them: each step computes the scores of one tile, and reverse mode
//! computes them anew instead of keeping them. Memory grows with the number of queries plus that of keys, in both
//! directions and for second derivatives, while the numbers are those of the plain formula.

use crate::diff::{FusedRegion, checkpoint, scan};
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::{AttentionKernel, Axes, FusedKernel, IntoTensor, Tensor};
use crate::shape::Shape;

/// How many queries have their scores computed at a time.
const TILE: usize = 128;

/// Up to this many tiles of causal attention are separate operations, each over the keys that its queries see. More are a loop, whose
/// iterations all have the same shapes.
const MOST_UNROLLED: usize = 16;

/// What [`Tensor::scaled_dot_product_attention`] lets a query see, and how scores are scaled. By default it sees every key,
/// and the scale is 1/√width.
///
/// ```
/// use glassgrad::{Tensor, operations::Attention, rng::Key};
/// let x = Tensor::normal(Key::new(1), [2, 5, 4]);
/// let causal = x.scaled_dot_product_attention(&x, &x, &Attention::default().causal());
/// let mask = Tensor::ones([5, 5]).tril(0).gt(0.0);
/// let masked = x.scaled_dot_product_attention(&x, &x, &Attention::default().mask(&mask));
/// assert!((causal - masked).abs().max().item().unwrap() < 1e-6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention {
    mask: Option<Tensor>,
    causal_from: Option<Tensor>,
    /// Whether the first query is known to stand at the first key.
    begins_at_zero: bool,
    scale: Option<f64>,
}

impl Attention {
    /// Which query sees which key: truth values, or numbers that are added to the scores. Its shape broadcasts to
    /// `[.., heads, queries, keys]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Attention};
    /// let (q, v) = (Tensor::ones([1, 2]), Tensor::from([[1.0, 2.0], [3.0, 4.0]]));
    /// let second = Attention::default().mask(&Tensor::from([false, true]));
    /// assert_eq!(q.scaled_dot_product_attention(&v, &v, &second).to_string(), "[[3, 4]]");
    /// ```
    pub fn mask(mut self, mask: &Tensor) -> Attention {
        self.mask = Some(mask.clone());
        self
    }

    /// A query sees only the keys up to its own place.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Attention};
    /// let x = Tensor::from([[1.0], [2.0]]);
    /// let seen = x.scaled_dot_product_attention(&x, &x, &Attention::default().causal());
    /// assert_eq!(seen.to_vec::<f64>().unwrap()[0], 1.0);
    /// ```
    pub fn causal(self) -> Attention {
        Attention { begins_at_zero: true, ..self.causal_from(0) }
    }

    /// A query sees only the keys up to its own place, where the first query stands at `start`: an integer, or a tensor of
    /// one, so that sequences which go on run the same program.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Attention};
    /// let (q, keys) = (Tensor::from([[0.0]]), Tensor::from([[1.0], [3.0], [9.0]]));
    /// let seen = q.scaled_dot_product_attention(&keys, &keys, &Attention::default().causal_from(1));
    /// assert_eq!(seen.to_string(), "[[2]]");
    /// ```
    #[track_caller]
    pub fn causal_from(mut self, start: impl IntoTensor) -> Attention {
        self.causal_from = Some(start.into_values_of(&Tensor::from(0_i64)));
        self.begins_at_zero = false;
        self
    }

    /// The factor of the scores in place of 1/√width.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Attention};
    /// let x = Tensor::from([[1.0], [3.0]]);
    /// let flat = x.scaled_dot_product_attention(&x, &x, &Attention::default().scale(0.0));
    /// assert_eq!(flat.to_string(), "[[2],\n [2]]");
    /// ```
    pub fn scale(mut self, scale: f64) -> Attention {
        self.scale = Some(scale);
        self
    }
}

impl Tensor {
    /// softmax(Q Kᵀ·scale) V of these queries `[.., heads, queries, width]` with keys and values
    /// `[.., heads, keys, width]`. Fewer heads of keys than of queries are shared by groups of consecutive ones. A query that
    /// sees no key gets zeros. Neither direction keeps the matrix of scores: memory is linear in the number of queries.
    ///
    /// ```
    /// use glassgrad::{Tensor, grad, operations::Attention, rng::Key};
    /// let q = Tensor::normal(Key::new(1), [2, 4, 300, 8]); // four heads of queries
    /// let kv = Tensor::normal(Key::new(2), [2, 2, 300, 8]); // two of keys and values
    /// let attend = |q: &Tensor| q.scaled_dot_product_attention(&kv, &kv, &Attention::default().causal());
    /// assert_eq!(attend(&q).shape(), q.shape());
    /// assert_eq!(grad(|q: &Tensor| attend(q).square().sum())(&q).shape(), q.shape());
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(&self, keys: &Tensor, values: &Tensor, config: &Attention) -> Tensor {
        let name = "scaled_dot_product_attention";
        let mut operands = vec![self, keys, values];
        operands.extend(config.mask.iter().chain(&config.causal_from));
        if let Some(failed) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*failed).clone();
        }
        match Problem::new(self, keys, values, config) {
            Ok(problem) => problem.solve().0.composed_as(name, &operands),
            Err(message) => Tensor::refused(Error::new(name, message), &operands),
        }
    }
}

/// Up to this many positions self-attention stores its scores where no kernel computes it: one large product is faster than tiles, until
/// memory decides.
const MOST_STORED: usize = 512;

/// Self-attention of packed queries, keys and values `[batch, positions, 3, heads, size]`, each position to all or, if it is causal, to itself and
/// earlier ones. The result is `[batch, positions, heads, size]`. Targets that have a kernel for it run that.
#[track_caller]
pub(crate) fn self_attention(packed: &Tensor, causal: bool) -> Tensor {
    if packed.error().is_some() {
        return packed.clone();
    }
    let size = packed.shape().last().copied().unwrap_or(1).max(1);
    let kernel = AttentionKernel { causal, scale: 1.0 / (size as f64).sqrt() };
    let region = FusedRegion::new(&[packed]);
    let parts = region.parameters[0].split(&[1; 3], 2);
    let [queries, keys, values] = [&parts[0].squeeze(2), &parts[1].squeeze(2), &parts[2].squeeze(2)];
    let (mixed, normalizers) = match packed.shape().get(1) {
        Some(..=MOST_STORED) | None => stored_attention([queries, keys, values], kernel),
        Some(_) => tiled_attention([queries, keys, values], kernel),
    };
    region.outputs(FusedKernel::Attention(kernel), vec![mixed, normalizers]).swap_remove(0)
}

/// Attention with stored scores, and the logarithms of the normalizers `[batch, heads, positions]`.
#[track_caller]
fn stored_attention([queries, keys, values]: [&Tensor; 3], kernel: AttentionKernel) -> (Tensor, Tensor) {
    // Labels in place of transposes: products read heads where they lie, and write them where they are wanted.
    let scores = Tensor::einsum("bqhd,bkhd->bhqk", [queries, keys]) * kernel.scale;
    let scores = match kernel.causal {
        true => {
            let positions = Tensor::arange(queries.shape()[1] as i64);
            hidden(&scores, &positions.unsqueeze(1).ge(&positions))
        }
        false => scores,
    };
    let normalizers = scores.cast(scores.dtype().compute_type()).logsumexp_over(-1);
    (Tensor::einsum("bhqk,bkhd->bqhd", [&scores.softmax(-1), values]), normalizers)
}

/// The same by tiles.
#[track_caller]
fn tiled_attention(operands: [&Tensor; 3], kernel: AttentionKernel) -> (Tensor, Tensor) {
    let [queries, keys, values] = operands.map(|operand| operand.swap_axes(1, 2));
    let config = Attention::default().scale(kernel.scale);
    let config = if kernel.causal { config.causal() } else { config };
    match Problem::new(&queries, &keys, &values, &config) {
        Ok(problem) => {
            let (mixed, normalizers) = problem.solve();
            (mixed.swap_axes(1, 2), normalizers)
        }
        Err(message) => unreachable!("parts of one tensor: {message}"),
    }
}

/// Attention scores under a mask: masked scores are so negative that their softmax weight is 0.
#[track_caller]
pub(crate) fn hidden(scores: &Tensor, mask: &Tensor) -> Tensor {
    mask.broadcast_to(scores.shape()).choose(scores, &scores.full_like(-1e30))
}

/// Operands of one type, with an axis of groups and one of the queries' heads in each group.
struct Problem {
    /// `[.., groups, heads, queries, width]`.
    queries: Tensor,
    /// `[.., groups, keys, width]`.
    keys: Tensor,
    values: Tensor,
    /// Axes that broadcast to those of the scores, if there are any.
    mask: Option<Tensor>,
    start: Option<Tensor>,
    /// Whether query i sees the keys up to i, so that a tile of queries needs the keys up to its last one.
    is_triangular: bool,
    /// The shape of the result.
    output: Shape,
}

impl Problem {
    fn new(queries: &Tensor, keys: &Tensor, values: &Tensor, config: &Attention) -> Result<Problem, String> {
        let shapes = || format!("{}, {} and {}", queries.shape(), keys.shape(), values.shape());
        let needed = "queries [.., heads, queries, width], keys and values [.., heads, keys, width]";
        let rank = queries.rank();
        let fits = rank >= 2 && keys.rank() == rank && values.rank() == rank;
        let last = |tensor: &Tensor, back: usize| tensor.shape()[tensor.rank() - back];
        if !fits || last(queries, 1) != last(keys, 1) || last(keys, 2) != last(values, 2) {
            return Err(format!("it takes {needed}, not the shapes {}", shapes()));
        }
        let lead = rank.saturating_sub(3);
        let (heads, groups) = if rank > 2 { (last(queries, 3), last(keys, 3)) } else { (1, 1) };
        let batch = &queries.shape()[..lead];
        let alike = &keys.shape()[..lead] == batch && &values.shape()[..lead] == batch;
        if !alike || (rank > 2 && last(values, 3) != groups) {
            return Err(format!(
                "the axes before the heads must be the same in queries, keys and values, not {}",
                shapes()
            ));
        }
        if groups == 0 || !heads.is_multiple_of(groups) {
            return Err(format!("{heads} heads of queries do not share {groups} heads of keys evenly"));
        }
        if let Some(start) = config.causal_from.iter().find(|start| start.rank() != 0 || start.dtype() != DType::I64) {
            return Err(format!(
                "the place of the first query must be one integer, not {}{}",
                start.dtype(),
                start.shape()
            ));
        }
        let (count, width) = (last(queries, 2), last(queries, 1));
        let dtype = Tensor::common_type(&[queries, keys, values]).to_float();
        let grouped = |tensor: &Tensor, axes: &[usize]| {
            tensor.cast(dtype).reshape([batch, axes, &[last(tensor, 2), last(tensor, 1)]].concat())
        };
        let scale = config.scale.unwrap_or(1.0 / (width.max(1) as f64).sqrt());
        let mask = match &config.mask {
            Some(mask) => Some(grouped_mask(mask, &[batch, &[heads, count, last(keys, 2)]].concat(), groups, dtype)?),
            None => None,
        };
        Ok(Problem {
            queries: grouped(queries, &[groups, heads / groups]) * scale,
            keys: grouped(keys, &[groups]),
            values: grouped(values, &[groups]),
            mask,
            start: config.causal_from.clone(),
            is_triangular: config.begins_at_zero && config.mask.is_none(),
            output: Shape::from(&queries.shape()[..rank - 1]).followed_by(&[last(values, 1)]),
        })
    }

    /// The result, and the logarithms of the normalizers, in the compute type.
    #[track_caller]
    fn solve(&self) -> (Tensor, Tensor) {
        let rank = self.queries.rank();
        let count = self.queries.shape()[rank - 2];
        let (whole, normalizers) = match count {
            ..=TILE => self.attend(&self.queries, [&self.keys, &self.values], &self.start, &self.mask),
            _ if self.is_triangular && count <= MOST_UNROLLED * TILE => self.by_rows(count),
            _ => self.by_tiles(count),
        };
        let rows = Shape::from(&self.output[..self.output.rank() - 1]);
        (whole.reshape(&self.output), normalizers.reshape(&rows))
    }

    /// The queries one tile after another, each with the keys that it sees: half of all scores are never computed.
    #[track_caller]
    fn by_rows(&self, count: usize) -> (Tensor, Tensor) {
        let axis = self.queries.rank() - 2;
        let keys = self.keys.shape()[self.keys.rank() - 2];
        let tile = |first: usize| {
            let last = (first + TILE).min(count);
            let seen = |tensor: &Tensor| tensor.part(tensor.rank() - 2, 0, last.min(keys));
            let start = Some(Tensor::from(first as i64));
            let inside = |(queries, keys, values): &(Tensor, Tensor, Tensor)| {
                self.attend(queries, [keys, values], &start, &None)
            };
            checkpoint(inside)(&(self.queries.part(axis, first, last - first), seen(&self.keys), seen(&self.values)))
        };
        let (tiles, normalizers): (Vec<Tensor>, Vec<Tensor>) = (0..count).step_by(TILE).map(tile).unzip();
        (Tensor::concatenate(&tiles, axis as isize), Tensor::concatenate(&normalizers, -1))
    }

    /// The queries one tile after another.
    #[track_caller]
    fn by_tiles(&self, count: usize) -> (Tensor, Tensor) {
        let rank = self.queries.rank();
        let tiles = count.div_ceil(TILE);
        let place = Tensor::arange(tiles as i64) * TILE;
        let starts = self.start.as_ref().map(|start| place + start);
        // A mask that is the same for all queries is not cut.
        let is_cut = |mask: &Tensor| mask.rank() >= 2 && mask.shape()[mask.rank() - 2] != 1;
        let cut_mask = self.mask.as_ref().filter(|mask| is_cut(mask)).map(|mask| tiled(mask, tiles));
        let shared_mask = self.mask.as_ref().filter(|mask| !is_cut(mask));
        let entries = (tiled(&self.queries, tiles), starts, cut_mask);
        let step = |(): &(), (queries, start, mask): &(Tensor, Option<Tensor>, Option<Tensor>)| {
            let inside = |operands: &(Tensor, Option<Tensor>, Option<Tensor>)| {
                let (queries, start, mask) = operands;
                self.attend(queries, [&self.keys, &self.values], start, &mask.as_ref().or(shared_mask).cloned())
            };
            ((), checkpoint(inside)(&(queries.clone(), start.clone(), mask.clone())))
        };
        let ((), (results, normalizers)) = scan(step, &(), &entries);
        // The axis of tiles stands before that of their queries, and becomes one with it.
        let joined = |stacked: &Tensor| {
            let joined = stacked.move_axis(0, rank as isize - 2);
            let axes = joined.shape();
            let merged = [&axes[..rank - 2], &[tiles * TILE], &axes[rank..]].concat();
            joined.reshape(merged).part(rank - 2, 0, count)
        };
        (joined(&results), joined(&normalizers))
    }

    /// The attention of some queries, of which the first stands at `start`, and the logarithms of their normalizers.
    #[track_caller]
    fn attend(
        &self,
        queries: &Tensor,
        [keys, values]: [&Tensor; 2],
        start: &Option<Tensor>,
        mask: &Option<Tensor>,
    ) -> (Tensor, Tensor) {
        let mut scores = Tensor::einsum("...grqe,...gke->...grqk", [queries, keys]);
        let [.., count, keys] = scores.shape()[..] else { return (scores.clone(), scores) };
        let mut visible: Option<Tensor> = None;
        if let Some(start) = start {
            let place = Tensor::arange(count as i64).unsqueeze(1) + start;
            visible = Some(Tensor::arange(keys as i64).le(&place));
        }
        match mask {
            Some(mask) if mask.dtype() == DType::Bool => {
                visible = Some(visible.map_or(mask.clone(), |visible| visible.and(mask)));
            }
            Some(bias) => scores += bias,
            None => {}
        }
        let masked = match &visible {
            Some(visible) => visible.choose(&scores, &scores.literal(f64::NEG_INFINITY)),
            None => scores,
        };
        if keys == 0 {
            let nothing = queries.sum_over(-1).cast(queries.dtype().compute_type()).full_like(f64::NEG_INFINITY);
            return (Tensor::einsum("...grqk,...gkv->...grqv", [&masked, values]), nothing);
        }
        let largest = masked.stop_gradient().max_over(Axes::from(-1).keep());
        let shift = largest.abs().lt(f64::INFINITY).choose(&largest, &largest.zeros_like());
        let weights = (masked - &shift).exp();
        let weights = match &visible {
            Some(visible) => visible.choose(&weights, &weights.zeros_like()),
            None => weights,
        };
        let sum = weights.sum_over(Axes::from(-1).keep());
        // Zeros over 1 for a query that sees nothing.
        let sum = sum.equal(0.0).choose(&sum.ones_like(), &sum);
        let wide = sum.dtype().compute_type();
        let normalizers = (sum.cast(wide).ln() + shift.cast(wide)).squeeze(-1);
        (Tensor::einsum("...grqk,...gkv->...grqv", [&weights, values]) / sum, normalizers)
    }
}

/// A mask with an axis of groups and one of heads in place of that of heads, or why it does not fit the scores.
fn grouped_mask(mask: &Tensor, scores: &[usize], groups: usize, dtype: DType) -> Result<Tensor, String> {
    let scores = Shape::from(scores);
    if mask.shape().broadcast(&scores).as_ref() != Some(&scores) {
        return Err(format!("a mask of the shape {} does not stretch to the scores {scores}", mask.shape()));
    }
    let mask = if mask.dtype() == DType::Bool { mask.clone() } else { mask.cast(dtype) };
    let Some(heads) = mask.rank().checked_sub(3) else { return Ok(mask) };
    let divided = match mask.shape()[heads] {
        1 => [1, 1],
        all => [groups, all / groups],
    };
    Ok(mask.reshape([&mask.shape()[..heads], &divided, &mask.shape()[heads + 1..]].concat()))
}

/// The last axis but one cut into tiles, which stand in front; places beyond the end are zeros.
fn tiled(tensor: &Tensor, tiles: usize) -> Tensor {
    let axis = tensor.rank() - 2;
    let mut widths = vec![(0, 0); tensor.rank()];
    widths[axis].1 = tiles * TILE - tensor.shape()[axis];
    let shape = [&tensor.shape()[..axis], &[tiles, TILE], &tensor.shape()[axis + 1..]].concat();
    tensor.pad(&widths).reshape(shape).move_axis(axis as isize, 0)
}
