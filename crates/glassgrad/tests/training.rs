//! Training: data, saving, resuming after a kill, diagnosis, and the curve of PyTorch.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use glassgrad::data::{Batches, Dataset, Examples, Position, Prefetch, split};
use glassgrad::dtype::DType;
use glassgrad::error::Error;
use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Conv2d, Dropout, Flatten, Initializer, Layer, Linear, Mlp};
use glassgrad::operations::Convolution;
use glassgrad::optim::{Optimizer, Schedule};
use glassgrad::rng::Key;
use glassgrad::save::{self, File, Source};
use glassgrad::train::{Diagnostic, EarlyStopping, Epoch, Flow, Observer, Step, TrainError, Training, inspect};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, Tree, loss, value_and_grad};
use proptest::prelude::*;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn stored(value: &Value) -> Tensor {
    let shape: Vec<usize> = value["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let numbers = value["numbers"].as_array().unwrap();
    match value["type"].as_str() {
        Some("i64") => Tensor::new(&numbers.iter().map(|n| n.as_i64().unwrap()).collect::<Vec<_>>(), shape),
        _ => Tensor::new(&numbers.iter().map(|n| n.as_f64().unwrap()).collect::<Vec<_>>(), shape),
    }
}

fn bits<X: Tree>(tree: &X) -> Vec<(String, Vec<u64>)> {
    let leaf = |(path, leaf): (glassgrad::tree::Path, Tensor)| {
        (path.to_string(), leaf.to_f64_vec().unwrap().into_iter().map(f64::to_bits).collect())
    };
    tree.leaves().into_iter().map(leaf).collect()
}

/// The network of DiffX on irises, with the weights of PyTorch: the first gradients, and the whole curve.
#[test]
fn irises_as_pytorch_learns_them() {
    let golden: Value = serde_json::from_str(include_str!("golden/learning.json")).unwrap();
    let case = &golden["irises"];
    let (features, classes) = (stored(&case["features"]), stored(&case["classes"]));
    let network = Mlp::new(Key::new(1), &[4, 10, 3], Activation::Tanh);
    let network = network.map_with_path(|path, _| stored(&case["start"][path.to_string()]));
    let wrong = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| loss::cross_entropy(&network.apply(x), y).mean();
    let (_, slopes) =
        value_and_grad(|network: &Mlp| wrong(network, &(features.clone(), classes.clone()), &Key::new(1).into()))(
            &network,
        );
    for (path, slope) in slopes.leaves() {
        let wanted = stored(&case["gradients"][path.to_string()]);
        let miss = (slope - wanted).abs().max().item().unwrap();
        assert!(miss < 1e-12, "{path}: {miss}");
    }
    let examples = Arc::new(Examples::new((features, classes)).unwrap());
    let optimizer = Optimizer::sgd(case["rate"].as_f64().unwrap());
    // One batch is everything; its order changes sums only by rounding.
    let trained = Training::new(wrong, optimizer).epochs(100).batch_size(150).run(&network, &examples).unwrap();
    let wanted: Vec<f64> = case["losses"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert_eq!(trained.losses.len(), wanted.len());
    for (epoch, (found, wanted)) in trained.losses.iter().zip(&wanted).enumerate() {
        assert!((found - wanted).abs() < 1e-8, "epoch {epoch}: {found}, not {wanted}");
    }
    assert!(wanted[99] < 0.1 * wanted[0], "it learns");
}

/// A network that uses everything a run has to remember: moments, a schedule, noise.
#[derive(Clone, Debug, Tree)]
struct Noisy {
    layers: (Linear, Activation, Dropout, Linear),
}

type Pairs = (Tensor, Tensor);
type Loss = fn(&Noisy, &Pairs, &Keys) -> Tensor;

fn noisy_loss(network: &Noisy, (x, y): &Pairs, key: &Keys) -> Tensor {
    loss::mse(&network.layers.apply_train(x, key), y).mean()
}

fn noisy_optimizer() -> Optimizer {
    Optimizer::adam(0.01).clip_norm(1.0).schedule(Schedule::Cosine { steps: 60, least: 0.1 })
}

fn noisy_training() -> (Noisy, Arc<Examples<Pairs>>, Training<'static, Noisy, Loss>) {
    let x = Tensor::uniform(Key::new(8), [90, 3]).detach().unwrap();
    let y = x.sum_over(1).square().unsqueeze(1).detach().unwrap();
    let key = Key::new(5);
    let network = Noisy {
        layers: (Linear::new(key.fold(0), 3, 8), Activation::Relu, Dropout::new(0.25), Linear::new(key.fold(1), 8, 1)),
    };
    let training = Training::new(noisy_loss as Loss, noisy_optimizer()).epochs(6).batch_size(8).seed(3);
    (network, Arc::new(Examples::new((x, y)).unwrap()), training)
}

/// Ends a run after some steps, as a user would who presses a key.
struct After(u64);

impl<X> Observer<X> for After {
    fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        Ok(if step.number >= self.0 { Flow::Stop } else { Flow::Continue })
    }
}

#[test]
fn a_stopped_run_resumes_bit_identically() {
    let (network, examples, training) = noisy_training();
    let whole = training.run(&network, &examples).unwrap();
    assert_eq!((whole.steps, whole.losses.len(), whole.stopped), (72, 6, false));
    for stop in [1, 11, 12, 13, 50] {
        let path = folder(&format!("stopped-{stop}")).join("run.safetensors");
        let first = noisy_training().2.checkpoint(&path, 5).observe(After(stop)).run(&network, &examples).unwrap();
        assert_eq!((first.steps, first.stopped), (stop, true));
        let second = noisy_training().2.checkpoint(&path, 5).run(&network, &examples).unwrap();
        assert_eq!(bits(&second.parameters), bits(&whole.parameters), "stopped after {stop}");
        assert_eq!(second.losses, whole.losses, "stopped after {stop}");
    }
}

/// A rate that is changed between steps counts from the next step on, is saved with the run, and a step that was made can be
/// made again whatever has changed since.
#[test]
fn a_session_is_a_run_under_the_callers_control() {
    let (network, examples, training) = noisy_training();
    let whole = noisy_training().2.run(&network, &examples).unwrap();
    let mut session = training.session(&network, &examples).unwrap();
    let rate = noisy_optimizer().rate();
    while session.step().unwrap().is_some() {
        // Setting the same rate again changes nothing.
        session.set_rate(rate).unwrap();
        let before = bits(session.parameters());
        let last = session.last().unwrap().expect("a step was made");
        assert_eq!(last.number, session.steps());
        let (_, slope) =
            value_and_grad(|network: &Noisy| noisy_loss(network, &last.batch, &last.key))(&last.parameters);
        let (next, _) = noisy_optimizer().update(&last.parameters, &slope, &last.state);
        for ((path, made), (_, again)) in session.parameters().leaves().into_iter().zip(next.leaves()) {
            let gap = (made - again).abs().max().item().unwrap();
            assert!(gap < 1e-6, "{path} differs by {gap} in step {}", last.number);
        }
        assert_eq!(bits(session.parameters()), before, "looking back changes nothing");
    }
    assert_eq!((bits(session.parameters()), session.losses()), (bits(&whole.parameters), &whole.losses[..]));
    assert!(session.is_over() && session.step().unwrap().is_none());

    // Another rate: it counts from the next step on, for what is saved too.
    let training = noisy_training().2;
    let mut session = training.session(&network, &examples).unwrap();
    for _ in 0..20 {
        session.step().unwrap();
    }
    session.set_rate(0.0).unwrap();
    let (before, saved) = (bits(session.parameters()), session.run());
    let made = session.step().unwrap().unwrap();
    assert_eq!((made.rate, bits(session.parameters())), (0.0, before));
    assert_eq!(saved.optimizer.factor.item().unwrap(), 0.0);
    let path = folder("rate").join("run.safetensors");
    save::save(&path, &saved, &[]).unwrap();
    let training = noisy_training().2.checkpoint(&path, 1000);
    let mut resumed = training.session(&network, &examples).unwrap();
    assert_eq!((resumed.steps(), resumed.rate()), (20, 0.0));
    resumed.step().unwrap();
    assert_eq!(bits(resumed.parameters()), bits(session.parameters()));
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(resumed.set_rate(wrong).is_err());
    }
}

