//! Layers, losses, optimizers and schedules against PyTorch: numbers made by `bench/golden/learning.py`.

use std::collections::BTreeMap;

use glassgrad::dist::{Bernoulli, Categorical, Distribution, Normal, Poisson};
use glassgrad::dtype::DType;
use glassgrad::nn::{
    Activation, AvgPool, BatchNorm, Conv1d, Conv2d, Dropout, Embedding, Fans, Flatten, Gru, Initializer, Layer,
    LayerNorm, Linear, Lstm, MaxPool, Mlp, MultiHeadAttention, PRelu, Recurrent, Rnn, SparseLinear, Statistics,
    TransformerBlock,
};
use glassgrad::operations::{Convolution, Pooling};
use glassgrad::optim::{Optimizer, Plateau, RmsProp, Schedule};
use glassgrad::rng::Key;
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, hvp, loss, value_and_grad};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/learning.json")).expect("JSON")
}

fn tensor(stored: &Value) -> Tensor {
    let shape: Vec<usize> =
        stored["shape"].as_array().expect("sizes").iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let numbers = stored["numbers"].as_array().expect("numbers");
    match stored["type"].as_str() {
        Some("i64") => Tensor::new(&numbers.iter().map(|n| n.as_i64().unwrap()).collect::<Vec<_>>(), shape),
        _ => Tensor::new(&numbers.iter().map(|n| n.as_f64().unwrap()).collect::<Vec<_>>(), shape),
    }
}

#[track_caller]
fn close(found: &Tensor, stored: &Value, tolerance: f64, what: &str) {
    let wanted = tensor(stored);
    assert_eq!(found.shape(), wanted.shape(), "{what}");
    let (found, wanted) = (found.to_f64_vec().unwrap(), wanted.to_f64_vec().unwrap());
    let largest = wanted.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
    for (place, (a, b)) in found.iter().zip(&wanted).enumerate() {
        assert!((a - b).abs() <= tolerance * largest, "{what}: {a} in place of {b} at {place}");
    }
}

/// A layer with the weights of a case, and whether it makes of the inputs what PyTorch makes, with its gradients; then its
/// second derivative along a direction against a difference of gradients.
fn judge<L: Tree + Clone>(golden: &Value, name: &str, layer: L, apply: impl Fn(&L, &[Tensor]) -> Tensor) {
    let case = &golden["layers"][name];
    assert!(case.is_object(), "{name} is not in the file");
    let mut met = 0;
    let layer = layer.map_with_path(|path, leaf| {
        met += 1;
        let own = tensor(&case["parameters"][path.to_string()]);
        assert_eq!(own.shape(), leaf.shape(), "{name}: {path}");
        own
    });
    assert_eq!(met, case["parameters"].as_object().expect("weights").len(), "{name}");
    let inputs: Vec<Tensor> = case["inputs"].as_array().expect("inputs").iter().map(tensor).collect();
    let weight = tensor(&case["weight"]);
    close(&apply(&layer, &inputs), &case["output"], 1e-13, name);
    let total = |(layer, inputs): &(L, Vec<Tensor>)| apply(layer, inputs).inner(&weight);
    let both = (layer.clone(), inputs.clone());
    let (slopes, input_slopes) = grad(total)(&both);
    for (path, slope) in slopes.leaves() {
        close(&slope, &case["gradients"][path.to_string()], 1e-12, &format!("{name}: slope of {path}"));
    }
    for (slope, stored) in input_slopes.iter().zip(case["input_gradients"].as_array().expect("slopes")) {
        if !stored.is_null() {
            close(slope, stored, 1e-12, &format!("{name}: slope of an input"));
        }
    }
    curved_as_differences_say(name, total, &both);
}

