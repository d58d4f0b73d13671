//! Lost bits, damaged files and exhausted resources, as the user of the command line meets them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn glassgrad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassgrad")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(arguments: &[&str]) -> Output {
    let output = glassgrad(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

/// Runs a command that must fail with an exit code of 1 or 2, and gives its message.
fn refused(arguments: &[&str]) -> String {
    let output = glassgrad(arguments);
    let message = text(&output.stderr);
    let code = output.status.code();
    assert!(code == Some(1) || code == Some(2), "{arguments:?}: {:?} {message}", output.status);
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    message
}

/// A temporary directory that is removed at the end of a test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("glassgrad-resources-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Place(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), bytes).expect("a file");
        self.path(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn model(folder: &str) -> Vec<u8> {
    std::fs::read(Path::new(folder).join("model.safetensors")).expect("a model")
}

#[test]
fn a_resumed_run_keeps_every_bit_of_its_settings() {
    let place = Place::new("bits");
    // Parsers of floating-point numbers that are only accurate to within an ulp return a neighbour of each of these.
    let options = ["--optimizer", "momentum", "--momentum", "0.9052924791086351", "--lr", "0.012345678901234567"];
    let (whole, resumed) = (place.path("whole"), place.path("resumed"));
    let train = |out: &str, rest: &[&str]| {
        succeeds(&[&["train", "moons", "--points", "200", "--out", out][..], rest].concat());
    };
    train(&whole, &[&options[..], &["--epochs", "8"]].concat());
    train(&resumed, &[&options[..], &["--epochs", "4"]].concat());
    succeeds(&["train", "moons", "--out", &resumed, "--resume", "--epochs", "8"]);
    let settings = |folder: &str| std::fs::read_to_string(Path::new(folder).join("settings.json")).expect("settings");
    assert_eq!(settings(&whole), settings(&resumed));
    assert!(settings(&resumed).contains("0.9052924791086351"), "{}", settings(&resumed));
    assert_eq!(model(&whole), model(&resumed));
}

/// The bytes of a safetensors file without its checksum, as another program would write it.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    header["__metadata__"].as_object_mut().expect("notes").remove("glassgrad.checksum").expect("a checksum");
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn damaged_models_and_checkpoints_are_refused_and_files_without_a_checksum_are_reported() {
    let place = Place::new("damage");
    let out = place.path("iris");
    succeeds(&["train", "iris", "--epochs", "3", "--out", &out]);
    let rows = place.write("rows.csv", "sepal length,sepal width,petal length,petal width\n5.1,3.5,1.4,0.2\n");
    let bytes = model(&out);
    let damaged = |bytes: &[u8], place: usize| {
        let mut damaged = bytes.to_vec();
        damaged[place] ^= 4;
        damaged
    };
    for place_of_bit in [bytes.len() - 1, bytes.len() - 100, bytes.len() / 2] {
        let path = place.write("damaged.safetensors", damaged(&bytes, place_of_bit));
        let message = refused(&["predict", &path, &rows]);
        assert!(message.contains("damaged"), "{message}");
        assert!(refused(&["train", "iris", "--init-weights", &path]).contains("damaged"));
    }
    let foreign = place.write("foreign.safetensors", without_checksum(&bytes));
    let output = succeeds(&["predict", &foreign, &rows]);
    let warning = text(&output.stderr);
    assert!(
        warning.starts_with("warning: ") && warning.contains("foreign.safetensors: the file has no checksum"),
        "{warning}"
    );
    assert_eq!(output.stdout, succeeds(&["predict", &out, &rows]).stdout);
    assert!(succeeds(&["predict", &out, &rows]).stderr.is_empty());
    // The run that is resumed.
    let run = Path::new(&out).join("run.safetensors");
    let saved = std::fs::read(&run).expect("a run");
    std::fs::write(&run, damaged(&saved, saved.len() - 9)).expect("a file");
    let message = refused(&["train", "iris", "--out", &out, "--resume", "--epochs", "5"]);
    assert!(message.contains("run.safetensors") && message.contains("damaged"), "{message}");
    std::fs::write(&run, without_checksum(&saved)).expect("a file");
    let warning = text(&succeeds(&["train", "iris", "--out", &out, "--resume", "--epochs", "5"]).stderr);
    assert!(warning.contains("run.safetensors: the file has no checksum"), "{warning}");
}

#[test]
fn a_table_with_decimal_commas_is_learnt_as_numbers() {
    let place = Place::new("commas");
    let rows: String =
        (0..300).map(|k| format!("{},{};{};{},{}\n", 40 + k, k % 10, 1 + k % 4, 200 + 3 * k, k % 7)).collect();
    let table = place.write("flats.csv", format!("area;rooms;price\n{rows}"));
    let output = succeeds(&["train", &table, "--epochs", "5", "--json"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(result["test_rmse"].is_number() && result["test_accuracy"].is_null(), "{result}");
    // The same numbers with a decimal point give the same bits.
    let points = place.write("flats.points.csv", format!("area;rooms;price\n{}", rows.replace(',', ".")));
    let output = succeeds(&["train", &points, "--epochs", "5", "--json"]);
    let same: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["losses"], same["losses"]);
}

#[test]
fn a_target_that_is_nearly_unique_is_refused() {
    let place = Place::new("unique");
    let rows: String = (0..300).map(|k| format!("{},\"{},5\"\n", k % 10, 200 + k)).collect();
    let table = place.write("quoted.csv", format!("x,price\n{rows}"));
    let message = refused(&["train", &table]);
    assert!(message.contains("the column \"price\" has 300 classes in 300 rows"), "{message}");
    assert!(message.contains("decimal point"), "{message}");
}

#[test]
fn what_needs_more_memory_than_there_is_is_refused_with_the_size() {
    let place = Place::new("memory");
    let out = place.path("out");
    for (arguments, words) in [
        (&["iris", "--layers", "100000,100000"][..], &["--layers 100000,100000", "10000700000 weights", "GB"][..]),
        (&["iris", "--layers", "18446744073709551615,18446744073709551615"], &["--layers", "GB"]),
        (&["digits", "--model", "cnn", "--layers", "1000000,1000000,8"], &["--layers", "GB"]),
        (&["digits", "--model", "transformer", "--layers", "1000000,1000000"], &["--layers", "GB"]),
        (&["moons", "--points", "2000000000"], &["2000000000 examples", "GB"]),
        (&["moons", "--points", "18446744073709551615"], &["--points", "at most"]),
        (&["moons", "--epochs", "18446744073709551615"], &["--epochs", "at most"]),
        (&["moons", "--warmup", "18446744073709551615"], &["--warmup", "at most"]),
        (&["moons", "--model", "sparse", "--fan-in", "18446744073709551615"], &["--fan-in", "at most"]),
        (&["moons", "--noise", "inf"], &["--noise inf"]),
        (&["moons", "--clip", "nan"], &["--clip NaN"]),
    ] {
        let message = refused(&[&["train"], arguments, &["--out", &out]].concat());
        assert!(words.iter().all(|word| message.contains(word)), "{arguments:?}: {message}");
        assert!(!Path::new(&out).exists(), "{arguments:?} leaves a directory");
    }
    let song = place.write("song.txt", "row, row, row your boat\n".repeat(60));
    assert!(refused(&["train", &song, "--test=-1"]).contains("--test -1"));
    assert!(refused(&["train", &song, "--context", "18446744073709551615"]).contains("--context"));
}

#[test]
fn files_that_expand_beyond_their_limits_are_refused() {
    let place = Place::new("bombs");
    let rows: String = (0..20_000).map(|k| format!("word{k},{}\n", k % 2)).collect();
    let table = place.write("words.csv", format!("name,y\n{rows}"));
    let message = refused(&["train", &table]);
    assert!(message.contains("20000") && message.contains("words that are nearly all different"), "{message}");
    // An archive whose member declares four gigabytes.
    let (name, packed, declared) = (b"x.npy", vec![0; 4_200_000], 4_294_967_000_u32);
    let sizes = [0, packed.len() as u32, declared].map(u32::to_le_bytes).concat();
    let common = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sizes, &[name.len() as u8, 0, 0, 0]].concat();
    let local = [b"PK\x03\x04", &common[..], name, &packed].concat();
    let entry = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name].concat();
    let places = [entry.len() as u32, local.len() as u32].map(u32::to_le_bytes).concat();
    let end = [b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00", &places[..], &[0, 0]].concat();
    let archive = place.write("bomb.npz", [local, entry, end].concat());
    let message = refused(&["train", &archive]);
    assert!(message.contains("4294967000 bytes") && message.contains("limit of 2147483648"), "{message}");
}

#[test]
fn control_characters_of_files_do_not_reach_the_terminal() {
    let place = Place::new("escape");
    let escape = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}";
    let rows: String = (0..60).map(|k| format!("{},{}{escape}\n", k % 7, ["red", "blue"][k % 2])).collect();
    let name = format!("table{escape}.csv");
    let table = place.write(&name, format!("x{escape},colour{escape}\n{rows}"));
    let is_clean = |bytes: &[u8]| {
        let text = text(bytes);
        assert!(
            !text.chars().any(|character| character.is_control() && character != '\n' && character != '\t'),
            "{text:?}"
        );
        text
    };
    let out = place.path("out");
    let output = succeeds(&["train", &table, "--epochs", "2", "--out", &out]);
    is_clean(&output.stderr);
    assert!(is_clean(&output.stdout).contains("\\u001b"));
    is_clean(&succeeds(&["train", &table, "--epochs", "2", "--json"]).stdout);
    is_clean(&succeeds(&["train", &table, "--epochs", "2", "--compare", "sgd,adam"]).stdout);
    for arguments in [
        &["train", &table, "--target", escape][..],
        &["train", escape],
        &["train", &table, "--target-type", "regression"],
    ] {
        assert!(is_clean(refused(arguments).as_bytes()).contains("\\u"), "{arguments:?}");
    }
    // Data for another program stay as they are.
    let rows = place.write("rows.csv", format!("x{escape}\n3\n"));
    assert!(text(&succeeds(&["predict", &out, &rows]).stdout).contains(escape));
}

#[test]
fn what_a_killed_write_has_left_is_removed_by_the_next() {
    let place = Place::new("stale");
    let out = place.path("out");
    succeeds(&["train", "moons", "--epochs", "2", "--out", &out]);
    for name in ["run.safetensors", "model.safetensors", "settings.json"] {
        std::fs::write(Path::new(&out).join(format!("{name}.4000000000.7.part")), b"half").expect("a file");
    }
    succeeds(&["train", "moons", "--out", &out, "--resume", "--epochs", "4"]);
    let names = std::fs::read_dir(&out).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().ends_with(".part")));
}

#[test]
fn changed_settings_do_not_resume_the_run() {
    let place = Place::new("settings");
    let out = place.path("out");
    succeeds(&["train", "moons", "--epochs", "2", "--momentum", "0.5", "--out", &out]);
    let path = Path::new(&out).join("settings.json");
    let settings = std::fs::read_to_string(&path).expect("settings");
    std::fs::write(&path, settings.replace("\"momentum\": 0.5", "\"momentum\": 0.7")).expect("a file");
    let message = refused(&["train", "moons", "--out", &out, "--resume", "--epochs", "4"]);
    assert!(message.contains("run.safetensors was saved by another run: its note \"settings\" differs"), "{message}");
    std::fs::write(&path, settings).expect("a file");
    succeeds(&["train", "moons", "--out", &out, "--resume", "--epochs", "4"]);
}