/// A gradient that is accumulated over parts of a batch is that of the whole, for losses that are means.
#[test]
fn parts_of_a_batch_add_up() {
    let x = Tensor::normal(Key::new(8), [40, 3]).cast(DType::F64).detach().unwrap();
    let y = x.sum_over(1).square().unsqueeze(1).detach().unwrap();
    let examples = Arc::new(Examples::new((x, y)).unwrap());
    let start = Mlp::new(Key::new(1), &[3, 8, 1], Activation::Tanh).map(|leaf| leaf.cast(DType::F64));
    let trained = |parts: usize| {
        let wrong = |network: &Mlp, (x, y): &Pairs, _: &Keys| loss::mse(&network.apply(x), y).mean();
        // The last batch of an epoch has eight examples, which three parts cannot share.
        let training = Training::new(wrong, Optimizer::adam(0.01)).epochs(4).batch_size(16).accumulate(parts);
        training.run(&start, &examples).unwrap()
    };
    let whole = trained(1);
    for parts in [2, 3, 4, 8] {
        let divided = trained(parts);
        for (a, b) in divided.losses.iter().zip(&whole.losses) {
            assert!((a - b).abs() < 1e-12, "{parts} parts: {a}, not {b}");
        }
    }
    // Each part draws noise of its own.
    let draws = |_: &Tensor, _: &Tensor, key: &Keys| Tensor::uniform(key, ()).cast(DType::F64);
    let ones = Arc::new(Examples::new(Tensor::ones([4])).unwrap());
    let mean = Training::new(draws, Optimizer::sgd(0.0)).epochs(1).batch_size(4).accumulate(4);
    let single = Training::new(draws, Optimizer::sgd(0.0)).epochs(1).batch_size(1);
    let start = Tensor::from(0.0);
    assert_ne!(mean.run(&start, &ones).unwrap().losses, single.run(&start, &ones).unwrap().losses);
}

