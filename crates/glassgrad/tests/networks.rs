//! Whole networks against PyTorch: first losses and gradients, made by `bench/golden/networks.py`; tied embeddings; GPT-2 in files
//! of Hugging Face; mixed precision.

use std::collections::BTreeMap;
use std::sync::Arc;

use glassgrad::data::{Dataset as _, Examples};
use glassgrad::diff::value_and_grad_aux;
use glassgrad::dtype::DType;
use glassgrad::expr::{Keys, s};
use glassgrad::models::{
    Denoiser, Diffusion, Gpt, GptConfig, GraphNetwork, Pinn, ResNet, ResNetConfig, ResNetStatistics, Sampling, Vae,
};
use glassgrad::nn::{Activation, Layer, Linear, Lstm, Mlp, Recurrent};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::save::File;
use glassgrad::train::{Diagnostic, Precision, Training, inspect_precision};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, loss, value_and_grad};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/networks.json")).expect("JSON")
}

fn numbers(stored: &Value) -> Vec<f64> {
    stored.as_array().expect("numbers").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// Arrays of hashes, each from a stream of its own, as `bench/golden/networks.py` draws them.
struct Source(u64);

impl Source {
    fn unit(&mut self, count: usize) -> Vec<f64> {
        self.0 += 1;
        let one = |k: u64| {
            let mut z = ((self.0 << 40) + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..count as u64).map(one).collect()
    }

    fn uniform(&mut self, shape: &[usize], low: f64, high: f64) -> Tensor {
        let drawn = self.unit(shape.iter().product());
        let rounded = drawn.iter().map(|u| ((low + (high - low) * u) * 4096.0).round_ties_even() / 4096.0);
        Tensor::new(&rounded.collect::<Vec<f64>>(), shape)
    }

    fn classes(&mut self, shape: &[usize], count: usize) -> Tensor {
        let drawn = self.unit(shape.iter().product());
        Tensor::new(&drawn.iter().map(|u| (u * count as f64) as i64).collect::<Vec<i64>>(), shape)
    }

    /// A model with the parameters of a case.
    fn filled<X: Tree>(&mut self, case: &Value, model: &X) -> X {
        let shapes: BTreeMap<String, Vec<usize>> =
            model.leaves().iter().map(|(path, leaf)| (path.to_string(), leaf.shape().to_vec())).collect();
        let names = case["parameters"].as_array().expect("names");
        assert_eq!(names.len(), shapes.len(), "{:?}", shapes.keys());
        let mut drawn = BTreeMap::new();
        for name in names {
            let name = name.as_str().expect("a name");
            drawn.insert(name.to_owned(), self.uniform(&shapes[name], -0.5, 0.5));
        }
        model.map_with_path(|path, _| drawn[&path.to_string()].clone())
    }
}

/// Compares the loss and the gradient in 64 bits to 1e-10 and in 32 bits to 1e-5, relative to the largest element.
fn judge<X: Tree>(case: &Value, model: &X, loss: impl Fn(&X, DType) -> Tensor) {
    for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-5)] {
        let (value, gradient) = value_and_grad(|model: &X| loss(model, dtype))(&model.cast(dtype));
        let wanted = case["loss"].as_f64().expect("a loss");
        let found = value.item().unwrap();
        assert!((found - wanted).abs() <= tolerance * wanted.abs().max(1.0), "{dtype}: loss {found}, not {wanted}");
        let all: BTreeMap<String, Vec<f64>> = case["gradients"]
            .as_object()
            .expect("gradients")
            .iter()
            .map(|(name, stored)| (name.clone(), numbers(stored)))
            .collect();
        let largest = all.values().flatten().fold(0.0_f64, |most, x| most.max(x.abs()));
        for (path, leaf) in gradient.leaves() {
            assert_eq!(leaf.dtype(), dtype, "{path}");
            let wanted = &all[&path.to_string()];
            let found = leaf.to_f64_vec().unwrap();
            assert_eq!(found.len(), wanted.len(), "{path}");
            for (place, (a, b)) in found.iter().zip(wanted).enumerate() {
                assert!((a - b).abs() <= tolerance * largest, "{dtype}: {path}[{place}] is {a}, not {b}");
            }
        }
    }
}

