//! Experiments in directories: what is written, what survives a kill, a full disk, a second run; what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn glassgrad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = glassgrad(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(arguments: &[&str], words: &str) {
    let output = glassgrad(arguments);
    let output_text = text(&output.stderr);
    assert!(
        output.status.code().is_some_and(|code| code == 1 || code == 2),
        "{arguments:?}: {:?} {output_text}",
        output.status
    );
    assert!(output_text.contains(words) && !output_text.contains("panicked"), "{arguments:?}: {output_text}");
}

/// A directory for a test, gone when it is over.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("glassgrad-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Place(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn path(&self, name: &str) -> String {
        self.file(name).to_str().expect("a path in characters").to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn weights(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("model.safetensors")).expect("a model")
}

#[test]
fn a_directory_holds_all_that_came_of_it() {
    let place = Place::new("whole");
    let out = place.path("moons");
    let output_text = succeeds(&["train", "moons", "--epochs", "5", "--out", &out]);
    for name in ["model.safetensors", "metrics.csv", "metrics.json", "report.html"] {
        assert!(output_text.contains(name), "{name}: {output_text}");
        assert!(std::fs::metadata(Path::new(&out).join(name)).is_ok_and(|file| file.len() > 0), "{name}");
    }
    let csv = std::fs::read_to_string(Path::new(&out).join("metrics.csv")).expect("metrics");
    assert_eq!(csv.lines().count(), 6);
    assert_eq!(csv.lines().next(), Some("epoch,loss,learning_rate,seconds,test_loss,test_accuracy"));
    let settings: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&out).join("settings.json")).expect("settings")).expect("JSON");
    assert_eq!(
        (&settings["data"], &settings["epochs"], &settings["model"]),
        (&"moons".into(), &5.into(), &"mlp".into())
    );
    refused(&["train", "moons", "--epochs", "5", "--out", &out], "holds an experiment already");
    refused(&["train", "moons", "--out", &out, "--resume", "--lr", "0.5"], "begun with other settings");
    refused(&["train", "iris", "--out", &out, "--resume"], "begun with other settings");
    refused(&["train", "moons", "--out", &place.path("nothing"), "--resume"], "holds no experiment");
}

#[test]
fn a_killed_run_resumes_bit_identically() {
    let place = Place::new("kill");
    let (whole, broken) = (place.path("whole"), place.path("broken"));
    // Long enough to be met in the middle, with a test set that is seen after each epoch.
    let arguments = ["train", "moons", "--points", "2000", "--epochs", "400", "--batch", "16"];
    let begin = Instant::now();
    succeeds(&[&arguments[..], &["--out", &whole]].concat());
    // Fractions of the time that the whole run takes here: each kill leaves work for the next.
    let between_kills = begin.elapsed() / 8;
    let mut kills = 0;
    let mut resume: &[&str] = &[];
    for _ in 0..6 {
        let all = [&arguments[..], &["--out", &broken], resume].concat();
        let mut child = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
            .args(&all)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(between_kills);
        kills += usize::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        if Path::new(&broken).join("settings.json").exists() {
            resume = &["--resume"];
        }
    }
    let resumed = [&["train", "moons", "--out", &broken, "--resume"][..]].concat();
    succeeds(if resume.is_empty() { &arguments } else { &resumed });
    assert!(kills >= 3, "only {kills} kills met a run");
    assert_eq!(weights(Path::new(&whole)), weights(Path::new(&broken)));
}