/// Whether the Hessian along a direction is the difference of two gradients.
fn curved_as_differences_say<X: Tree>(name: &str, total: impl Fn(&X) -> Tensor, at: &X) {
    const STEP: f64 = 1e-5;
    let leaf_direction = |leaf: &Tensor| match leaf.is_float() {
        true => Tensor::normal(Key::new(3), leaf.shape()).cast(DType::F64).detach().unwrap(),
        false => leaf.zeros_like(),
    };
    let direction = at.map(leaf_direction);
    let curved = hvp(&total, at, &direction);
    let ahead = grad(&total)(&at.zip(&direction, |x, d| if x.is_float() { x + d * STEP } else { x.clone() }));
    let behind = grad(&total)(&at.zip(&direction, |x, d| if x.is_float() { x - d * STEP } else { x.clone() }));
    for ((found, ahead), behind) in curved.flatten().iter().zip(ahead.flatten()).zip(behind.flatten()) {
        if found.is_float() {
            let difference = ((ahead - behind) * (0.5 / STEP)).to_vec::<f64>().unwrap();
            let largest = difference.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
            for (a, b) in found.to_vec::<f64>().unwrap().iter().zip(difference) {
                assert!((a - b).abs() < 1e-6 * largest, "{name}: second order {a}, by differences {b}");
            }
        }
    }
}

/// The same for layers of one tensor.
fn check_layer<L: Tree + Clone + Layer>(golden: &Value, name: &str, layer: L) {
    judge(golden, name, layer, |layer, inputs| layer.apply(&inputs[0]));
}

#[test]
fn layers() {
    let (golden, key) = (golden(), Key::new(1));
    let judged = |name, layer| check_layer(&golden, name, layer);
    judged("linear", Linear::new(key, 4, 3));
    judged("linear without bias", Linear::new(key, 4, 3).without_bias());
    check_layer(&golden, "mlp", Mlp::new(key, &[3, 5, 4, 2], Activation::Tanh));
    let config = Convolution::default().stride(2).padding(1).dilation(2).groups(2);
    check_layer(&golden, "conv1d", Conv1d::new(key, 4, 6, 3, config));
    let config = Convolution::default().stride([1, 2]).padding([1, 0]);
    check_layer(&golden, "conv2d", Conv2d::new(key, 3, 4, [3, 2], config));
    check_layer(&golden, "layer norm", LayerNorm::new(5));
    check_layer(&golden, "embedding", Embedding::new(key, 7, 3));
    check_layer(&golden, "prelu", PRelu::new(3));
    check_layer(&golden, "rnn", Recurrent::new(Rnn::new(key, 3, 4)));
    check_layer(&golden, "lstm", Recurrent::new(Lstm::new(key, 3, 4)));
    check_layer(&golden, "gru", Recurrent::new(Gru::new(key, 3, 4)));
    judge(&golden, "lstm of mixed lengths", Recurrent::new(Lstm::new(key, 3, 4)), |layer, inputs| {
        layer.run_lengths(&inputs[0], &inputs[1]).0
    });
    judge(&golden, "gru of mixed lengths", Recurrent::new(Gru::new(key, 3, 4)), |layer, inputs| {
        layer.run_lengths(&inputs[0], &inputs[1]).0
    });
    check_layer(&golden, "attention", MultiHeadAttention::new(key, 6, 2));
    check_layer(&golden, "causal attention", MultiHeadAttention::new(key, 6, 3).causal());
    check_layer(&golden, "transformer block", TransformerBlock::new(key, 6, 2));
    let pools = [("max pool", Pooling::new(2)), ("overlapping max pool", Pooling::new(3).stride(2).padding(1))];
    for (name, config) in pools {
        check_layer(&golden, name, MaxPool::<2> { config });
    }
    check_layer(&golden, "avg pool", AvgPool { config: Pooling::<1>::new(3).stride(2).padding(1) });
    let activations = [
        ("identity", Activation::Identity),
        ("sigmoid", Activation::Sigmoid),
        ("tanh", Activation::Tanh),
        ("relu", Activation::Relu),
        ("leaky relu", Activation::LeakyRelu(0.125)),
        ("elu", Activation::Elu(1.5)),
        ("gelu", Activation::Gelu),
        ("silu", Activation::Silu),
        ("softplus", Activation::Softplus),
        ("softmax", Activation::Softmax),
        ("log softmax", Activation::LogSoftmax),
    ];
    for (name, activation) in activations {
        check_layer(&golden, name, activation);
    }
    let known = 2 + 1 + 2 + 3 + 3 + 5 + 3 + activations.len();
    assert_eq!(golden["layers"].as_object().unwrap().len(), known, "a case of the file is not judged");
}

