//! How each library computes a gradient, as a user of it would in a loop that runs often.

use std::hint::black_box;

use ad_trait::reverse_ad::adr::adr;
use glassgrad::scalar::{Recorded, Sweep, Tape};
use num_dual::DualSVec64;

use crate::workloads::Workload;

/// Tangents that num-dual carries through one evaluation.
const LANES: usize = 8;

/// Forward mode measures at most this many passes through the function, and extrapolates.
const PASSES: usize = 256;

/// What a contestant does in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The function alone, in `f64`.
    Plain,
    /// The function is run and recorded, then swept in reverse.
    Record,
    /// A recording is evaluated at the inputs, then swept in reverse.
    Replay,
    /// The function is run with tangents, once for every few inputs.
    Forward,
}

/// One way to compute a gradient.
pub(crate) struct Contestant<'w> {
    /// The crate, as in the lock file, or `f64`.
    pub(crate) library: &'static str,
    /// What one call does.
    pub(crate) form: Form,
    /// How it does it, in the library's words.
    pub(crate) how: String,
    /// How many derivatives a call computes; the time is scaled from these to all of them.
    pub(crate) directions: usize,
    /// Computes the first `directions` derivatives.
    pub(crate) gradient: Box<dyn FnMut(&mut Vec<f64>) + 'w>,
}

/// Every way to compute the gradient of a workload; the plain function comes first, then Glassgrad.
pub(crate) fn contestants<W: Workload>(workload: &W) -> Vec<Contestant<'_>> {
    vec![
        plain(workload),
        glassgrad_record(workload),
        glassgrad_replay(workload),
        echidna_record(workload),
        echidna_replay(workload),
        ad_trait_record(workload),
        num_dual_forward(workload),
        autodiff_forward(workload),
    ]
}

fn plain<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let gradient = Box::new(move |_: &mut Vec<f64>| {
        black_box(workload.evaluate::<f64>(black_box(&x)));
    });
    Contestant { library: "f64", form: Form::Plain, how: "the function alone".into(), directions: 0, gradient }
}

fn glassgrad_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len();
    let mut sweep = Sweep::new();
    let mut spare = Some(Tape::new());
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        let recorded = Recorded::on(spare.take().unwrap_or_default(), |x| workload.evaluate(x), black_box(&x));
        recorded.gradient_into(&mut sweep, gradient);
        spare = Some(recorded.into_tape());
    });
    let how = "`Recorded::on` a reused tape, `gradient_into`".into();
    Contestant { library: "glassgrad", form: Form::Record, how, directions, gradient }
}

fn glassgrad_replay<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len();
    let mut sweep = Sweep::new();
    let mut recorded = Recorded::new(|x| workload.evaluate(x), &x);
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        recorded.replay(black_box(&x)).expect("the workloads compare no variables, so no branch can change");
        recorded.gradient_into(&mut sweep, gradient);
    });
    let how = "`Recorded::replay`, `gradient_into`".into();
    Contestant { library: "glassgrad", form: Form::Replay, how, directions, gradient }
}

fn echidna_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        *gradient = echidna::grad(|x: &[echidna::Reverse<f64>]| workload.evaluate(x), black_box(&x));
    });
    let how = "`grad`, its pooled tape".into();
    Contestant { library: "echidna", form: Form::Record, how, directions, gradient }
}

fn echidna_replay<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len();
    let (mut tape, _) = echidna::record(|x: &[echidna::BReverse<f64>]| workload.evaluate(x), &x);
    tape.optimize();
    let mut adjoints = Vec::new();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        *gradient = tape.gradient_with_buf(black_box(&x), &mut adjoints);
    });
    let how = "optimised `BytecodeTape`, `gradient_with_buf`".into();
    Contestant { library: "echidna", form: Form::Replay, how, directions, gradient }
}

fn ad_trait_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len();
    let mut inputs = Vec::with_capacity(directions);
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        inputs.clear();
        inputs.extend(black_box(&x).iter().enumerate().map(|(k, x)| adr::new_variable(*x, k == 0)));
        let adjoints = workload.evaluate::<adr>(&inputs).get_backwards_mode_grad();
        gradient.clear();
        gradient.extend(inputs.iter().map(|input| adjoints.wrt(input)));
    });
    let how = "`adr`, its thread's graph reset for each call".into();
    Contestant { library: "ad_trait", form: Form::Record, how, directions, gradient }
}

fn num_dual_forward<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len().min(PASSES * LANES);
    let mut duals: Vec<DualSVec64<LANES>> = x.iter().map(|x| DualSVec64::from_re(*x)).collect();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        gradient.clear();
        for start in (0..directions).step_by(LANES) {
            let end = (start + LANES).min(directions);
            for lane in start..end {
                duals[lane] = duals[lane].derivative(lane - start);
            }
            let result = workload.evaluate(black_box(&duals));
            gradient.extend((0..end - start).map(|lane| result.eps.0.map_or(0.0, |tangents| tangents[lane])));
            for lane in start..end {
                duals[lane] = DualSVec64::from_re(x[lane]);
            }
        }
    });
    let how = format!("`DualSVec64<{LANES}>`, {LANES} inputs a pass");
    Contestant { library: "num-dual", form: Form::Forward, how, directions, gradient }
}

fn autodiff_forward<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let directions = x.len().min(PASSES);
    let mut duals: Vec<autodiff::FT<f64>> = x.iter().map(|x| autodiff::F::cst(*x)).collect();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        gradient.clear();
        for input in 0..directions {
            duals[input] = autodiff::F::var(x[input]);
            gradient.push(workload.evaluate(black_box(&duals)).deriv());
            duals[input] = autodiff::F::cst(x[input]);
        }
    });
    let how = "`FT<f64>`, one input a pass".into();
    Contestant { library: "autodiff", form: Form::Forward, how, directions, gradient }
}

/// The largest relative disagreement of two gradients. Derivatives that are tiny beside the largest
/// one are compared to a millionth of it, since cancellation leaves them no digits of their own.
pub(crate) fn disagreement(gradient: &[f64], reference: &[f64]) -> f64 {
    let floor = 1e-6 * reference.iter().fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let relative = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs().max(b.abs()).max(floor);
    // Not `f64::max`, which would pass over a NaN.
    gradient.iter().zip(reference).map(relative).fold(0.0, |worst, next| if next <= worst { worst } else { next })
}
