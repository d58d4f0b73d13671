//! How each library computes a gradient, as a user of it would in a loop that runs often.

use std::hint::black_box;
use std::time::Instant;

use ad_trait::forward_ad::adfn::adfn;
use ad_trait::reverse_ad::adr::adr;
use glassgrad::scalar::{self, Recorded, Sweep, Workspace};
use num_dual::DualSVec64;

use crate::number::Tangents;
use crate::workloads::Workload;

/// Forward mode measures at most this many passes through the function, and extrapolates.
const PASSES: usize = 256;
/// Trial runs of each number of lanes.
const TRIALS: usize = 3;

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

/// Writes derivatives into memory that is used again.
pub(crate) type Gradient<'w> = Box<dyn FnMut(&mut Vec<f64>) + 'w>;

/// One way to compute a gradient.
pub(crate) struct Contestant<'w> {
    /// The crate, as in the lock file, or `f64`.
    pub(crate) library: &'static str,
    /// What one call does.
    pub(crate) form: Form,
    /// How it does it, in the library's words.
    pub(crate) method: String,
    /// The inputs by which a call differentiates; the time is scaled from these to all of them.
    pub(crate) inputs: Vec<usize>,
    /// Computes the derivatives by these inputs.
    pub(crate) gradient: Gradient<'w>,
}

/// Forward mode with the number of lanes that turns out fastest, as a user would tune it.
macro_rules! tuned {
    ($library:literal, $workload:ident, $Type:ident) => {
        tuned!($library, $workload, $Type, [2, 4, 8, 16, 32])
    };
    ($library:literal, $workload:ident, $Type:ident, [$($lanes:literal),*]) => {
        fastest(vec![$(forward::<_, $Type<$lanes>>(
            $library,
            concat!("`", stringify!($Type), "<", $lanes, ">`, the fastest of 2 to 32 lanes"),
            $workload,
        )),*])
    };
}

type Dual<const N: usize> = scalar::Dual<f64, N>;
type DualVec<const N: usize> = echidna::DualVec<f64, N>;

/// Every way to compute the gradient of a workload; the plain function comes first, then Glassgrad.
pub(crate) fn contestants<W: Workload>(workload: &W) -> Vec<Contestant<'_>> {
    vec![
        plain(workload),
        glassgrad_record(workload),
        glassgrad_replay(workload),
        echidna_record(workload),
        echidna_replay(workload),
        ad_trait_record(workload),
        tuned!("glassgrad", workload, Dual),
        tuned!("echidna", workload, DualVec),
        tuned!("ad_trait", workload, adfn),
        tuned!("num-dual", workload, DualSVec64),
        forward::<_, autodiff::FT<f64>>("autodiff", "`FT<f64>`, one input at a time", workload),
    ]
}

fn plain<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let gradient = Box::new(move |_: &mut Vec<f64>| {
        black_box(workload.evaluate::<f64>(black_box(&x)));
    });
    Contestant { library: "f64", form: Form::Plain, method: "the function alone".into(), inputs: Vec::new(), gradient }
}

fn glassgrad_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let inputs = (0..x.len()).collect();
    let mut workspace = Workspace::new();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        let (_, slope) = workspace.value_and_gradient(|x| workload.evaluate(x), black_box(&x));
        gradient.clear();
        gradient.extend_from_slice(slope);
    });
    let method = "`Workspace::value_and_gradient`".into();
    Contestant { library: "glassgrad", form: Form::Record, method, inputs, gradient }
}

fn glassgrad_replay<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let inputs = (0..x.len()).collect();
    let mut sweep = Sweep::new();
    let mut recorded = Recorded::new(|x| workload.evaluate(x), &x);
    let output = recorded.output().expect("every workload depends on its inputs");
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        recorded.replay(black_box(&x)).expect("the workloads compare no variables, so no branch can change");
        recorded.tape().reverse_into(&[(output, 1.0)], &mut sweep);
        gradient.clear();
        gradient.extend(recorded.inputs().iter().map(|input| sweep[*input]));
    });
    let method = "`Recorded::replay`, `reverse_into`".into();
    Contestant { library: "glassgrad", form: Form::Replay, method, inputs, gradient }
}