#[test]
fn batch_norm_and_its_statistics() {
    let golden = golden();
    let case = &golden["batch norm"];
    let norm = BatchNorm { scale: tensor(&case["scale"]), shift: tensor(&case["shift"]), ..BatchNorm::new(3) };
    let mut statistics = Statistics::new(3).map(|leaf| leaf.cast(DType::F64));
    for step in case["steps"].as_array().unwrap() {
        let (x, weight) = (tensor(&step["input"]), tensor(&step["weight"]));
        let (y, moved) = norm.normalize(&x, &statistics);
        close(&y, &step["output"], 1e-13, "output");
        close(&moved.mean, &step["mean"], 1e-14, "mean");
        close(&moved.variance, &step["variance"], 1e-14, "variance");
        let total = |(norm, x): &(BatchNorm, Tensor)| norm.normalize(x, &statistics).0.inner(&weight);
        curved_as_differences_say("batch norm", total, &(norm.clone(), x.clone()));
        let (slope, input_slope) = grad(total)(&(norm.clone(), x));
        close(&input_slope, &step["input_gradient"], 1e-12, "slope of the input");
        close(&slope.scale, &step["scale_gradient"], 1e-12, "slope of the scale");
        statistics = moved.realise().unwrap();
    }
    let prediction = &case["prediction"];
    close(&norm.predict(&tensor(&prediction["input"]), &statistics), &prediction["output"], 1e-13, "prediction");
}

#[test]
fn losses() {
    let golden = golden();
    type Loss = fn(&Tensor, &Tensor) -> Tensor;
    let cases: [(&str, Loss); 8] = [
        ("mse", loss::mse),
        ("huber", |p, t| loss::huber(p, t, 0.5)),
        ("cross entropy", loss::cross_entropy),
        ("cross entropy of probabilities as targets", loss::cross_entropy),
        ("nll", loss::nll),
        ("binary cross entropy", loss::binary_cross_entropy),
        ("binary cross entropy of probabilities", loss::binary_cross_entropy_of_probabilities),
        ("hinge", loss::hinge),
    ];
    for (name, function) in cases {
        let case = &golden["losses"][name];
        let (prediction, target) = (tensor(&case["prediction"]), tensor(&case["target"]));
        let found = function(&prediction, &target);
        let near = |found: &Tensor, stored: &Value| {
            let (found, wanted) = (found.item().unwrap(), stored.as_f64().unwrap());
            assert!((found - wanted).abs() <= 1e-13 * wanted.abs().max(1.0), "{name}: {found}, not {wanted}");
        };
        near(&found.mean(), &case["mean"]);
        near(&found.sum(), &case["sum"]);
        let slope = grad(|p: &Tensor| function(p, &target).mean())(&prediction);
        close(&slope, &case["gradient"], 1e-13, name);
    }
    assert_eq!(golden["losses"].as_object().unwrap().len(), cases.len());
}

fn optimizers() -> BTreeMap<&'static str, Optimizer> {
    let scheduled = |schedule| Optimizer::sgd(0.1).schedule(schedule);
    BTreeMap::from([
        ("sgd", Optimizer::sgd(0.1)),
        ("sgd with decay", Optimizer::sgd(0.1).weight_decay(0.05)),
        ("momentum", Optimizer::sgd(0.1).momentum(0.9)),
        ("momentum with decay", Optimizer::sgd(0.1).weight_decay(0.05).momentum(0.9)),
        ("ema", Optimizer::sgd(0.1).ema(0.75)),
        ("nesterov", Optimizer::sgd(0.1).nesterov(0.9)),
        ("rmsprop", Optimizer::rmsprop(0.01)),
        (
            "rmsprop with momentum",
            Optimizer::new(0.01).link(RmsProp { alpha: 0.9, ..RmsProp::default() }).momentum(0.5),
        ),
        ("adagrad", Optimizer::adagrad(0.1)),
        ("adam", Optimizer::adam(0.01)),
        ("adam with decay", Optimizer::new(0.01).weight_decay(0.05).link(glassgrad::optim::Adam::default())),
        ("adamw", Optimizer::adamw(0.01, 0.05)),
        ("clip by norm", Optimizer::sgd(0.1).clip_norm(1.0)),
        ("clip by value", Optimizer::sgd(0.1).clip_value(0.5)),
        ("groups", Optimizer::sgd(0.1).rate_factor("1", 0.25)),
        ("linear", scheduled(Schedule::Linear { from: 1.0, to: 0.75, changes: 4, every: 1 })),
        ("step", scheduled(Schedule::Exponential { factor: 0.5, every: 3 })),
        ("exponential", scheduled(Schedule::Exponential { factor: 0.9, every: 1 })),
        ("cosine", scheduled(Schedule::Cosine { steps: 10, least: 0.1 })),
        ("plateau", Optimizer::sgd(0.1).link(Plateau::new(0.5, 1))),
    ])
}