const SMALL: GptConfig = GptConfig { vocabulary: 13, context: 7, width: 8, layers: 2, heads: 2, dropout: 0.0 };

fn small_gpt(case: &Value) -> (Gpt, Tensor, Tensor) {
    let mut source = Source(0);
    let model = source.filled(case, &Gpt::new(Key::new(1), &SMALL));
    let (tokens, targets) = (source.classes(&[3, 6], 13), source.classes(&[3, 6], 13));
    (model, tokens, targets)
}

#[test]
fn first_gradients_of_gpt() {
    let golden = golden();
    let case = &golden["networks"]["gpt"];
    let (model, tokens, targets) = small_gpt(case);
    judge(case, &model, |model, _| model.loss(&tokens, &targets));
}

#[test]
fn steps_of_gpt_with_decay_groups_clipping_and_schedule() {
    let golden = golden();
    let case = &golden["networks"]["gpt"];
    let (model, tokens, targets) = small_gpt(case);
    let optimizer = Gpt::optimizer(0.01, 0.1, 3, 10);
    let step = compile(|((model, state), ()): &((Gpt, _), ())| {
        let (value, gradient) = value_and_grad(|model: &Gpt| model.loss(&tokens, &targets))(model);
        (optimizer.update(model, &gradient, state), value)
    });
    let mut state = (model.clone(), optimizer.init(&model));
    for (number, wanted) in numbers(&case["losses"]).iter().enumerate() {
        let found = step.update(&mut state, &()).unwrap().item().unwrap();
        assert!((found - wanted).abs() < 1e-10, "step {number}: {found}, not {wanted}");
    }
}

#[test]
fn first_gradients_of_resnet() {
    let golden = golden();
    let case = &golden["networks"]["resnet"];
    let mut source = Source(0);
    let config = ResNetConfig { channels: 2, classes: 3, stages: vec![(3, 1), (4, 1)] };
    let (network, statistics) = ResNet::new(Key::new(1), &config);
    let network = source.filled(case, &network);
    let (images, classes) = (source.uniform(&[4, 2, 6, 6], -1.0, 1.0), source.classes(&[4], 3));
    let loss = |network: &ResNet, dtype: DType| network.loss(&images.cast(dtype), &classes, &statistics.cast(dtype)).0;
    judge(case, &network, loss);
    let (_, after) = network.train(&images, &statistics.cast(DType::F64));
    let shortcut = after.blocks[1].shortcut.as_ref().expect("a projection");
    for (name, found) in [("mean", &shortcut.mean), ("variance", &shortcut.variance)] {
        close(&found.to_f64_vec().unwrap(), &numbers(&case["statistics"][name]), 1e-12);
    }
    // PyTorch computed with the statistics after the same step, of which the file holds those of one layer.
    close(&network.predict(&images, &after).to_f64_vec().unwrap(), &numbers(&case["prediction"]), 1e-12);
}

fn close(found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{a}, not {b}");
    }
}

#[test]
fn first_gradients_of_a_variational_autoencoder() {
    let golden = golden();
    let case = &golden["networks"]["vae"];
    let mut source = Source(0);
    let network = source.filled(case, &Vae::new(Key::new(1), 10, 6, 3));
    let (x, noise) = (source.uniform(&[4, 10], 0.0, 1.0), source.uniform(&[4, 3], -1.0, 1.0));
    judge(case, &network, |network, dtype| {
        let x = x.cast(dtype);
        network.loss_with(&x, &network.encode(&x), &noise.cast(dtype)).mean()
    });
}

