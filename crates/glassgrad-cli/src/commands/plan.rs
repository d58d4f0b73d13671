//! `glassgrad plan`: the predicted time of data-parallel training on numbers of ranks that are not here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use glassgrad::collective::{Awaited, Echo, Predicted, Shards, StepModel, Transport, partial_sums};
use glassgrad::{Tensor, compile};
use serde_json::{Value, json};

use crate::device::DeviceChoice;
use crate::experiment::datasets;
use crate::experiment::options::Options;
use crate::experiment::study::Study;
use crate::failure::{Failure, print};
use crate::ranks::{Ranks, default_shards};
use crate::sources::DataLocation;
use crate::table::Table;

/// Predict the step time and efficiency of data-parallel training on many ranks
#[derive(Args)]
#[command(after_help = "\
Measures here what one rank computes in a step, without messages, and adds the messages of a transport with the
given latency and bandwidth. Strong scaling: the batch is divided among the ranks. Weak scaling: every rank has a
batch of this size. As an MPI job it measures the transport of the job too, and compares the prediction for its
own number of ranks with the measured step.

Examples:
  glassgrad plan digits --layers 512,512 --batch 256 --latency 20 --bandwidth 1.25
  glassgrad plan --compute 0.095 --gradient 498 --ranks 1,8,64,512 --latency 5 --bandwidth 25
  mpirun -np 2 glassgrad plan digits --layers 512,512 --batch 256")]
pub(crate) struct Plan {
    /// Data set, as for train; not needed with --compute
    #[arg(value_name = "DATA", required_unless_present = "compute")]
    data: Option<String>,

    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1024")]
    ranks: Vec<usize>,

    /// Latency of a message in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 20.0, allow_negative_numbers = true)]
    latency: f64,

    /// Bandwidth of a rank in each direction, in gigabytes per second
    #[arg(long, value_name = "GB/S", default_value_t = 1.25, allow_negative_numbers = true)]
    bandwidth: f64,

    /// Seconds that a rank computes in a step, measured elsewhere, instead of measuring here
    #[arg(long, value_name = "SECONDS", requires = "gradient", conflicts_with = "data")]
    compute: Option<f64>,

    /// Megabytes of the gradient, with --compute
    #[arg(long, value_name = "MB", requires = "compute")]
    gradient: Option<f64>,

    #[command(flatten)]
    options: Options,

    /// Directory with the files of mnist or fashion
    #[arg(long = "data", value_name = "DIR", help_heading = "Data")]
    directory: Option<PathBuf>,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    device: DeviceChoice,
}

/// Steps are measured for about this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The smallest buckets, which larger ones consist of.
const BUCKET: usize = 1 << 20;

/// What is known about the computation of ranks.
struct Measured {
    name: String,
    shards: usize,
    /// The models of a rank with all shards, with half of them, and so on.
    models: Vec<StepModel>,
}

impl Measured {
    /// The model of a rank among `ranks` that share the shards of one batch; `None` if there are more ranks than shards.
    fn strong(&self, ranks: usize) -> Option<StepModel> {
        let local = self.shards.checked_div(ranks).filter(|local| *local > 0)?;
        // The rank with the most shards decides. Between powers of two the times are proportional to the shards.
        let most = self.shards.div_ceil(ranks);
        let model = self.models.get((self.shards / local.next_power_of_two()).ilog2() as usize)?;
        let scale = most as f64 / local.next_power_of_two() as f64;
        let scaled = |sum: &Awaited| Awaited { ready: sum.ready * scale, needed: sum.needed * scale, bytes: sum.bytes };
        let sums = model.sums.iter().map(scaled).collect();
        Some(StepModel { gradient: model.gradient * scale, sums, update: model.update })
    }
}