#[test]
fn ten_steps_of_every_optimizer() {
    let golden = golden();
    let pair = |stored: &Value| (tensor(&stored[0]), tensor(&stored[1]));
    for (name, optimizer) in &optimizers() {
        let mut x = pair(&golden["start"]);
        let mut state = optimizer.init(&x);
        for step in 0..10 {
            let slope = pair(&golden["gradients"][step]);
            let value = Tensor::from(golden["values"][step].as_f64().unwrap());
            // Taken apart, the last part is the step itself, bit for bit.
            let parts = optimizer.updates_by_link(&x, &slope, Some(&value), &state);
            let (moved, next) = optimizer.update_with_loss(&x, &slope, Some(&value), &state);
            if *name != "plateau" {
                let (_, last) = parts.last().expect("parts");
                assert_eq!(last.0.to_vec::<f64>(), moved.0.to_vec::<f64>(), "{name}");
                assert_eq!(last.1.to_vec::<f64>(), moved.1.to_vec::<f64>(), "{name}");
            }
            (x, state) = (moved, next).realise().unwrap();
            let wanted = &golden["optimizers"][name][step];
            close(&x.0, &wanted[0], 1e-13, &format!("{name}, step {step}"));
            close(&x.1, &wanted[1], 1e-13, &format!("{name}, step {step}"));
        }
    }
    assert_eq!(golden["optimizers"].as_object().unwrap().len(), optimizers().len());
}

