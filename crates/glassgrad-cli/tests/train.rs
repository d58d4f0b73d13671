//! Training from the command line: what is learnt, that both engines agree, and that PyTorch does.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use glassgrad::dtype::DType;
use glassgrad::rng::Key;
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, Tree, save, value_and_grad};
use serde_json::Value;

fn glassgrad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).output().expect("the program starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = glassgrad(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?} warns: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn are_close(ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len());
    for (k, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * a.abs().max(b.abs()), "number {k}: {a} against {b}");
    }
}

#[test]
fn irises_are_learnt() {
    let mut accuracies: Vec<f64> = (0..10)
        .map(|seed| {
            let result = json(&["train", "iris", "--seed", &seed.to_string(), "--json"]);
            assert!(result["test_accuracy"].as_f64().expect("a number") > 0.8, "{result}");
            result["train_accuracy"].as_f64().expect("a number")
        })
        .collect();
    accuracies.sort_by(f64::total_cmp);
    let median = (accuracies[4] + accuracies[5]) / 2.0;
    assert!(median >= 0.98, "the median of {accuracies:?}");
    assert!(accuracies[0] >= 0.97, "the least of {accuracies:?}");
}

#[test]
fn both_engines_give_the_same_curve() {
    for seed in ["0", "3"] {
        let curve = |engine: &str| {
            let result = json(&["train", "iris", "--seed", seed, "--epochs", "10", "--engine", engine, "--json"]);
            numbers(&result["losses"])
        };
        are_close(&curve("tensor"), &curve("scalar"), 1e-9);
    }
}

#[test]
fn the_json_object_has_all_fields() {
    let result = json(&["train", "iris", "--seed", "4", "--epochs", "3", "--json"]);
    let object = result.as_object().expect("an object");
    let mut fields: Vec<&str> = object.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let expected = [
        "dataset",
        "epochs",
        "linear_test_accuracy",
        "linear_train_accuracy",
        "losses",
        "seed",
        "settings",
        "steps",
        "stopped",
        "test_accuracy",
        "test_loss",
        "test_losses",
        "train_accuracy",
        "train_loss",
        "train_seconds",
    ];
    assert_eq!(fields, expected);
    assert_eq!((&result["dataset"], &result["seed"], &result["epochs"]), (&"iris".into(), &4.into(), &3.into()));
    let losses = numbers(&result["losses"]);
    assert!(losses.len() == 3 && losses.iter().all(|loss| loss.is_finite()));
    // 120 flowers are seen in training and 30 are not, so accuracies are whole parts of them.
    for (field, count) in [("train_accuracy", 120.0), ("test_accuracy", 30.0)] {
        let right = result[field].as_f64().expect("a number") * count;
        assert!((right - right.round()).abs() < 1e-9 && (0.0..=count).contains(&right), "{field}: {right}");
    }
    assert!(result["train_seconds"].as_f64().expect("a number") >= 0.0);
}

#[test]
fn a_seed_gives_the_same_numbers_always() {
    let losses = |seed: &str| json(&["train", "iris", "--seed", seed, "--epochs", "5", "--json"])["losses"].clone();
    assert_eq!(losses("1"), losses("1"));
    assert_ne!(losses("1"), losses("2"));
    assert_eq!(json(&["train", "iris", "--epochs", "0", "--json"])["losses"], Value::Array(Vec::new()));
}