#[test]
#[cfg(unix)]
fn control_c_saves_and_prints_the_command_that_resumes() {
    let place = Place::new("interrupt");
    let (whole, ended) = (place.path("whole"), place.path("ended"));
    let arguments = ["train", "moons", "--points", "2000", "--epochs", "600", "--batch", "16"];
    succeeds(&[&arguments[..], &["--out", &whole]].concat());
    let child = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
        .args([&arguments[..], &["--out", &ended]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_millis(500));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("it ends");
    let output_text = text(&output.stdout);
    assert!(
        output.status.code() == Some(130)
            && output_text.contains(&format!("glassgrad train moons --out {ended} --resume")),
        "{output_text}"
    );
    succeeds(&["train", "moons", "--out", &ended, "--resume"]);
    assert_eq!(weights(Path::new(&whole)), weights(Path::new(&ended)));
}

#[test]
fn two_runs_into_one_directory_are_refused() {
    let place = Place::new("two");
    let out = place.path("out");
    let mut first = Command::new(env!("CARGO_BIN_EXE_glassgrad"))
        .args(["train", "moons", "--epochs", "100000", "--out", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    while !Path::new(&out).join("settings.json").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    refused(&["train", "moons", "--out", &out], "is being written to by another run");
    refused(&["train", "moons", "--out", &out, "--resume"], "is being written to by another run");
    first.kill().expect("it can be killed");
    first.wait().expect("it ends");
}

#[test]
#[cfg(unix)]
fn a_disk_that_is_full_loses_nothing() {
    let place = Place::new("full");
    let out = place.path("out");
    succeeds(&["train", "moons", "--epochs", "3", "--out", &out]);
    let before = weights(Path::new(&out));
    // No file may grow over 512 bytes, as on a disk that has just so much left.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} train moons --out {out} --resume --epochs 6",
        env!("CARGO_BIN_EXE_glassgrad")
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let output_text = text(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code == 1 || code == 2), "{:?} {output_text}", output.status);
    assert!(output_text.contains("cannot write"), "{output_text}");
    assert_eq!(weights(Path::new(&out)), before, "the model before is still whole");
    // With room again it goes on from where it was.
    succeeds(&["train", "moons", "--out", &out, "--resume", "--epochs", "6"]);
    let fresh = place.path("fresh");
    succeeds(&["train", "moons", "--epochs", "6", "--out", &fresh]);
    assert_eq!(weights(Path::new(&out)), weights(Path::new(&fresh)));
}

#[test]
fn an_unwritable_directory_is_reported_before_training() {
    let place = Place::new("readonly");
    let file = place.file("file");
    std::fs::write(&file, "not a directory").expect("a file");
    let out = format!("{}/out", file.display());
    refused(&["train", "iris", "--out", &out], "cannot write to");
}

#[test]
fn a_model_predicts_the_rows_of_a_table() {
    let place = Place::new("predict");
    let out = place.path("iris");
    succeeds(&["train", "iris", "--out", &out]);
    let rows = place.file("flowers.csv");
    let names = "sepal length,sepal width,petal length,petal width";
    std::fs::write(&rows, format!("id,{names}\n7,5.1,3.5,1.4,0.2\n8,6.7,3.0,5.2,2.3\n")).expect("a table");
    let output_text = succeeds(&["predict", &out, rows.to_str().expect("a path")]);
    let lines: Vec<Vec<&str>> = output_text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3, "{output_text}");
    assert_eq!(lines[0][5..], ["predicted", "p(setosa)", "p(versicolor)", "p(virginica)"]);
    assert_eq!((lines[1][0], lines[1][5], lines[2][0], lines[2][5]), ("7", "setosa", "8", "virginica"));
    for line in &lines[1..] {
        let sum: f64 = line[6..].iter().map(|cell| cell.parse::<f64>().expect("a number")).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
    let json: Value =
        serde_json::from_str(&succeeds(&["predict", &out, rows.to_str().expect("a path"), "--json"])).expect("JSON");
    assert_eq!(json["predictions"][0]["predicted"], "setosa");
    let written = place.path("predictions.csv");
    succeeds(&["predict", &out, rows.to_str().expect("a path"), "--out", &written]);
    assert_eq!(std::fs::read_to_string(&written).expect("a table"), output_text);
    std::fs::write(&rows, "a,b\n1,2\n").expect("a table");
    refused(&["predict", &out, rows.to_str().expect("a path")], "sepal length");
    refused(&["predict", &place.path("nowhere"), rows.to_str().expect("a path")], "nowhere");
    refused(&["predict", &out], "is missing");
    refused(&["predict", &out, rows.to_str().expect("a path"), "--prompt", "x"], "was not trained on text");
}

#[test]
fn tables_are_read_alike_by_train_and_predict() {
    let place = Place::new("tables");
    let write = |name: &str, text: &str| {
        let path = place.file(name);
        std::fs::write(&path, text).expect("a table");
        path.display().to_string()
    };
    // Decimal commas, a gap in a feature, a gap in the target, and a column of names.
    let rows: Vec<String> = (0..40)
        .map(|row| {
            format!("n{row};{},5;{};{}", row, row % 7, if row == 3 { "".to_owned() } else { format!("{},25", 2 * row) })
        })
        .collect();
    let table = write("prices.csv", &format!("id;size;rooms;price\n9;;3;4,5\n{}\n", rows.join("\n")));
    refused(&["train", &table, "--epochs", "1"], "line 2, column \"size\": the value is missing");
    refused(&["train", &table, "--epochs", "1"], "--missing");
    refused(&["train", &table, "--epochs", "1", "--drop", "colour"], "--drop colour");
    refused(&["train", &table, "--epochs", "1", "--drop", "price", "--target", "price"], "is the target");
    let out = place.path("model");
    let output_text = succeeds(&["train", &table, "--epochs", "1", "--drop", "id", "--missing", "mean", "--out", &out]);
    // The row without a target is left out, that without a size is not.
    assert!(output_text.contains("40 rows, price from 2 features"), "{output_text}");
    assert!(output_text.contains("weight decay 0.3"), "defaults are stated: {output_text}");

    // The same treatment by default, with the means of the training data; the gap stays one in the output.
    let asked = write("asked.csv", "id;size;rooms\n1;;3\n2;20,5;4\n");
    let predicted = succeeds(&["predict", &out, &asked, "--drop", "id"]);
    let lines: Vec<&str> = predicted.lines().collect();
    assert_eq!((lines[0], lines.len()), ("size,rooms,predicted price", 3));
    assert!(lines[1].starts_with(",3,") && lines[2].starts_with("20.5,4,"), "{predicted}");
    assert_eq!(succeeds(&["predict", &out, &asked, "--missing", "drop"]).lines().count(), 2);
    refused(&["predict", &out, &asked, "--missing", "error"], "--missing: drop leaves out rows");
    refused(&["predict", &out, &asked, "--drop", "rooms"], "the network needs this column");
    let other = write("other.csv", "id;size\n1;2\n");
    refused(&["predict", &out, &other], "was trained on the columns size, rooms; the file has id, size");

    // A delimiter, a decimal mark and a header that are stated.
    let bars = write("bars.csv", "1,234|5\n2,345|6\n3,456|7\n4,567|8\n5,678|9\n");
    refused(&["train", &bars, "--delimiter", "pipe"], "--decimal comma");
    let stated = ["train", &bars, "--delimiter", "pipe", "--decimal", "comma", "--header", "no", "--epochs", "1"];
    assert!(succeeds(&stated).contains("5 rows, f1 from 1 feature"));
    let infinite = write("infinite.csv", "a,b\n1,2\ninf,3\n4,5\n");
    refused(&["train", &infinite], "infinite.csv: line 3, column \"a\": the value is not finite");
    refused(&["train", "iris", "--drop", "species"], "--drop: this setting applies to csv, not to iris");
}

#[test]
fn counts_agree_with_their_nouns() {
    let place = Place::new("plurals");
    let table = place.file("few.csv");
    std::fs::write(&table, "x,y\n1,1.5\n2,2.5\n3,3.25\n4,4.5\n5,5.5\n").expect("a table");
    let output_text = succeeds(&["train", &table.display().to_string(), "--epochs", "1"]);
    for words in
        ["from 1 feature\n", "4 training examples, 1 test example\n", "for 1 step\n", "1 Newton step\n", "R² undefined"]
    {
        assert!(output_text.contains(words), "{words:?} in {output_text}");
    }
    assert!(succeeds(&["tune", "iris", "--trials", "1", "--epochs", "1"]).starts_with("iris: 1 trial, "));
    // What is recommended is what was evaluated, also where successive halving ranks an early stage first.
    let tuned: Value = serde_json::from_str(&succeeds(&[
        "tune", "iris", "--search", "halving", "--trials", "4", "--epochs", "4", "--json",
    ]))
    .expect("JSON");
    let epochs = tuned["best"]["epochs"].as_u64().expect("a number");
    assert!(tuned["command"].as_str().expect("a command").contains(&format!("--epochs {epochs}")), "{tuned}");
    assert!(
        succeeds(&["check", "sin(x)", "--at", "x=1"])
            .contains("a tape of 1 operation, one reverse sweep for the derivative")
    );
    refused(&["train", "moons", "--points", "1"], "1 example in the training set and 0 in the test set");
    refused(&["train", "iris", "--layers", "abc"], "expected whole numbers separated by commas, as in 16,16");
    refused(&["train", "iris", "--epochs", "-1"], "expected a whole number of at least 0");
    refused(&["grad", "x*y", "--at", "x=1 y=2"], "separate pairs by commas, as in x=1,y=2");
}

#[test]
fn models_that_lie_are_refused() {
    let place = Place::new("lies");
    let out = place.path("iris");
    succeeds(&["train", "iris", "--epochs", "1", "--out", &out]);
    let bytes = weights(Path::new(&out));
    let rows = place.file("rows.csv");
    std::fs::write(&rows, "1,2,3,4\n").expect("a table");
    let path = place.file("model.safetensors");
    let header = String::from_utf8_lossy(&bytes).into_owned();
    assert!(header.contains("[10]"));
    // A width of sixteen digits, in place of as many characters of the seed's field.
    for (from, to) in [("\\\"layers\\\":[10]", "\\\"layers\\\":[99]"), ("mlp", "cnn"), ("mlp", "xyz"), ("tanh", "hnat")]
    {
        let text = from.as_bytes();
        let Some(place) = bytes.windows(text.len()).position(|window| window == text) else { panic!("{from}") };
        let mut changed = bytes.clone();
        changed[place..place + text.len()].copy_from_slice(to.as_bytes());
        std::fs::write(&path, &changed).expect("a file");
        refused(&["predict", path.to_str().expect("a path"), rows.to_str().expect("a path")], "");
    }
    for length in (0..bytes.len()).step_by(97) {
        std::fs::write(&path, &bytes[..length]).expect("a file");
        refused(&["predict", path.to_str().expect("a path"), rows.to_str().expect("a path")], "");
    }
}

#[test]
fn optimizers_are_compared_and_settings_are_sought() {
    let place = Place::new("compare");
    let output_text =
        succeeds(&["train", "moons", "--epochs", "3", "--compare", "sgd,momentum,adam", "--out", &place.path("c")]);
    for name in ["sgd", "momentum", "adam", "comparison.html"] {
        assert!(output_text.contains(name), "{output_text}");
    }
    for search in ["random", "halving", "evolution"] {
        let arguments =
            ["tune", "moons", "--points", "200", "--epochs", "4", "--trials", "8", "--search", search, "--json"];
        let json: Value = serde_json::from_str(&succeeds(&arguments)).expect("JSON");
        let trials = json["trials"].as_array().expect("a list");
        assert_eq!(trials.len(), if search == "halving" { 15 } else { 8 }, "{search}");
        assert!(json["command"].as_str().is_some_and(|command| command.starts_with("glassgrad train moons ")));
        assert_eq!(
            succeeds(&arguments).replace(|c: char| c.is_ascii_digit(), ""),
            succeeds(&arguments).replace(|c: char| c.is_ascii_digit(), "")
        );
    }
    let output_text =
        succeeds(&["tune", "moons", "--points", "200", "--epochs", "2", "--trials", "3", "--out", &place.path("t")]);
    assert!(output_text.contains("tuning.html") && output_text.contains("glassgrad train moons --"), "{output_text}");
    for (arguments, words) in [
        (&["--rates", "1,0.1"][..], "--rates"),
        (&["--rates", "0.1"], "two numbers"),
        (&["--trials", "0"], "--trials"),
        (&["--depth", "0"], "--depth"),
        (&["--widths", "0"], "--widths"),
    ] {
        refused(&[&["tune", "moons"], arguments].concat(), words);
    }
}

#[test]
fn incompatible_settings_are_reported() {
    refused(&["studio", "--data", "/nope", "--no-open"], "there is no such directory");
    refused(&["train", "irirs"], "did you mean iris?");
    refused(&["train", "function", "--function", "moons"], "expected one of");
    let nothing = succeeds(&["train", "iris", "--epochs", "0"]);
    assert!(nothing.contains(" 0.000 s for 0 steps"), "{nothing}");
    for (arguments, words) in [
        (&["moons", "--model", "cnn"][..], "needs images"),
        (&["moons", "--layers", "0"], "layer 1 is 0 wide"),
        (&["moons", "--loss", "huber"], "choose cross-entropy"),
        (&["function", "--loss", "hinge"], "choose mse"),
        (&["function", "--function", "gamma"], "expected one of"),
        (&["digits", "--model", "cnn", "--layers", "8"], "channels"),
        (&["digits", "--model", "cnn", "--layers", "4,4,4,4,8"], "can be halved 3 times"),
        (&["digits", "--model", "transformer", "--heads", "5"], "share the width"),
        (&["digits", "--model", "transformer", "--layers", "32,16"], "equally wide"),
        (&["moons", "--model", "resnet"], "needs images"),
        (&["digits", "--model", "gpt"], "needs a .txt file"),
        (&["digits", "--augment", "crop"], "applies to --model resnet, not mlp"),
        (&["iris", "--precision", "f8"], "--precision"),
        (&["iris", "--test", "1.5"], "--test"),
        (&["iris", "--test", "0"], "each needs at least one"),
        (&["iris", "--dropout", "1"], "--dropout"),
        (&["iris", "--momentum", "1"], "--momentum"),
        (&["iris", "--engine", "scalar", "--optimizer", "adam"], "it knows --optimizer sgd"),
        (&["digits", "--engine", "scalar", "--model", "cnn"], "it trains --model mlp"),
        (&["no such file.csv"], "no such file.csv"),
        (&["tulips"], "choose one of iris, moons"),
        (&["mnist", "--data", "/nowhere"], "/nowhere"),
    ] {
        refused(&[&["train"], arguments].concat(), words);
    }
}

#[test]
fn a_text_is_learnt_and_gone_on_with() {
    let place = Place::new("text");
    let path = place.file("song.txt");
    std::fs::write(&path, "row, row, row your boat\n".repeat(60)).expect("a text");
    let (path, out) = (path.to_str().expect("a path").to_owned(), place.path("out"));
    let arguments =
        ["train", &path, "--context", "16", "--layers", "32", "--lr", "0.02", "--epochs", "12", "--dropout", "0"];
    let output_text = succeeds(&[&arguments[..], &["--out", &out]].concat());
    assert!(
        output_text.contains("bits/character on the held-out text") && output_text.contains("interpolated n-grams"),
        "{output_text}"
    );
    let json: Value = serde_json::from_str(&succeeds(&[&arguments[..], &["--json"]].concat())).expect("JSON");
    assert!(json["test_bits_per_character"].as_f64().is_some_and(|bits| bits < 0.5), "{json}");
    let output_text = succeeds(&["predict", &out, "--prompt", "row, row, ", "--length", "14", "--temperature", "0"]);
    assert_eq!(output_text, "row, row, row your boat\n\n");
    refused(&["predict", &out, "--prompt", "Zebra"], "does not occur");
    refused(&["predict", &out], "--prompt is missing");
    let transformer =
        ["train", &path, "--model", "transformer", "--context", "16", "--layers", "16,16", "--epochs", "2"];
    assert!(succeeds(&transformer).contains("bits/character"));
    // A GPT, in mixed precision, saved, and generating over a KV cache beyond its context.
    let gpt =
        ["train", &path, "--model", "gpt", "--context", "16", "--layers", "32,32", "--epochs", "8", "--lr", "0.01"];
    let (gpt_out, gpt_more) = (place.path("gpt"), ["--dropout", "0", "--batch", "32", "--precision", "bf16", "--json"]);
    let json: Value =
        serde_json::from_str(&succeeds(&[&gpt[..], &gpt_more, &["--out", &gpt_out]].concat())).expect("JSON");
    assert!(json["test_bits_per_character"].as_f64().is_some_and(|bits| bits < 0.6), "{json}");
    let written = succeeds(&["predict", &gpt_out, "--prompt", "row, row, ", "--length", "38", "--temperature", "0"]);
    assert!(written.len() == 48 + 1 && written.contains("row your"), "{written}");
    let short = place.file("short.txt");
    std::fs::write(&short, "abc").expect("a text");
    refused(&["train", short.to_str().expect("a path")], "--context");
    std::fs::write(&short, [0xff, 0xfe, 0x00]).expect("a file");
    refused(&["train", short.to_str().expect("a path")], "byte 0 is no UTF-8 character");
}

#[test]
fn completions_and_manuals_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output_text = succeeds(&["completions", shell]);
        assert!(output_text.contains("train") && output_text.contains("init-weights"), "{shell}");
    }
    let manual = succeeds(&["man"]);
    let train = succeeds(&["man", "train"]);
    for command in ["grad", "derive", "train", "predict", "tune", "bench"] {
        assert!(manual.contains(command), "{command}");
    }
    assert!(train.starts_with(".ie") && train.contains("optimizer"), "{train}");
    refused(&["man", "sing"], "there is no command named");
}

#[test]
fn a_residual_network_keeps_running_statistics_and_resumes_bit_identically() {
    let place = Place::new("resnet");
    let arguments = ["train", "digits", "--model", "resnet", "--layers", "4,8", "--batch", "64", "--precision", "bf16"];
    let run = |epochs: &str, more: &[&str]| {
        let json = succeeds(
            &[&arguments[..], &["--epochs", epochs, "--schedule", "constant", "--warmup", "0", "--json"], more]
                .concat(),
        );
        serde_json::from_str::<Value>(&json).expect("JSON")
    };
    let whole = run("2", &[]);
    assert!(whole["test_accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.3), "{whole}");
    // One epoch, and the second after a resumption: the statistics are part of the checkpoint.
    let out = place.path("out");
    run("1", &["--out", &out]);
    let resumed = run("2", &["--out", &out, "--resume"]);
    assert_eq!(resumed["test_accuracy"], whole["test_accuracy"], "{resumed}");
    assert_eq!(resumed["test_loss"], whole["test_loss"], "{resumed}");
}