/// Every optimizer finds the minima of a bowl and of a narrow valley.
#[test]
fn every_optimizer_reaches_minima() {
    let bowl = |x: &Tensor| ((x - Tensor::from([1.0, -2.0])).square() * Tensor::from([1.0, 3.0])).sum();
    let valley = |x: &Tensor| {
        let (a, b) = (x.slice(&[0.into()]), x.slice(&[1.into()]));
        (1.0 - &a).square() + (b - a.square()).square() * 5.0
    };
    type Problem<'p> = (&'static str, &'p dyn Fn(&Tensor) -> Tensor, [f64; 2]);
    let problems: [Problem<'_>; 2] = [("bowl", &bowl, [1.0, -2.0]), ("valley", &valley, [1.0, 1.0])];
    // Rules that divide by the size of slopes make steps that do not become shorter by themselves.
    let falling = Schedule::Exponential { factor: 0.5, every: 300 };
    let rules: [(&str, Optimizer); 9] = [
        ("sgd", Optimizer::sgd(0.02)),
        ("momentum", Optimizer::sgd(0.01).momentum(0.8)),
        ("ema", Optimizer::sgd(0.02).ema(0.5)),
        ("nesterov", Optimizer::sgd(0.01).nesterov(0.8)),
        ("rmsprop", Optimizer::rmsprop(0.05).schedule(falling.clone())),
        ("adagrad", Optimizer::adagrad(0.5)),
        ("adam", Optimizer::adam(0.05).schedule(falling.clone())),
        ("adamw", Optimizer::adamw(0.05, 1e-8).schedule(falling)),
        ("clipped", Optimizer::sgd(0.02).clip_norm(3.0)),
    ];
    for (rule, optimizer) in rules {
        for (problem, function, minimum) in &problems {
            let step = compile(|(x, state): &(Tensor, _)| {
                let slope = grad(*function)(x);
                optimizer.update(x, &slope, state)
            });
            let start = Tensor::from([-0.5, 0.5]);
            let mut both = (start.clone(), optimizer.init(&start));
            for _ in 0..4000 {
                both = step.call(&both).unwrap();
            }
            let found = both.0.to_vec::<f64>().unwrap();
            let miss = found.iter().zip(minimum).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(miss < 1e-4, "{rule} misses the minimum of the {problem} by {miss}");
        }
    }
}

#[test]
fn distributions_are_losses() {
    let normal = |key: u64, shape: &[usize]| Tensor::normal(Key::new(key), shape).cast(DType::F64).detach().unwrap();
    let (prediction, observed) = (normal(1, &[6]), normal(2, &[6]));
    // Of a normal distribution with the variance ½, the loss is the square of the difference up to a constant.
    let by_distribution = |p: &Tensor| Normal::around(p, 0.5_f64.sqrt()).loss(&observed).sum();
    let by_square = |p: &Tensor| loss::mse(p, &observed).sum();
    let differ = grad(by_distribution)(&prediction) - grad(by_square)(&prediction);
    assert!(differ.abs().max().item().unwrap() < 1e-13);
    // A learned variance is lowest at the mean square of the difference.
    let found = glassgrad::optim::Newton::new().minimise(
        |log_deviation: &Tensor| {
            let log_deviation = log_deviation.broadcast_to(observed.shape());
            Normal { mean: prediction.clone(), log_deviation }.loss(&observed).sum()
        },
        &Tensor::from([0.0]),
    );
    let variance = (2.0 * found.unwrap().point.item().unwrap()).exp();
    assert!((variance - by_square(&prediction).item().unwrap() / 6.0).abs() < 1e-10);
    let answers = observed.step(0.0);
    let even = Bernoulli { logits: prediction.clone() }.loss(&answers);
    assert_eq!(even.to_vec::<f64>(), loss::binary_cross_entropy(&prediction, &answers).to_vec::<f64>());
    let (logits, classes) = (normal(3, &[4, 3]), Tensor::from([2_i64, 0, 1, 1]));
    let species = Categorical { logits: logits.clone() };
    assert_eq!(species.loss(&classes).to_vec::<f64>(), loss::cross_entropy(&logits, &classes).to_vec::<f64>());
}

/// Samples have the moments that distributions tell, and probabilities add up to one.
#[test]
fn samples_have_the_moments_of_their_distributions() {
    let key = || Key::new(7).into();
    let many = |number: f64| Tensor::full([40_000], number, DType::F64);
    let judge = |name: &str, samples: Tensor, mean: f64, variance: f64| {
        let (m, v) = (samples.mean().item().unwrap(), samples.var().item().unwrap());
        assert!((m - mean).abs() < 4.0 * (variance / 40_000.0).sqrt(), "{name}: mean {m}, not {mean}");
        assert!((v / variance - 1.0).abs() < 0.05, "{name}: variance {v}, not {variance}");
    };
    judge("normal", Normal::around(&many(2.0), 3.0).sample(&key()), 2.0, 9.0);
    judge("bernoulli", Bernoulli { logits: many(1.0) }.sample(&key()), 0.7310585786300049, 0.19661193324148185);
    for rate in [0.5, 9.0, 11.0, 300.0, 1e6_f64] {
        judge(&format!("poisson {rate}"), Poisson { log_rate: many(rate.ln()) }.sample(&key()), rate, rate);
    }
    let counts = Tensor::arange(60.0);
    let counted = Poisson { log_rate: counts.full_like(2.0) }.log_probability(&counts).exp().sum().item().unwrap();
    assert!((counted - 1.0).abs() < 1e-12);
    let species = Categorical { logits: Tensor::from([[0.0, 1.0, 2.0]]).broadcast_to([40_000, 3]) };
    let shares = species.sample(&key()).one_hot(3, DType::F64).mean_over(0).to_vec::<f64>().unwrap();
    let wanted = species.mean().slice(&[0.into()]).to_vec::<f64>().unwrap();
    assert!(shares.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 0.01));
}