#[test]
fn people_get_a_curve_and_what_came_of_it() {
    let output = glassgrad(&["train", "iris", "--epochs", "20"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        output.status.success() && text.contains("\nmlp 4-10-3 tanh, 83 parameters; sgd lr 1, batch 120, seed 0;"),
        "{text}"
    );
    assert!(text.contains("loss by epoch: o training   x test"), "{text}");
    assert!(text.contains("% on the training set") && text.contains("% on the test set"), "{text}");
    assert!(text.contains("s for 20 steps"), "{text}");
}

#[test]
fn a_learning_rate_must_be_a_positive_number() {
    for rate in ["0", "-0.1", "nan", "inf"] {
        let output = glassgrad(&["train", "iris", &format!("--lr={rate}")]);
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "--lr={rate}: {text}");
        assert!(output.stdout.is_empty() && text.contains("the learning rate must be a positive number"), "{text}");
    }
    for wrong in [["--lr", "fast"], ["--seed", "-1"], ["--engine", "abacus"], ["--epochs", "1.5"]] {
        let output = glassgrad(&[&["train", "iris"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(glassgrad(&["train", "tulips"]).status.code(), Some(2));
}

#[test]
fn a_learning_rate_that_is_too_large_ends_without_a_crash() {
    let output = glassgrad(&["train", "iris", "--lr", "1e300", "--epochs", "5", "--json"]);
    assert!(output.status.code().is_some_and(|code| code <= 2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

// ------------------------------------------------------------------ explanations

#[test]
fn a_training_step_is_explained() {
    let picture = std::env::temp_dir().join(format!("glassgrad-explain-{}.svg", std::process::id()));
    let output =
        glassgrad(&["train", "iris", "--explain", "--explain-svg", picture.to_str().expect("a path in characters")]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    // The passes, the layers as products, the user's lines, and the memory.
    for part in
        ["simplify", "product 120×4×10", "product 120×10×3", "tanh", "explain.rs:", "in all", "memory between steps"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("accuracy"), "nothing is trained:\n{text}");
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    std::fs::remove_file(&picture).expect("the picture is there");
    assert!(svg.starts_with("<svg") && svg.contains("product 120×4×10"), "{svg}");
}

#[test]
fn an_explanation_is_json_too() {
    let result = json(&["train", "iris", "--explain", "--json"]);
    let mut fields: Vec<&str> = result.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["arena", "limits", "passes", "steps"]);
    let steps = result["steps"].as_array().expect("a list");
    let is_told = |step: &Value| {
        step["what"].as_str().is_some_and(|what| !what.is_empty())
            && step["measured_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0)
            && step["predicted_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0)
            && step["origins"][0]["file"].as_str().is_some_and(|file| file.ends_with(".rs"))
    };
    assert!(steps.len() > 8 && steps.iter().all(is_told), "{result}");
    // Two products forwards, three back: the features need no gradient.
    assert_eq!(steps.iter().filter(|step| step["kind"] == "product").count(), 5, "{result}");
}

#[test]
fn what_has_no_program_is_not_explained() {
    let refused = |arguments: &[&str], words: &str| {
        let output = glassgrad(&[&["train", "iris"], arguments].concat());
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && text.contains(words), "{text}");
    };
    refused(&["--explain", "--engine", "scalar"], "only the tensor engine runs a program");
    refused(&["--explain-svg", "picture.svg"], "--explain");
    refused(&["--explain", "--explain-svg", "/nowhere/at/all.svg"], "cannot write /nowhere/at/all.svg");
}

// ------------------------------------------------------------------ PyTorch

/// The network of the program, made anew.
#[derive(Clone, Tree)]
struct Network {
    hidden_weight: Tensor,
    hidden_bias: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
}

fn first_weights(seed: u64) -> Network {
    let key = Key::new(seed).fold(1);
    let layer = |number: u64, rows: usize, columns: usize, inputs: f64| {
        let own = key.fold(number);
        let element = |k: usize| (2.0 * own.uniform(k as u64) - 1.0) / inputs.sqrt();
        Tensor::new(&(0..rows * columns).map(element).collect::<Vec<f64>>(), [rows, columns])
    };
    Network {
        hidden_weight: layer(0, 4, 10, 4.0),
        hidden_bias: layer(1, 1, 10, 4.0),
        output_weight: layer(2, 10, 3, 10.0),
        output_bias: layer(3, 1, 3, 10.0),
    }
}

/// Standardised features and classes of the training set, by tensor operations throughout.
fn training_part(seed: u64) -> (Tensor, Tensor) {
    let table = include_str!("../../glassgrad/examples/data/iris.csv");
    let cells: Vec<f64> =
        table.lines().skip(1).flat_map(|line| line.split(',').map(|cell| cell.parse().expect("a number"))).collect();
    let order: Vec<i64> = Key::new(seed).fold(0).permutation(150)[..120].iter().map(|row| *row as i64).collect();
    let rows = Tensor::new(&cells, [150, 5]).take(&Tensor::from(order), 0);
    let features = rows.take(&Tensor::from([0_i64, 1, 2, 3]), 1);
    let classes = rows.take(&Tensor::from(4_i64), 1).cast(DType::I64);
    ((&features - features.mean_over(0)) / features.std_over(0), classes)
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let golden: Value = serde_json::from_str(include_str!("golden/iris_torch.json")).expect("a golden file");
    let (features, classes) = training_part(0);
    let targets = classes.one_hot(3, DType::F64);
    let (loss, gradient) = value_and_grad(|network: &Network| {
        let hidden = (features.matmul(&network.hidden_weight) + &network.hidden_bias).tanh();
        let logits = hidden.matmul(&network.output_weight) + &network.output_bias;
        -logits.log_softmax(-1).inner(&targets)
    })(&first_weights(0));
    let torch_losses = numbers(&golden["losses"]);
    are_close(&[loss.item().expect("a loss")], &torch_losses[..1], 1e-13);
    for (path, leaf) in gradient.leaves() {
        let ours = leaf.to_vec::<f64>().expect("a gradient");
        let theirs = numbers(&golden["gradients"][path.to_string()]);
        // Sums over 120 flowers cancel: the error is measured by the largest element.
        let scale = theirs.iter().fold(0.0_f64, |largest, number| largest.max(number.abs()));
        assert_eq!(ours.len(), theirs.len(), "{path}");
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() <= 1e-12 * scale, "{path}: {a} against {b}");
        }
    }
    // The program itself, from the same weights, over ten steps; rounding grows with them.
    let weights = std::env::temp_dir().join(format!("glassgrad-iris-{}.safetensors", std::process::id()));
    let Network { hidden_weight, hidden_bias, output_weight, output_bias } = first_weights(0);
    let layer = |weight: Tensor, bias: &Tensor| {
        [("weight".to_owned(), weight), ("bias".to_owned(), bias.reshape([bias.shape()[1]]))]
    };
    let layers = [layer(hidden_weight, &hidden_bias), layer(output_weight, &output_bias)];
    let named = BTreeMap::from([("layers".to_owned(), layers.map(BTreeMap::from).to_vec())]);
    save::save(&weights, &named, &[]).expect("weights are written");
    let path = weights.to_str().expect("a path in characters");
    for engine in ["tensor", "scalar"] {
        let arguments =
            ["train", "iris", "--reduction", "sum", "--lr", "0.05", "--epochs", "10", "--init-weights", path];
        let result = json(&[&arguments[..], &["--engine", engine, "--json"]].concat());
        let losses = numbers(&result["losses"]);
        are_close(&losses[..2], &torch_losses[..2], 1e-12);
        are_close(&losses, &torch_losses, 1e-9);
    }
    std::fs::remove_file(&weights).expect("the weights are there");
}

#[test]
fn shards_of_a_batch_give_the_loss_of_the_batch() {
    let losses = |shards: &str| {
        numbers(&json(&["train", "iris", "--epochs", "5", "--dtype", "f64", "--shards", shards, "--json"])["losses"])
    };
    // Sums in another order.
    are_close(&losses("1"), &losses("4"), 1e-9);
    for (arguments, expected) in [
        (&["--shards", "3"][..], "--shards 3: a power of two up to 65536"),
        (&["--shards", "8", "--batch", "17"], "--shards 8: the smallest batch has 1 examples, fewer than the shards"),
        (&["--shards", "2", "--reduction", "sum"], "--shards 2: the losses of shards are averaged"),
        (&["--shards", "2", "--engine", "scalar"], "--shards 2: the scalar engine trains on whole batches"),
    ] {
        let output = glassgrad(&[&["train", "iris"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(expected), "{arguments:?}: {message}");
    }
}

/// A program without MPI would train as often as there are ranks, each time alone.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_rank_of_a_job_is_refused_without_mpi() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassgrad"));
    let output =
        command.args(["train", "iris"]).envs([("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")]).output();
    let output = output.expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("one of 4 ranks"), "{message}");
}