/// What the test below kills. It takes a moment for each step, so that there are moments to be killed in.
#[test]
#[ignore = "it is run by another test"]
fn a_run_to_be_killed() {
    struct Slowly;
    impl<X> Observer<X> for Slowly {
        fn step(&mut self, _: &Step) -> Result<Flow, Error> {
            std::thread::sleep(Duration::from_millis(3));
            Ok(Flow::Continue)
        }
    }
    let Some(path) = std::env::var_os("GLASSGRAD_KILLED_RUN") else { return };
    let (network, examples, training) = noisy_training();
    let trained = training.checkpoint(&path, 1).observe(Slowly).run(&network, &examples).unwrap();
    save::save(PathBuf::from(path).with_extension("end"), &trained.parameters, &[]).unwrap();
}

#[test]
fn a_run_that_is_killed_at_ten_moments_ends_with_the_same_bits() {
    let (network, examples, training) = noisy_training();
    let whole = training.run(&network, &examples).unwrap();
    let path = folder("killed").join("run.safetensors");
    // This file is a program of its own, or a module of a larger one.
    let module = module_path!().split_once("::").map_or(String::new(), |(_, inside)| format!("{inside}::"));
    let name = format!("{module}a_run_to_be_killed");
    let mut kills = 0;
    for attempt in 0..200_u64 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--ignored", "--quiet"])
            .env("GLASSGRAD_KILLED_RUN", &path)
            .stdout(std::process::Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        if kills < 10 {
            // Some moments are so early that nothing is saved yet.
            let wait = 5 + Key::new(11).bits(attempt) % 60;
            std::thread::sleep(Duration::from_millis(wait));
        }
        if kills < 10 && child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            kills += 1;
        }
        let _ = child.wait();
        if path.with_extension("end").exists() {
            break;
        }
    }
    assert!(kills >= 5, "it was killed {kills} times only");
    let end = save::load(path.with_extension("end"), &network).unwrap().tree;
    assert_eq!(bits(&end), bits(&whole.parameters), "after {kills} kills");
}

#[test]
fn trouble_is_explained_where_it_began() {
    #[derive(Clone, Debug, Tree)]
    struct Model {
        scale: Tensor,
    }
    let examples = Arc::new(Examples::new(Tensor::linspace(0.5, 1.5, 32)).unwrap());
    // The scale falls below zero, where there is no logarithm.
    let wrong = |model: &Model, x: &Tensor, _: &Keys| (&model.scale * x).sum() + (&model.scale.ln() * 0.01).sum();
    let path = folder("trouble").join("run.safetensors");
    let start = Model { scale: Tensor::from([1.0]) };
    let training = Training::new(wrong, Optimizer::sgd(0.02)).batch_size(4).epochs(100).checkpoint(&path, 1);
    let trouble = training.run(&start, &examples).unwrap_err();
    let message = trouble.to_string();
    let TrainError::NotFinite { step, last_good, explanation, checkpoint, .. } = trouble else { panic!("{message}") };
    assert!(step > 3, "{message}");
    let explanation = explanation.expect("an explanation");
    assert_eq!(explanation.provenance.path[0].operation, "ln", "{message}");
    assert!(
        message.contains("scale") && message.contains("tests/training.rs") && message.contains("to try"),
        "{message}"
    );
    assert!(last_good.scale.item().unwrap().is_finite());
    let saved = File::read(checkpoint.expect("a saved run")).unwrap();
    assert!(saved.tensors["parameters.scale"].item().unwrap().is_finite());
}