#[test]
fn first_gradients_of_a_graph_network() {
    let golden = golden();
    let case = &golden["networks"]["graph"];
    let mut source = Source(0);
    let network = source.filled(case, &GraphNetwork::new(Key::new(1), &[4, 5, 5], 3));
    let nodes = source.uniform(&[6, 4], -1.0, 1.0);
    let (sources, targets) = (source.classes(&[12], 6), source.classes(&[12], 6));
    let classes = source.classes(&[6], 3);
    judge(case, &network, |network, dtype| {
        loss::cross_entropy(&network.apply(&nodes.cast(dtype), &sources, &targets), &classes).mean()
    });
}

#[test]
fn first_gradients_of_a_physics_informed_network() {
    let golden = golden();
    let case = &golden["networks"]["pinn"];
    let mut source = Source(0);
    let network = source.filled(case, &Pinn::new(Key::new(1), &[2, 6, 6, 1]));
    let (inside, boundary) = (source.uniform(&[7, 2], -1.0, 1.0), source.uniform(&[4, 2], -1.0, 1.0));
    let (right, values) = (source.uniform(&[7], -1.0, 1.0), source.uniform(&[4], -1.0, 1.0));
    judge(case, &network, |network, dtype| {
        let [inside, right, boundary, values] = [&inside, &right, &boundary, &values].map(|data| data.cast(dtype));
        network.loss(&inside, &right, &boundary, &values)
    });
    // The forward derivatives are those of the transform of the library.
    let (_, laplacians) = network.value_and_laplacian(&inside);
    let at = |point: &Tensor| network.apply(&point.unsqueeze(0)).sum();
    let wanted = glassgrad::vmap(glassgrad::diff::laplacian(at))(&inside);
    close(&laplacians.to_f64_vec().unwrap(), &wanted.to_f64_vec().unwrap(), 1e-12);
}

#[test]
fn first_gradients_of_a_diffusion_model() {
    let golden = golden();
    let case = &golden["networks"]["diffusion"];
    let mut source = Source(0);
    let network = source.filled(case, &Denoiser::new(Key::new(1), 5, 6, 4));
    let (x, noise) = (source.uniform(&[4, 5], -1.0, 1.0), source.uniform(&[4, 5], -1.0, 1.0));
    let steps = source.classes(&[4], 8);
    let variances: Vec<f64> = (0..8).map(|step| 0.05 + 0.35 * f64::from(step) / 7.0).collect();
    let chain = Diffusion::new(&variances).unwrap();
    judge(case, &network, |network, dtype| chain.loss_with(network, &x.cast(dtype), &noise.cast(dtype), &steps));
}

#[test]
fn first_gradients_of_stacked_lstm_layers() {
    let golden = golden();
    let case = &golden["networks"]["lstm"];
    let mut source = Source(0);
    let layer = |number: u64, inputs: usize| Recurrent::new(Lstm::new(Key::new(number), inputs, 4));
    let network = (vec![layer(0, 3), layer(1, 4), layer(2, 4)], Linear::new(Key::new(3), 4, 3));
    let network = source.filled(case, &network);
    let (x, classes) = (source.uniform(&[5, 2, 3], -1.0, 1.0), source.classes(&[2], 3));
    judge(case, &network, |(layers, output), dtype| {
        let last = layers.apply(&x.cast(dtype)).slice(&[s(-1)]);
        loss::cross_entropy(&output.apply(&last), &classes).mean()
    });
}

#[test]
fn published_numbers_of_parameters() {
    assert_eq!(GptConfig::GPT2.parameters(), 124_439_808);
    assert_eq!(GptConfig::GPT2_MEDIUM.parameters(), 354_823_168);
    assert_eq!(GptConfig::GPT2_LARGE.parameters(), 774_030_080);
    assert_eq!(Gpt::new(Key::new(1), &SMALL).element_count(), SMALL.parameters());
    assert_eq!(Vae::new(Key::new(1), 784, 400, 20).element_count(), 652_824);
}