#[test]
fn first_weights_have_their_variances() {
    let reach = Fans::of_matrix(300, 100);
    let draw = |initial: Initializer| initial.draw(Key::new(5), [300, 100], reach);
    let cases = [
        (Initializer::Uniform(1.0), 1.0 / 3.0),
        (Initializer::Normal(0.5), 0.25),
        (Initializer::FanIn, 1.0 / 900.0),
        (Initializer::Xavier, 2.0 / 400.0),
        (Initializer::XavierNormal, 2.0 / 400.0),
        (Initializer::He, 2.0 / 300.0),
        (Initializer::HeNormal, 2.0 / 300.0),
    ];
    for (initial, variance) in cases {
        let weight = draw(initial);
        let (found, mean) = (weight.var().item().unwrap(), weight.mean().item().unwrap());
        assert!((found / variance - 1.0).abs() < 0.03, "{initial:?}: {found}, not {variance}");
        assert!(mean.abs() < 0.03 * variance.sqrt() * 3.0, "{initial:?}: mean {mean}");
    }
    for shape in [[300, 100], [100, 300]] {
        let weight = Initializer::Orthogonal(2.0).draw(Key::new(5), shape, reach);
        let product =
            if shape[0] < shape[1] { weight.matmul(&weight.transpose()) } else { weight.transpose().matmul(&weight) };
        let miss = (product - Tensor::eye(100).cast(DType::F32) * 4.0).abs().max().item().unwrap();
        assert!(miss < 1e-5, "{shape:?}: {miss}");
    }
}

/// Wires are integers among the weights: they are saved with them and never move.
#[test]
fn sparse_layers_learn_and_keep_their_connections() {
    let layer = SparseLinear::new(Key::new(1), 20, 4, 3);
    let x = Tensor::normal(Key::new(2), [50, 20]).detach().unwrap();
    let target = x.slice(&[(..).into(), (..4).into()]);
    let fit = |layer: &SparseLinear| loss::mse(&layer.apply(&x), &target).mean();
    let optimizer = Optimizer::adam(0.05).weight_decay(1e-3);
    let (mut moved, mut state) = (layer.clone(), optimizer.init(&layer));
    let before = fit(&moved).item().unwrap();
    for _ in 0..50 {
        let (_, slope) = value_and_grad(fit)(&moved);
        ((moved, state), ()) = ((optimizer.update(&moved, &slope, &state)), ()).realise().unwrap();
    }
    assert!(fit(&moved).item().unwrap() < before);
    assert_eq!(moved.indices.to_vec::<i64>().unwrap(), layer.indices.to_vec::<i64>().unwrap());
    // Each output sees three different inputs, and is what a dense layer with those weights alone makes.
    let indices = layer.indices.to_vec::<i64>().unwrap();
    let mut dense = vec![0.0_f32; 20 * 4];
    for (place, weight) in layer.weight.to_vec::<f32>().unwrap().iter().enumerate() {
        dense[indices[place] as usize * 4 + place / 3] += weight;
    }
    let by_matrix = x.matmul(&Tensor::new(&dense, [20, 4])) + &layer.bias;
    assert!(layer.apply(&x).all_close(&by_matrix, 1e-5, 1e-6).item().unwrap() == 1.0);
}

#[test]
fn compositions_draw_with_keys_of_their_own() {
    let layers = (Dropout::new(0.5), [Dropout::new(0.5), Dropout::new(0.5)], Some(Flatten(1)));
    let x = Tensor::ones([1000]);
    let key = Key::new(1).into();
    let noisy = layers.apply_train(&x, &key).to_vec::<f32>().unwrap();
    // Three independent draws leave an eighth; one draw repeated would leave a half.
    let left = noisy.iter().filter(|x| **x != 0.0).count();
    assert!((80..180).contains(&left), "{left}");
    assert!(noisy.iter().all(|x| *x == 0.0 || *x == 8.0));
    assert_eq!(noisy, layers.apply_train(&x, &key).to_vec::<f32>().unwrap());
    assert_eq!(layers.apply(&x).to_vec::<f32>().unwrap(), [1.0; 1000]);
}