#[test]
fn concerns_are_found() {
    let key: Keys = Key::new(1).into();
    let x = Tensor::uniform(Key::new(2), [16, 4]).detach().unwrap();
    let wrong = |network: &Mlp, x: &Tensor, _: &Keys| network.apply(x).square().mean();
    let healthy = Mlp::with_init(Key::new(3), &[4, 16, 16, 1], Activation::Relu, Initializer::He);
    assert_eq!(inspect(wrong, &healthy, &x, &key).unwrap(), []);
    // With a large negative bias no unit of the first layer fires.
    let mut dead = healthy.clone();
    dead.layers[0].bias = Some(Tensor::full([16], -100.0, DType::F32));
    let diagnostics = inspect(wrong, &dead, &x, &key).unwrap();
    let all_dead = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::DeadUnits { dead: 16, units: 16, .. });
    assert!(diagnostics.iter().any(all_dead), "{diagnostics:?}");
    let not_reached = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::NotReached { parameter, .. } if parameter == "layers.0.weight");
    assert!(diagnostics.iter().any(not_reached), "{diagnostics:?}");
    let huge = healthy.map(|leaf| leaf * 1000.0);
    let explodes = |diagnostic: &Diagnostic| matches!(diagnostic, Diagnostic::Exploding { .. });
    assert!(inspect(wrong, &huge, &x, &key).unwrap().iter().any(explodes));
    // The loop tells them, too.
    #[derive(Default)]
    struct Heard(Vec<String>);
    impl<X> Observer<X> for Heard {
        fn epoch(&mut self, epoch: &Epoch<'_, X>) -> Result<Flow, Error> {
            self.0.extend(epoch.diagnostics.iter().map(Diagnostic::to_string));
            Ok(Flow::Continue)
        }
    }
    let heard = Rc::new(RefCell::new(Heard::default()));
    let examples = Arc::new(Examples::new(x).unwrap());
    let training = Training::new(wrong, Optimizer::sgd(1e-3)).epochs(1).inspect_every(1).observe(Rc::clone(&heard));
    training.run(&dead, &examples).unwrap();
    assert!(
        heard.borrow().0.iter().any(|message| message.contains("16 of 16 units are dead")),
        "{:?}",
        heard.borrow().0
    );
}

#[test]
fn early_stopping_keeps_the_best() {
    let examples = Arc::new(Examples::new(Tensor::from([1.0, 3.0])).unwrap());
    let wrong = |x: &Tensor, batch: &Tensor, _: &Keys| (x - batch).square().mean();
    // The measure has its minimum at 1, and training goes on to 2.
    let stopping = Rc::new(RefCell::new(EarlyStopping::new(2, |x: &Tensor| (x - 1.0).square().item())));
    let training = Training::new(wrong, Optimizer::sgd(0.05)).epochs(1000).observe(Rc::clone(&stopping));
    let trained = training.run(&Tensor::from(0.0), &examples).unwrap();
    assert!(trained.stopped && trained.losses.len() < 40);
    let stopping = stopping.borrow();
    let (measure, best) = stopping.best().unwrap();
    assert!(*measure < 0.01 && (best.item().unwrap() - 1.0).abs() < 0.1);
}

#[test]
fn batches_see_everything_once_an_epoch_and_ahead_of_time_the_same() {
    let examples = Arc::new(Examples::new(Tensor::arange(23_i64)).unwrap());
    let batches = Batches::new(5, Key::new(4));
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let mut seen: Vec<i64> = Vec::new();
        for batch in 0..batches.count(&*examples) {
            seen.extend(batches.at(&*examples, Position { epoch, batch }).unwrap().to_vec::<i64>().unwrap());
        }
        orders.push(seen.clone());
        seen.sort_unstable();
        assert_eq!(seen, (0..23).collect::<Vec<_>>());
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    let start = Position { epoch: 1, batch: 3 };
    let mut position = start;
    for item in Prefetch::new(Arc::clone(&examples), batches, start, 3).take(12) {
        let (at, batch) = item.unwrap();
        assert_eq!(at, position);
        let wanted = batches.at(&*examples, at).unwrap();
        assert_eq!(batch.to_vec::<i64>().unwrap(), wanted.to_vec::<i64>().unwrap());
        position = batches.after(&*examples, position);
    }
    let parts = split(&examples, &[3.0, 1.0, 1.0], Key::new(9));
    let mut all: Vec<i64> = Vec::new();
    for part in &parts {
        let places: Vec<usize> = (0..part.len()).collect();
        all.extend(part.batch(&places).unwrap().to_vec::<i64>().unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..23).collect::<Vec<_>>());
}