#[test]
fn tied_embeddings_are_one_parameter() {
    let golden = golden();
    let (model, tokens, targets) = small_gpt(&golden["networks"]["gpt"]);
    let names: Vec<String> = model.leaves().iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(names.iter().filter(|name| name.contains("tokens")).count(), 1);
    // The gradient is the sum of both uses.
    let both = grad(|model: &Gpt| model.loss(&tokens, &targets))(&model).tokens.weight;
    let one = |is_output: bool| {
        let part = |weight: &Tensor| {
            let mut embedding = model.clone();
            let mut output = model.clone();
            *(if is_output { &mut output.tokens.weight } else { &mut embedding.tokens.weight }) = weight.clone();
            let positions = Tensor::arange(6_i64);
            let x = embedding.tokens.apply(&tokens) + model.positions.apply(&positions);
            let features = model.norm.apply(&model.blocks.apply(&x));
            loss::cross_entropy(&output.tokens.logits(&features), &targets).mean()
        };
        grad(part)(&model.tokens.weight)
    };
    close(&both.to_f64_vec().unwrap(), &(one(true) + one(false)).to_f64_vec().unwrap(), 1e-12);
    // One slot of each kind, and one tensor in a file, from which the model is tied again.
    let optimizer = Optimizer::adamw(1e-2, 0.1);
    let state = optimizer.init(&model);
    assert_eq!(state.slots[0].leaves[0].leaves().len(), names.len());
    let file = File::from_bytes(&File::of(&model).unwrap().to_bytes().unwrap()).unwrap();
    assert_eq!(file.tensors.len(), names.len());
    let read = file.tree(&Gpt::new(Key::new(9), &SMALL).cast(DType::F64)).unwrap();
    let gradient = grad(|model: &Gpt| model.loss(&tokens, &targets))(&read);
    let (next, _) = optimizer.update(&read, &gradient, &state);
    let moved = next.apply(&tokens);
    assert_eq!(moved.shape().to_string(), "[3, 6, 13]");
    assert_ne!(moved.to_string(), model.apply(&tokens).to_string());
}

#[test]
fn generation_over_a_cache_is_that_of_the_growing_context() {
    let golden = golden();
    let (model, _, _) = small_gpt(&golden["networks"]["gpt"]);
    let model = model.cast(DType::F32);
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let written = model.generate(&[3, 1], 5, &greedy).unwrap();
    let mut tokens = vec![3, 1];
    for _ in 0..5 {
        let logits = model.apply(&Tensor::new(&tokens, [1, tokens.len()])).slice(&[s(0), s(-1)]);
        tokens.push(logits.argmax(-1).item().unwrap() as i64);
    }
    assert_eq!(written, tokens[2..]);
    // Beyond the context, and with a prompt longer than it.
    assert_eq!(model.generate(&[1; 20], 12, &Sampling::default()).unwrap().len(), 12);
    assert!(model.generate(&[], 1, &greedy).unwrap_err().to_string().contains("the prompt is empty"));
    let long = model.apply(&Tensor::new(&[1_i64; 8], [1, 8])).eval().unwrap_err().to_string();
    assert!(long.contains("8 positions, and the network has embeddings of 7"), "{long}");
}

