//! The program as ranks of an MPI job: equal checkpoints for any number of ranks, lost ranks, resumption, and ranks that differ. Built with
//! the feature `mpi`, and run by `tools/mpi --test`, which finds the launcher.
#![cfg(feature = "mpi")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_glassgrad");
const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("glassgrad-mpi-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn launcher() -> Command {
    let mut command = Command::new("mpirun");
    command.args(std::env::var("MPIRUN_FLAGS").unwrap_or_default().split_whitespace());
    // Ranks share the cores of one machine: those that wait let the others compute.
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    command
}

/// `mpirun` for some ranks of one training.
fn training(ranks: usize, arguments: &[&str]) -> Command {
    let mut command = launcher();
    command.args(["-np", &ranks.to_string(), PROGRAM, "train"]).args(arguments).args(["--json"]);
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn checkpoint(out: &Path) -> Vec<u8> {
    std::fs::read(out.join("run.safetensors")).expect("a checkpoint")
}

fn is_equal_for_all_ranks(name: &str, arguments: &[&str]) {
    let folder = folder(name);
    let run = |ranks: usize| {
        let out = folder.join(ranks.to_string());
        let out_text = out.to_str().expect("a path");
        let arguments = [arguments, &["--shards", "8", "--out", out_text]].concat();
        let output = training(ranks, &arguments).output().expect("mpirun starts");
        assert!(output.status.success(), "{name} on {ranks} ranks: {}", text(&output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object, of rank 0");
        assert_eq!(result["distributed"]["ranks"], ranks, "{result}");
        assert_eq!(result["distributed"]["shards"], 8);
        let model = std::fs::read(out.join("model.safetensors")).expect("a model");
        (checkpoint(&out), model, result["losses"].clone())
    };
    let alone = run(1);
    for ranks in &RANKS[1..] {
        let (checkpoint, model, losses) = run(*ranks);
        assert_eq!(losses, alone.2, "{name}: the losses of {ranks} ranks");
        assert!(checkpoint == alone.0, "{name}: the checkpoint of {ranks} ranks differs from that of one");
        assert!(model == alone.1, "{name}: the model of {ranks} ranks differs from that of one");
    }
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn an_mlp_has_the_same_checkpoint_on_any_number_of_ranks() {
    is_equal_for_all_ranks("mlp", &["digits", "--epochs", "2", "--layers", "48,32"]);
}

#[test]
fn a_cnn_with_synchronised_batch_norm_has_the_same_checkpoint_on_any_number_of_ranks() {
    is_equal_for_all_ranks(
        "cnn",
        &["digits", "--model", "resnet", "--layers", "4,6", "--epochs", "1", "--batch", "96"],
    );
}

#[test]
fn a_gpt_with_dropout_has_the_same_checkpoint_on_any_number_of_ranks() {
    let folder = folder("text");
    let file = folder.join("verse.txt");
    std::fs::write(&file, "the quick brown fox jumps over the lazy dog, and then it sleeps. ".repeat(60))
        .expect("a file");
    let file = file.to_str().expect("a path");
    let options = ["--model", "gpt", "--layers", "16,16", "--heads", "2", "--context", "12", "--dropout", "0.2"];
    is_equal_for_all_ranks("gpt", &[&[file], &options[..], &["--epochs", "1", "--batch", "64"]].concat());
    std::fs::remove_dir_all(folder).expect("a folder");
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let entries =
        std::fs::read_dir("/proc").expect("processes").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_child = |id: &u32| {
        // The fourth field is the parent; the second, in parentheses, may contain anything.
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields = status.rsplit_once(") ").map_or("", |(_, rest)| rest);
        fields.split(' ').nth(1) == Some(&parent.to_string())
    };
    entries.filter_map(|name| name.parse().ok()).filter(is_child).collect()
}

#[test]
fn lost_ranks_end_the_job_and_any_number_of_ranks_resumes_it_with_the_same_bits() {
    let folder = folder("killed");
    let [whole, killed] = ["whole", "killed"].map(|name| folder.join(name));
    let arguments = |out: &Path, more: &[&str]| -> Vec<String> {
        let out = out.to_str().expect("a path");
        let options = ["moons", "--epochs", "400", "--shards", "8", "--checkpoint-every", "0.1", "--out", out];
        options.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let start = |ranks: usize, out: &Path, more: &[&str]| {
        let arguments = arguments(out, more);
        let mut command = training(ranks, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpirun starts")
    };
    let output = start(2, &whole, &[]).wait_with_output().expect("mpirun ends");
    assert!(output.status.success(), "{}", text(&output));
    // Reproducible random numbers: ranks to kill, and times.
    let mut seed = 2026_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut kills, mut attempts, mut resumed) = (0, 0, 0);
    while kills < 10 {
        attempts += 1;
        assert!(attempts < 40, "{kills} kills in {attempts} attempts");
        let ranks = RANKS[1 + attempts % 4];
        let more: &[&str] = if killed.join("run.safetensors").exists() { &["--resume"] } else { &[] };
        if more.is_empty() {
            let _ = std::fs::remove_dir_all(&killed);
        }
        let mut job = start(ranks, &killed, more);
        std::thread::sleep(Duration::from_millis(600 + random(900)));
        let processes = children(job.id());
        let Some(victim) = processes.get(random(processes.len().max(1) as u64) as usize) else {
            // It had ended before.
            assert!(job.wait().expect("mpirun ends").success());
            let _ = std::fs::remove_dir_all(&killed);
            continue;
        };
        Command::new("kill").args(["-9", &victim.to_string()]).status().expect("kill runs");
        let since = Instant::now();
        let output = job.wait_with_output().expect("mpirun ends");
        assert!(since.elapsed() < Duration::from_secs(10), "the job ended {:?} after the kill", since.elapsed());
        if output.status.success() {
            // All ranks had finished their work.
            let _ = std::fs::remove_dir_all(&killed);
            continue;
        }
        let message = text(&output);
        assert!(message.contains("rank") && message.contains("ignal 9"), "{message}");
        kills += 1;
        resumed += usize::from(!more.is_empty());
    }
    assert!(resumed >= 5, "only {resumed} of {attempts} attempts continued a run");
    let output = start(3, &killed, if killed.join("run.safetensors").exists() { &["--resume"] } else { &[] });
    let output = output.wait_with_output().expect("mpirun ends");
    assert!(output.status.success(), "{}", text(&output));
    assert!(checkpoint(&killed) == checkpoint(&whole), "after {kills} kills the checkpoint differs");
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn sums_in_the_order_of_the_transport_agree_to_rounding() {
    let losses = |more: &[&str]| -> Vec<f64> {
        let options = ["digits", "--epochs", "2", "--layers", "48,32", "--shards", "8"];
        let output = training(3, &[&options, more].concat()).output().expect("mpirun starts");
        assert!(output.status.success(), "{}", text(&output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object, of rank 0");
        let losses = result["losses"].as_array().expect("losses");
        losses.iter().map(|loss| loss.as_f64().expect("a number")).collect()
    };
    let (ordered, any) = (losses(&[]), losses(&["--any-order"]));
    assert_eq!(ordered.len(), 2);
    assert!(ordered.iter().zip(&any).all(|(a, b)| (a - b).abs() < 1e-4 * a.abs()), "{ordered:?} and {any:?}");
}

#[test]
fn a_distributed_optimizer_state_is_saved_and_resumed_on_any_number_of_ranks() {
    let folder = folder("state");
    let run = |ranks: usize, out: &Path, more: &[&str]| {
        let options = ["digits", "--layers", "48,32", "--optimizer", "adam", "--clip", "1", "--shards", "8"];
        // Other schedules depend on the number of epochs, and so would the run of each part.
        let place = ["--schedule", "constant", "--out", out.to_str().expect("a path")];
        let output = training(ranks, &[&options[..], &place, more].concat()).output();
        let output = output.expect("mpirun starts");
        assert!(output.status.success(), "{more:?} on {ranks} ranks: {}", text(&output));
    };
    let [whole, apart] = ["whole", "apart"].map(|name| folder.join(name));
    run(1, &whole, &["--epochs", "3"]);
    run(4, &apart, &["--epochs", "1", "--shard-state"]);
    run(3, &apart, &["--epochs", "2", "--shard-state", "--resume"]);
    run(2, &apart, &["--epochs", "3", "--resume"]);
    assert!(checkpoint(&apart) == checkpoint(&whole), "the checkpoint of a distributed state differs");
    std::fs::remove_dir_all(folder).expect("a folder");
}

/// The trials of a search without their times.
fn trials(ranks: usize, search: &str) -> serde_json::Value {
    let mut command = launcher();
    command.args(["-np", &ranks.to_string(), PROGRAM, "tune", "moons", "--search", search]);
    let output = command.args(["--trials", "7", "--epochs", "4", "--json"]).output().expect("mpirun starts");
    assert!(output.status.success(), "{search} on {ranks} ranks: {}", text(&output));
    let mut result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object, of rank 0");
    let trials = result["trials"].as_array_mut().expect("trials");
    trials.iter_mut().for_each(|trial| trial["seconds"] = 0.into());
    json!({ "trials": trials, "test": result["test"], "command": result["command"] })
}

#[test]
fn ranks_share_the_trials_of_a_search() {
    for search in ["random", "halving", "evolution"] {
        let alone = trials(1, search);
        assert!(alone["trials"].as_array().is_some_and(|trials| trials.len() >= 7), "{alone}");
        for ranks in [2, 3] {
            assert_eq!(trials(ranks, search), alone, "{search} on {ranks} ranks");
        }
    }
}

/// Two ranks with different words of the command line, or in different folders.
fn differing(words: [&[&str]; 2], folders: [&Path; 2]) -> String {
    let mut command = launcher();
    for (number, (words, folder)) in words.iter().zip(folders).enumerate() {
        command.args(if number == 0 { &[][..] } else { &[":"] });
        command.args(["-np", "1", "--wdir", folder.to_str().expect("a path"), PROGRAM, "train"]).args(*words);
    }
    let output = command.output().expect("mpirun starts");
    assert!(!output.status.success());
    text(&output)
}

#[test]
fn ranks_that_differ_are_refused_with_both_sides() {
    let folder = folder("differing");
    let [one, other] = ["one", "other"].map(|name| folder.join(name));
    for path in [&one, &other] {
        std::fs::create_dir_all(path).expect("a folder");
        // Not a shift or a factor: columns are standardised.
        let power = if path == &one { 1 } else { 2 };
        let rows: String = (0..40_usize).map(|k| format!("{},{}\n", k.pow(power), ["a", "b"][k % 2])).collect();
        std::fs::write(path.join("table.csv"), format!("x,y\n{rows}")).expect("a file");
    }
    let message = differing([&["moons", "--seed", "1"], &["moons", "--seed", "2"]], [&folder, &folder]);
    assert!(message.contains("rank 1 has --seed 2, and rank 0 has 1"), "{message}");
    let message = differing([&["table.csv"], &["table.csv"]], [&one, &other]);
    assert!(message.contains("rank 1 has data table") && message.contains("and rank 0 has table"), "{message}");
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn an_error_of_one_rank_ends_the_job() {
    let folder = folder("missing");
    let empty = folder.join("empty");
    std::fs::create_dir_all(&empty).expect("a folder");
    let rows: String = (0..40).map(|k| format!("{k},{}\n", ["a", "b"][k % 2])).collect();
    std::fs::write(folder.join("table.csv"), format!("x,y\n{rows}")).expect("a file");
    // Rank 1 has no such file.
    let since = Instant::now();
    let message = differing([&["table.csv"], &["table.csv"]], [&folder, &empty]);
    assert!(message.contains("rank 1: ") && message.contains("table.csv"), "{message}");
    assert!(since.elapsed() < Duration::from_secs(20));
    let output = training(4, &["moons", "--shards", "2"]).output().expect("mpirun starts");
    assert!(
        !output.status.success() && text(&output).contains("2 shards are too few for 4 ranks"),
        "{}",
        text(&output)
    );
    std::fs::remove_dir_all(folder).expect("a folder");
}