fn echidna_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let inputs = (0..x.len()).collect();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        *gradient = echidna::grad(|x: &[echidna::Reverse<f64>]| workload.evaluate(x), black_box(&x));
    });
    let method = "`grad`, its pooled tape".into();
    Contestant { library: "echidna", form: Form::Record, method, inputs, gradient }
}

fn echidna_replay<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let inputs = (0..x.len()).collect();
    let (mut tape, _) = echidna::record(|x: &[echidna::BReverse<f64>]| workload.evaluate(x), &x);
    tape.optimize();
    let mut adjoints = Vec::new();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        *gradient = tape.gradient_with_buf(black_box(&x), &mut adjoints);
    });
    let method = "optimised `BytecodeTape`, `gradient_with_buf`".into();
    Contestant { library: "echidna", form: Form::Replay, method, inputs, gradient }
}

fn ad_trait_record<W: Workload>(workload: &W) -> Contestant<'_> {
    let x = workload.point();
    let inputs = (0..x.len()).collect();
    let mut variables = Vec::with_capacity(x.len());
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        variables.clear();
        variables.extend(black_box(&x).iter().enumerate().map(|(k, x)| adr::new_variable(*x, k == 0)));
        let adjoints = workload.evaluate::<adr>(&variables).get_backwards_mode_grad();
        gradient.clear();
        gradient.extend(variables.iter().map(|variable| adjoints.wrt(variable)));
    });
    let method = "`adr`, its thread's graph reset for each call".into();
    Contestant { library: "ad_trait", form: Form::Record, method, inputs, gradient }
}

fn forward<'w, W: Workload, T: Tangents + 'w>(library: &'static str, method: &str, workload: &'w W) -> Contestant<'w> {
    let x = workload.point();
    // Spread over all inputs, because a library may skip the tangents of what does not move yet.
    let passes = x.len().div_ceil(T::LANES).min(PASSES);
    let all = passes * T::LANES >= x.len();
    let starts: Vec<usize> = (0..passes).map(|p| if all { p * T::LANES } else { p * x.len() / passes }).collect();
    let chunk = move |start: usize, end: usize| start..(start + T::LANES).min(end);
    let inputs: Vec<usize> = starts.iter().flat_map(|start| chunk(*start, x.len())).collect();
    let mut duals: Vec<T> = x.iter().map(|x| T::fixed(*x)).collect();
    let gradient = Box::new(move |gradient: &mut Vec<f64>| {
        gradient.clear();
        for start in &starts {
            for input in chunk(*start, x.len()) {
                duals[input] = T::along(x[input], input - start);
            }
            let result = workload.evaluate(black_box(&duals));
            for input in chunk(*start, x.len()) {
                gradient.push(result.tangent(input - start));
                duals[input] = T::fixed(x[input]);
            }
        }
    });
    Contestant { library, form: Form::Forward, method: method.into(), inputs, gradient }
}

/// The contestant with the smallest time for each input.
fn fastest(candidates: Vec<Contestant<'_>>) -> Contestant<'_> {
    let timed = candidates.into_iter().map(|mut candidate| {
        let mut gradient = Vec::new();
        let mut once = || {
            let start = Instant::now();
            (candidate.gradient)(&mut gradient);
            start.elapsed().as_secs_f64() / candidate.inputs.len() as f64
        };
        let best = (0..TRIALS).map(|_| once()).fold(f64::INFINITY, f64::min);
        (best, candidate)
    });
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates").1
}

/// The largest relative disagreement of two gradients. Derivatives that are tiny beside the largest
/// one are compared to a millionth of it, since cancellation leaves them no digits of their own.
pub(crate) fn disagreement(gradient: &[f64], reference: &[f64]) -> f64 {
    let floor = 1e-6 * reference.iter().fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let relative = |(a, b): (&f64, &f64)| (a - b).abs() / a.abs().max(b.abs()).max(floor);
    // Not `f64::max`, which would pass over a NaN.
    gradient.iter().zip(reference).map(relative).fold(0.0, |worst, next| if next <= worst { worst } else { next })
}