#[test]
fn gpt2_of_hugging_face() {
    let golden = golden();
    let case = &golden["hugging face"];
    let bytes = include_bytes!("golden/gpt2.safetensors");
    let file = File::from_bytes(bytes).unwrap();
    let model = Gpt::from_hugging_face(&file, 2).unwrap();
    let wanted = GptConfig { vocabulary: 17, context: 8, width: 8, layers: 2, heads: 2, dropout: 0.1 };
    assert_eq!(model.config(), wanted);
    let tokens: Vec<i64> = numbers(&case["tokens"]).iter().map(|token| *token as i64).collect();
    let logits = model.apply(&Tensor::new(&tokens, [2, 7])).to_f64_vec().unwrap();
    close(&logits, &numbers(&case["logits"]), 1e-5);
    // Saved back: the same names, types and bits.
    let saved = File::from_bytes(&model.to_hugging_face().unwrap().to_bytes().unwrap()).unwrap();
    assert_eq!(saved.notes["format"], "pt");
    for (name, tensor) in &saved.tensors {
        assert_eq!(tensor.to_vec::<f32>().unwrap(), file.tensors[name].to_vec::<f32>().unwrap(), "{name}");
    }
    // Names without the prefix, masks, and a head that is tied are read; one that is not is refused.
    let mut other = File::default();
    for (name, tensor) in &saved.tensors {
        other.tensors.insert(name.trim_start_matches("transformer.").to_owned(), tensor.clone());
    }
    other.tensors.insert("h.0.attn.bias".into(), Tensor::ones([1, 1, 8, 8]));
    other.tensors.insert("lm_head.weight".into(), other.tensors["wte.weight"].clone());
    assert!(Gpt::from_hugging_face(&other, 2).is_ok());
    other.tensors.insert("lm_head.weight".into(), &other.tensors["wte.weight"] + 1.0);
    let refused = Gpt::from_hugging_face(&other, 2).unwrap_err().to_string();
    assert!(refused.contains("lm_head.weight differs from wte.weight"), "{refused}");
    assert!(Gpt::from_hugging_face(&saved, 3).unwrap_err().to_string().contains("3 heads"));
    other.tensors.remove("wpe.weight");
    assert!(Gpt::from_hugging_face(&other, 2).unwrap_err().to_string().contains("no tensor wpe.weight"));
}

/// Points of two interleaved half circles and their class.
fn moons() -> Arc<Examples<(Tensor, Tensor)>> {
    let (mut points, mut classes) = (Vec::new(), Vec::new());
    let key = Key::new(5);
    for k in 0..400_u64 {
        let (class, angle) = (k % 2, std::f64::consts::PI * key.uniform(2 * k));
        let (x, y) = match class {
            0 => (angle.cos(), angle.sin()),
            _ => (1.0 - angle.cos(), 0.5 - angle.sin()),
        };
        points.extend([x, y].map(|number| (number + 0.08 * key.normal(1000 + k)) as f32));
        classes.push(class as i64);
    }
    Arc::new(Examples::new((Tensor::new(&points, [400, 2]), Tensor::from(classes))).unwrap())
}

fn accuracy(network: &Mlp, examples: &Examples<(Tensor, Tensor)>) -> f64 {
    let (x, y) = examples.tensors();
    network.apply(x).argmax(-1).equal(y).cast(DType::F64).mean().item().unwrap()
}

#[test]
fn mixed_precision_trains_as_well_as_full_precision() {
    let examples = moons();
    let objective = |network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys| {
        let loss = loss::cross_entropy(&network.apply(x), y).mean();
        assert_eq!(loss.dtype(), DType::F32);
        loss
    };
    let start = Mlp::new(Key::new(1), &[2, 32, 32, 2], Activation::Relu);
    let trained = |precision: Precision, parts: usize| {
        let training = Training::new(objective, Optimizer::adam(1e-2)).precision(precision).accumulate(parts);
        training.epochs(15).batch_size(40).run(&start, &examples).unwrap()
    };
    for (precision, parts) in [(Precision::Full, 1), (Precision::Bf16, 1), (Precision::F16, 1), (Precision::Bf16, 4)] {
        let trained = trained(precision, parts);
        let right = accuracy(&trained.parameters, &examples);
        assert!(right > 0.97, "{precision:?}: {right}");
        assert!(trained.parameters.flatten().iter().all(|leaf| leaf.dtype() == DType::F32));
    }
}