impl Plan {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let transport = Transport { latency: self.latency * 1e-6, bandwidth: self.bandwidth * 1e9 };
        if !(transport.latency >= 0.0 && transport.bandwidth > 0.0 && transport.bandwidth.is_finite()) {
            return Err(Failure::Input("--latency is at least 0, and --bandwidth more than 0".to_owned()));
        }
        if self.ranks.is_empty() || self.ranks.iter().any(|ranks| !(1..=1 << 20).contains(ranks)) {
            return Err(Failure::Input("--ranks: numbers from 1 to 1048576".to_owned()));
        }
        let ranks = Ranks::join()?;
        let done = self.device.clone().run(|| self.run_there(&ranks, transport));
        ranks.end(done)
    }

    fn run_there(self, ranks: &Ranks, given: Transport) -> Result<(), Failure> {
        if let (Some(seconds), Some(megabytes)) = (self.compute, self.gradient) {
            if !(seconds > 0.0 && seconds.is_finite() && megabytes > 0.0 && megabytes < 1e9) {
                return Err(Failure::Input("--compute and --gradient are more than 0".to_owned()));
            }
            let model = StepModel::even(seconds, (megabytes * 1e6) as usize, BUCKET);
            return self.report(&Measured { name: "a rank".to_owned(), shards: 1, models: vec![model] }, given, None);
        }
        let Some(data) = &self.data else { unreachable!("the parser asks for data or --compute") };
        datasets::check_file(data)?;
        let mut settings = self.options.settings(data)?;
        self.options.check_applies(&settings)?;
        ranks.check_settings(&settings, self.device.kind(), &[])?;
        if self.options.shards.is_none() {
            settings.shards = default_shards(ranks.size());
        }
        let places = DataLocation { folder: self.directory.clone(), ..DataLocation::default() };
        let task = datasets::load(&settings, &places)?;
        self.options.fit(&mut settings, &task.about);
        let study = Study::new(settings, task)?;
        let shards = study.settings.shards;
        if ranks.size() > 1 {
            let (transport, comparison) = compare(ranks, &study)?;
            if !ranks.is_first() {
                return Ok(());
            }
            let measured =
                Measured { name: study.task.about.name.clone(), shards, models: vec![comparison.model.clone()] };
            return self.report(&measured, transport, Some(&comparison));
        }
        let counts = std::iter::successors(Some(1), |ranks| Some(2 * ranks)).take_while(|ranks| *ranks <= shards);
        let models = counts.map(|ranks| model(&study, ranks)).collect::<Result<Vec<_>, Failure>>()?;
        self.report(&Measured { name: study.task.about.name.clone(), shards, models }, given, None)
    }

    fn report(
        &self,
        measured: &Measured,
        transport: Transport,
        comparison: Option<&Comparison>,
    ) -> Result<(), Failure> {
        let [first, ..] = &measured.models[..] else { unreachable!("a rank with all shards is measured always") };
        let alone = first.predict(1, 1, &transport).step;
        let bytes: usize = first.sums.iter().map(|sum| sum.bytes).sum();
        let mut table =
            Table::new(["ranks", "strong: step", "efficiency", "weak: step", "efficiency", "exposed", "bucket"]);
        let mut rows: Vec<Value> = Vec::new();
        for &ranks in self.ranks.iter().filter(|_| comparison.is_none()) {
            let predicted = |model: StepModel, sums: usize| -> (Predicted, usize) {
                let bucket = model.best_bucket(ranks, sums, &transport);
                (model.with_buckets(bucket).predict(ranks, sums, &transport), bucket)
            };
            let sums = if ranks <= measured.shards { partial_sums(measured.shards, ranks) } else { 1 };
            let strong = measured.strong(ranks).map(|model| predicted(model, sums).0);
            let (weak, bucket) = predicted(first.clone(), 1);
            let percent = |part: f64| format!("{:.0} %", 100.0 * part);
            let efficiency = strong.map(|strong| alone / (ranks as f64 * strong.step));
            table.row([
                ranks.to_string(),
                strong.map_or_else(|| "–".to_owned(), |strong| shown(strong.step)),
                efficiency.map_or_else(|| "–".to_owned(), percent),
                shown(weak.step),
                percent(alone / weak.step),
                shown(weak.exposed),
                format!("{} MiB", bucket >> 20),
            ]);
            rows.push(json!({
                "ranks": ranks, "strong_seconds": strong.map(|strong| strong.step), "strong_efficiency": efficiency,
                "weak_seconds": weak.step, "weak_efficiency": alone / weak.step, "exposed_seconds": weak.exposed,
                "communication_seconds": weak.communication, "bucket_bytes": bucket,
            }));
        }
        let Transport { latency, bandwidth } = transport;
        if self.json {
            let object = json!({
                "name": measured.name, "shards": measured.shards, "gradient_bytes": bytes, "step_seconds": alone,
                "latency": latency, "bandwidth": bandwidth, "predictions": rows,
                "comparison": comparison.map(Comparison::to_json),
            });
            return print(&format!("{object}\n"));
        }
        let head = format!(
            "{}: {} a step on one rank, a gradient of {:.2} MB; messages of {:.1} µs and {:.2} GB/s\n",
            measured.name,
            shown(alone),
            bytes as f64 / 1e6,
            latency * 1e6,
            bandwidth / 1e9
        );
        match comparison {
            Some(comparison) => print(&format!("{head}{comparison}\n")),
            None => {
                let strong = match measured.shards {
                    1 => String::new(),
                    shards => format!("strong scaling divides the batch into {shards} shards; "),
                };
                print(&format!(
                    "{head}\n{}\n{strong}in weak scaling every rank has a whole batch; exposed messages have nothing computed behind them\n",
                    table.render(),
                ))
            }
        }
    }
}

