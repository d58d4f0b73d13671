//! Connectionist temporal classification: the loss of a sequence whose alignment is not known.

use crate::diff::scan;
use crate::dtype::DType;
use crate::error::Error;
use crate::expr::Tensor;
use crate::view::View;

/// The negative log-likelihood of label sequences, summed over all alignments with blanks between: one number for each
/// sequence of a batch. `log_probabilities` are `[time, batch, classes]`, `targets` `[batch, length]` without blanks,
/// padded at the end; `times` and `lengths` are how many steps and labels of each sequence count. A target that does not
/// fit into its time has the loss ∞.
///
/// ```
/// use glassgrad::{Tensor, loss};
/// // Two steps, two classes of probability ½, and the label 1: it may stand first, second or in both.
/// let logs = Tensor::full([2, 1, 2], 0.5_f64.ln(), glassgrad::dtype::DType::F64);
/// let wrong = loss::ctc(&logs, &Tensor::from([[1_i64]]), &Tensor::from([2_i64]), &Tensor::from([1_i64]), 0);
/// assert!((wrong.item().unwrap() + 0.75_f64.ln()).abs() < 1e-15);
/// ```
#[track_caller]
pub fn ctc(log_probabilities: &Tensor, targets: &Tensor, times: &Tensor, lengths: &Tensor, blank: usize) -> Tensor {
    let name = "ctc";
    let operands = [log_probabilities, targets, times, lengths];
    if let Some(failed) = operands.into_iter().find(|tensor| tensor.error().is_some()) {
        return failed.clone();
    }
    let refuse = |message: String, origin| Tensor::refused_at(Error::new(name, message), &operands, origin);
    let origin = std::panic::Location::caller();
    let &[time, batch, classes] = &log_probabilities.shape()[..] else {
        let message = format!("log-probabilities are [time, batch, classes], not {}", log_probabilities.shape());
        return refuse(message, origin);
    };
    let integers = [targets, times, lengths].iter().all(|tensor| tensor.dtype() == DType::I64);
    let fits = targets.rank() == 2
        && targets.shape()[0] == batch
        && **times.shape() == [batch]
        && times.shape() == lengths.shape();
    if !integers || !fits || time == 0 || blank >= classes {
        let message = format!(
            "for {classes} classes with the blank {blank} and a batch of {batch} it takes i64 targets [{batch}, length], \
             and times and lengths of [{batch}]"
        );
        return refuse(message, origin);
    }
    let labels = targets.shape()[1];
    let places = 2 * labels + 1;
    // Blanks at even places, labels at odd ones; labels that do not count are blanks, too.
    let counted = Tensor::arange(labels as i64).lt(lengths.unsqueeze(-1));
    let blanks = targets.full_like(blank as i64);
    let chosen = counted.choose(targets, &blanks);
    let pairs = Tensor::stack([&blanks, &chosen], 2).reshape([batch, 2 * labels]);
    let extended = Tensor::concatenate([&pairs, &Tensor::full([batch, 1], blank as i64, DType::I64)], 1);
    // A label may follow another one directly, if it is not the same.
    let before = moved(&extended, 2, blank as i64);
    let skips = extended.not_equal(blank as i64).and(&extended.not_equal(&before));
    let emitted = log_probabilities.take_along(&extended.unsqueeze(0).broadcast_to([time, batch, places]), 2);
    let none = emitted.literal(f64::NEG_INFINITY);
    let place = Tensor::arange(places as i64).broadcast_to([batch, places]);
    let start = place.lt(2).choose(&emitted.part_of_axis(0, 0, 1).reshape([batch, places]), &none);
    let step = |state: &Tensor, (emitted, now): &(Tensor, Tensor)| {
        let one = moved(state, 1, f64::NEG_INFINITY);
        let two = skips.choose(&moved(state, 2, f64::NEG_INFINITY), &none);
        let next = state.logaddexp(&one).logaddexp(&two) + emitted;
        (now.lt(times.unsqueeze(-1)).choose(&next, state), Tensor::zeros(()))
    };
    let rest = (emitted.part_of_axis(0, 1, time - 1), Tensor::arange(time as i64).part_of_axis(0, 1, time - 1));
    let last = if time == 1 { start } else { scan(step, &start, &rest).0 };
    // The end is the last label or the blank behind it.
    let at = |place: Tensor| last.take_along(&place.clip_min(0).unsqueeze(-1), 1).squeeze(1);
    let (behind, label) = (at(lengths * 2), at(lengths * 2 - 1));
    let label = lengths.gt(0).choose(&label, &none);
    (-behind.logaddexp(&label)).composed_as(name, &operands)
}

/// The entries of rows moved to later places, with a number in front.
#[track_caller]
fn moved(rows: &Tensor, by: usize, front: impl crate::expr::Number) -> Tensor {
    let (count, size) = (rows.shape()[0], rows.shape()[1]);
    let by = by.min(size);
    let kept = rows.read(View::strided(rows.shape(), &[(0, 1, count), (0, 1, size - by)]));
    Tensor::concatenate([&Tensor::full([count, by], front, rows.dtype()), &kept], 1)
}