#[test]
fn activations_are_stored_in_16_bits_and_statistics_are_not() {
    let config = ResNetConfig { channels: 1, classes: 4, stages: vec![(8, 1), (16, 1)] };
    let start = ResNet::new(Key::new(1), &config);
    type Model = (ResNet, ResNetStatistics);
    // Noise with a brighter half: left, right, upper or lower.
    let classes: Vec<i64> = (0..64).map(|k| k % 4).collect();
    let bright = |class: i64, row: usize, column: usize| [column < 4, column >= 4, row < 4, row >= 4][class as usize];
    let pixel = |k: usize| f32::from(u8::from(bright(classes[k / 64], k % 64 / 8, k % 8)));
    let halves = Tensor::new(&(0..64 * 64).map(pixel).collect::<Vec<f32>>(), [64, 1, 8, 8]);
    let images = (halves + Tensor::normal(Key::new(2), [64, 1, 8, 8]) * 0.3).detach().unwrap();
    let examples = Arc::new(Examples::new((images, Tensor::from(classes))).unwrap());
    let objective = |(network, statistics): &Model, (x, y): &(Tensor, Tensor), _: &Keys| {
        let (logits, statistics) = network.train(x, statistics);
        assert_eq!((logits.dtype(), statistics.stem.mean.dtype()), (DType::BF16, DType::F32));
        (loss::cross_entropy(&logits, y).mean(), (network.clone(), statistics))
    };
    let optimizer = Optimizer::adam(5e-3).freeze("1");
    let training = Training::new(objective, optimizer).precision(Precision::Bf16).epochs(12).batch_size(16);
    let trained = training.run(&start, &examples).unwrap();
    assert!(trained.losses.last().unwrap() < &0.1, "{:?}", trained.losses);
    let (network, statistics) = &trained.parameters;
    assert_ne!(statistics.stem.mean.to_string(), start.1.stem.mean.to_string());
    let (x, y) = examples.tensors();
    let right = network.predict(x, statistics).argmax(-1).equal(y).cast(DType::F64).mean().item().unwrap();
    assert!(right > 0.9, "{right}");
}

#[test]
fn loss_scaling_skips_steps_that_overflow_and_is_part_of_a_checkpoint() {
    // The scale of the first step, 65536, overflows where a cotangent is rounded to f16.
    let examples = Arc::new(Examples::new(Tensor::from([1.0_f32])).unwrap());
    let objective =
        |layer: &Linear, x: &Tensor, _: &Keys| (layer.apply(&x.reshape([1, 1])) * 1e4).cast(DType::F32).sum();
    let start = Linear { weight: Tensor::from([[1.0_f32]]), bias: None };
    let folder = std::env::temp_dir().join(format!("glassgrad-scaling-{}", std::process::id()));
    let run = |epochs: u64| {
        let training = Training::new(objective, Optimizer::sgd(1e-5)).precision(Precision::F16).epochs(epochs);
        let training = training.batch_size(1).checkpoint(&folder, 1);
        let mut session = training.session(&start, &examples).unwrap();
        while session.advance(&mut ()).unwrap().is_some() {}
        let scale = session.run().loss_scale.expect("a scale").factor.item().unwrap();
        (session.parameters().weight.item().unwrap(), scale)
    };
    let (after_one, scale) = run(1);
    assert_eq!((after_one, scale), (1.0, 32768.0), "the first step overflows and is skipped");
    let (after_more, scale) = run(20);
    assert!(after_more < 0.95 && scale < 65536.0, "{after_more}, {scale}");
    std::fs::remove_file(&folder).unwrap();
}

#[test]
fn inspection_reports_overflow_underflow_and_loss_of_precision() {
    let layer = Linear::new(Key::new(1), 4, 3);
    let optimizer = Optimizer::sgd(0.1);
    let found = |precision, scale: f32, factor: f64| {
        let batch = Tensor::full([8, 4], scale, DType::F32);
        let loss = move |layer: &Linear, x: &Tensor, _: &Keys| layer.apply(x).cast(DType::F32).square().mean() * factor;
        inspect_precision(loss, &optimizer, &layer, &batch, &Key::new(2).into(), precision).unwrap()
    };
    assert_eq!(found(Precision::Bf16, 1.0, 1.0), []);
    assert_eq!(found(Precision::Full, 1e6, 1.0), []);
    assert!(matches!(&found(Precision::F16, 1e5, 1.0)[0], Diagnostic::Overflow { dtype: DType::F16, .. }));
    let lost = &found(Precision::F16, 1.0, 1e-9)[0];
    assert!(matches!(lost, Diagnostic::Underflow { share, .. } if *share == 1.0), "{lost}");
    assert!(lost.to_string().contains("are zero in f16"), "{lost}");
    // A difference of nearly equal numbers: bf16 loses it.
    let loss = |w: &Tensor, x: &Tensor, _: &Keys| ((w * 1.001 - w) * x).cast(DType::F32).square().sum();
    let (w, x) = (Tensor::from([1.0_f32, 3.0, 5.0, 7.0]), Tensor::ones([4]));
    let found = inspect_precision(loss, &optimizer, &w, &x, &Key::new(1).into(), Precision::Bf16).unwrap();
    assert!(matches!(&found[..], [Diagnostic::Imprecise { .. } | Diagnostic::Underflow { .. }]), "{found:?}");
}