/// Seconds with three digits, in a unit that suits them.
fn shown(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        small if small < 1e-3 => format!("{:.1} µs", small * 1e6),
        small if small < 1.0 => format!("{:.2} ms", small * 1e3),
        large => format!("{large:.2} s"),
    }
}

/// What a rank among `ranks` computes in a step, measured without messages.
fn model(study: &Study, ranks: usize) -> Result<StepModel, Failure> {
    let shards = Shards::over(Arc::new(Echo { ranks }), study.settings.shards).map_err(Failure::input)?;
    let (step, timeline) = study.time_steps(&Arc::new(shards), BUCKET, PATIENCE)?;
    Ok(StepModel::measured(step, &timeline))
}

/// A prediction for the ranks of this job beside the measured step.
struct Comparison {
    ranks: usize,
    model: StepModel,
    predicted: Predicted,
    measured: f64,
}

impl Comparison {
    fn to_json(&self) -> Value {
        json!({
            "ranks": self.ranks, "predicted_seconds": self.predicted.step, "measured_seconds": self.measured,
            "communication_seconds": self.predicted.communication, "exposed_seconds": self.predicted.exposed,
        })
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Comparison { ranks, predicted, measured, .. } = self;
        let error = 100.0 * (predicted.step / measured - 1.0);
        write!(
            formatter,
            "{ranks} ranks: predicted {} a step, of which {} are exposed messages",
            shown(predicted.step),
            shown(predicted.exposed)
        )?;
        write!(formatter, "; measured {}; the prediction is off by {error:+.0} %", shown(*measured))
    }
}

/// Measures the computation of the ranks of this job, which run beside each other, and its transport; then the step itself.
fn compare(ranks: &Ranks, study: &Study) -> Result<(Transport, Comparison), Failure> {
    let size = ranks.size();
    let Some(shards) = ranks.shards(study.settings.shards, false)? else {
        unreachable!("a job of several ranks has shards")
    };
    if !study.settings.shards.is_multiple_of(size) {
        let message = format!("{size} ranks: their computation is measured where each has as many shards, 2, 4, 8, …");
        return Err(Failure::Input(message));
    }
    let model = model(study, size)?;
    let transport = transport(&shards)?;
    let predicted = model.predict(size, partial_sums(study.settings.shards, size), &transport);
    let (measured, _) = study.time_steps(&shards, BUCKET, PATIENCE)?;
    Ok((transport, Comparison { ranks: size, model, predicted, measured }))
}

/// The latency and the bandwidth of a job's transport, from sums of two sizes.
fn transport(shards: &Arc<Shards>) -> Result<Transport, Failure> {
    let (few, many) = (2048_usize, 1 << 20);
    let mut seconds = [0.0; 2];
    for (seconds, count) in seconds.iter_mut().zip([few, many]) {
        let sum = compile(|x: &Tensor| x.all_reduce());
        let operands: Vec<Tensor> = shards.local().map(|_| Tensor::zeros([count])).collect();
        let mut times = Vec::new();
        for _ in 0..20 {
            let before = shards.traffic().busy;
            let start = Instant::now();
            sum.call_shards(shards, &operands).map_err(Failure::result)?;
            let busy = shards.traffic().busy.saturating_sub(before);
            times.push(busy.min(start.elapsed()).as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        *seconds = times[times.len() / 2];
    }
    let ranks = shards.ranks() as f64;
    let sums = partial_sums(shards.count(), shards.ranks());
    let bytes = |count: usize| (sums + 1) as f64 * (ranks - 1.0) / ranks * 4.0 * count as f64;
    let bandwidth = (bytes(many) - bytes(few)) / (seconds[1] - seconds[0]).max(1e-9);
    let latency = (seconds[0] - bytes(few) / bandwidth).max(0.0) / (2.0 * (ranks - 1.0));
    Ok(Transport { latency, bandwidth })
}