#[test]
fn files_that_do_not_fit_are_refused_with_all_differences() {
    let path = folder("refused").join("network.safetensors");
    let network = Mlp::new(Key::new(1), &[4, 10, 3], Activation::Tanh);
    save::save(&path, &network, &[("epoch", "7")]).unwrap();
    assert_eq!(File::read(&path).unwrap().notes["epoch"], "7");
    let loaded = save::load(&path, &network.map(Tensor::zeros_like)).unwrap().tree;
    assert_eq!(bits(&loaded), bits(&network));
    let other = Mlp::new(Key::new(1), &[4, 10, 5, 3], Activation::Tanh).map(|leaf| leaf.cast(DType::F64));
    let message = save::load(&path, &other).unwrap_err().to_string();
    for line in [
        "layers.0.weight is f64[4, 10] here and f32[4, 10] in the file",
        "layers.1.weight is f64[10, 5] here and f32[10, 3] in the file",
        "layers.2.bias is not in the file",
    ] {
        assert!(message.contains(line), "{message}");
    }
    let fewer = Mlp::new(Key::new(1), &[4, 10], Activation::Tanh);
    let message = save::load(&path, &fewer).unwrap_err().to_string();
    assert!(message.contains("layers.1.weight f32[10, 3] is not expected"), "{message}");
}

/// A file that PyTorch has written, with its names and layouts.
#[test]
fn files_of_pytorch_are_read_by_a_map_of_names() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pytorch.safetensors");
    let key = Key::new(1);
    let like =
        (Conv2d::new(key, 1, 2, 3, Convolution::default()), Activation::Relu, Flatten(3), Linear::new(key, 18, 3));
    let file = File::read(path).unwrap();
    assert_eq!(file.notes["format"], "pt");
    let network = file.tree_from(&like, |path| {
        // In both the layers are numbered from 0; matrices are the other way round.
        let source = Source::named(path.to_string());
        if path.to_string() == "3.weight" { source.transposed() } else { source }
    });
    let golden: Value = serde_json::from_str(include_str!("golden/learning.json")).unwrap();
    let case = &golden["pytorch file"];
    let output = network.unwrap().apply(&stored(&case["input"]).cast(DType::F32));
    let miss = (output.cast(DType::F64) - stored(&case["output"])).abs().max().item().unwrap();
    assert!(miss < 1e-6, "{miss}");
    let message = file.tree(&like).unwrap_err().to_string();
    assert!(message.contains("3.weight is f32[18, 3] here and f32[3, 18] in the file"), "{message}");
}

/// Every beginning of a file, and many files with wrong bytes: refused or read, never a panic.
#[test]
fn damaged_files_are_refused() {
    let network = Mlp::new(Key::new(1), &[3, 4, 2], Activation::Tanh);
    let mut file = File::of(&network).unwrap();
    file.notes.insert("what".into(), "a test".into());
    let bytes = file.to_bytes().unwrap();
    for end in 0..bytes.len() {
        let error = File::from_bytes(&bytes[..end]).expect_err("it is cut off");
        assert!(error.to_string().starts_with("load: "), "{error}");
    }
    let key = Key::new(6);
    for round in 0..20_000_u64 {
        let mut damaged = bytes.clone();
        for change in 0..1 + key.bits(3 * round) % 3 {
            let place = key.bits(7 * round + change) as usize % damaged.len();
            damaged[place] = key.bits(11 * round + change) as u8;
        }
        if let Ok(file) = File::from_bytes(&damaged) {
            // What can be read is as large as the file is, whatever it claims.
            let elements: usize = file.tensors.values().map(|tensor| tensor.shape().elements()).sum();
            assert!(elements <= damaged.len());
            let _ = file.tree(&network);
        }
    }
    // A header that claims to be longer than anything.
    let mut claims = bytes.clone();
    claims[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(File::from_bytes(&claims).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = File::from_bytes(&bytes);
        let mut whole = (bytes.len() as u64).to_le_bytes().to_vec();
        whole.extend(&bytes);
        let _ = File::from_bytes(&whole);
    }
}

#[test]
fn a_damaged_run_is_refused_and_left_alone() {
    let (network, examples, training) = noisy_training();
    let path = folder("damaged").join("run.safetensors");
    training.checkpoint(&path, 5).observe(After(10)).run(&network, &examples).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let trouble = noisy_training().2.checkpoint(&path, 5).run(&network, &examples).unwrap_err();
    assert!(
        trouble.to_string().contains("cannot read") && trouble.to_string().contains("run.safetensors"),
        "{trouble}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), &bytes[..bytes.len() / 2], "nothing is lost");
}