#[test]
fn running_statistics_accumulate_over_micro_batches() {
    let config = ResNetConfig { channels: 1, classes: 2, stages: vec![(2, 1)] };
    let start = ResNet::new(Key::new(1), &config);
    let images = Tensor::normal(Key::new(2), [8, 1, 4, 4]).detach().unwrap();
    let classes = Tensor::from([0_i64, 1, 0, 1, 0, 1, 0, 1]);
    let examples = Arc::new(Examples::new((images, classes)).unwrap());
    let objective = |(network, statistics): &(ResNet, ResNetStatistics), (x, y): &(Tensor, Tensor), _: &Keys| {
        let (loss, statistics) = network.loss(x, y, statistics);
        (loss, (network.clone(), statistics))
    };
    let training = Training::new(objective, Optimizer::sgd(0.0).freeze("1")).epochs(1).batch_size(8).accumulate(2);
    let trained = training.run(&start, &examples).unwrap();
    // By hand: the two halves of the batch, one after the other, in the order of the run.
    let batches = glassgrad::data::Batches::new(8, Key::new(0).fold(0));
    let (x, _) = batches.at(&*examples, glassgrad::data::Position::default()).unwrap();
    let half = |begin: isize| x.slice(&[s(begin..begin + 4)]);
    let (_, first) = start.0.train(&half(0), &start.1);
    let (_, second) = start.0.train(&half(4), &first);
    let found = trained.parameters.1.stem.mean.to_f64_vec().unwrap();
    close(&found, &second.stem.mean.to_f64_vec().unwrap(), 1e-6);
    assert!(examples.len() == 8);
    let aux = value_and_grad_aux(|network: &ResNet| network.loss(&x, &Tensor::from([0_i64; 8]), &start.1));
    assert_eq!(aux(&start.0).2.blocks.len(), 1);
}

#[test]
fn tokens_are_drawn_as_often_as_they_are_probable() {
    let logits = [0.0, 3.0_f64.ln(), f64::NEG_INFINITY];
    let sampling = Sampling { key: Key::new(3), ..Sampling::default() };
    let mut counts = [0; 3];
    (0..4000).for_each(|number| counts[sampling.draw(&logits, number)] += 1);
    assert!((counts[0] - 1000_i32).abs() < 100 && counts[2] == 0, "{counts:?}");
    assert_eq!(Sampling { temperature: 0.0, ..sampling }.draw(&logits, 1), 1);
    assert!((0..100).all(|number| Sampling { top_k: Some(1), ..sampling }.draw(&logits, number) == 1));
}

#[test]
fn a_loss_that_returns_another_structure_is_refused() {
    type Model = (Tensor, Vec<Tensor>);
    let examples = Arc::new(Examples::new(Tensor::from([1.0_f32])).unwrap());
    let objective = |(w, seen): &Model, x: &Tensor, _: &Keys| {
        let more = vec![seen[0].clone(), seen[0].clone()];
        ((w * x).sum(), (w.clone(), more))
    };
    let start = (Tensor::from([1.0_f32]), vec![Tensor::from([0.0_f32])]);
    let refused = Training::new(objective, Optimizer::sgd(0.1).freeze("1")).epochs(1).run(&start, &examples);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("returns 2 leaves that are not trained, and the parameters have 1"), "{message}");
}
