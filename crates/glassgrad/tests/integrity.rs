//! Damage to files and panics in user code: nothing is accepted or lost in silence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use glassgrad::data::{Dataset, Examples};
use glassgrad::error::Error;
use glassgrad::expr::Keys;
use glassgrad::nn::{Activation, Mlp};
use glassgrad::optim::Optimizer;
use glassgrad::rng::Key;
use glassgrad::save::{self, File};
use glassgrad::train::{Epoch, Flow, Observer, TrainError, Training};
use glassgrad::{Tensor, tree::Tree as _};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("glassgrad-integrity-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file with tensors of all types and two notes.
fn small() -> Vec<u8> {
    let tensors = (
        Tensor::from([[1.5_f32, -2.0], [0.0, 3.25]]),
        (Tensor::from([1e-300, 2.0]), Tensor::from([3_i64, -4])),
        Tensor::from([true, false, true]),
    );
    let mut file = File::of(&tensors).unwrap();
    file.notes.insert("what".into(), "a test".into());
    file.notes.insert("epoch".into(), "7".into());
    file.to_bytes().unwrap()
}

/// The bytes of a file without its checksum, as another program would write it.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    header["__metadata__"].as_object_mut().unwrap().remove("glassgrad.checksum").expect("a checksum");
    let mut text = header.to_string();
    text.extend(std::iter::repeat_n(' ', text.len().next_multiple_of(8) - text.len()));
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn every_single_bit_flip_is_refused() {
    let bytes = small();
    assert!(File::from_bytes(&bytes).unwrap().warnings.is_empty());
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = File::from_bytes(&damaged).map(|_| ()).expect_err(&format!("bit {bit} is flipped"));
        let message = error.to_string();
        assert!(message.contains("damaged") || message.contains("not a whole safetensors file"), "{message}");
    }
}

#[test]
fn random_damage_to_a_larger_file_is_refused() {
    let network = Mlp::new(Key::new(1), &[60, 80, 10], Activation::Tanh);
    let mut file = File::of(&network).unwrap();
    file.notes.insert("what".into(), "a test".into());
    let bytes = file.to_bytes().unwrap();
    assert!(bytes.len() > 20_000);
    for round in 0..6_000_u64 {
        let key = Key::new(2).fold(round);
        let draw = |number: u64, below: usize| key.bits(number) as usize % below;
        let mut damaged = bytes.clone();
        match round % 4 {
            // A few bits anywhere.
            0 => (0..1 + draw(0, 4) as u64).for_each(|k| damaged[draw(1 + k, bytes.len())] ^= 1 << draw(10 + k, 8)),
            // A page of zeros, as a disk returns that has lost it.
            1 => {
                let begin = draw(0, bytes.len());
                let end = (begin + 512).min(bytes.len());
                damaged[begin..end].fill(0);
            }
            2 => damaged.truncate(draw(0, bytes.len())),
            // Two stretches of elements change places.
            _ => {
                let [one, other] = [0, 1].map(|k| bytes.len() - 64 * (1 + draw(k, 200)));
                for k in 0..32 {
                    damaged.swap(one + k, other + k);
                }
            }
        }
        if damaged != bytes {
            assert!(File::from_bytes(&damaged).is_err(), "round {round}");
        }
    }
}

#[test]
fn a_file_without_a_checksum_is_read_with_a_warning() {
    let bytes = without_checksum(&small());
    let file = File::from_bytes(&bytes).unwrap();
    assert_eq!((file.tensors.len(), file.notes["what"].as_str()), (4, "a test"));
    assert!(file.warnings.len() == 1 && file.warnings[0].contains("has no checksum"), "{:?}", file.warnings);
    let path = folder("foreign").join("foreign.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    let like = (
        Tensor::from([[0.0_f32, 0.0], [0.0, 0.0]]),
        (Tensor::from([0.0, 0.0]), Tensor::from([0_i64, 0])),
        Tensor::from([false; 3]),
    );
    let loaded = save::load(&path, &like).unwrap();
    assert!(loaded.warnings[0].contains("foreign.safetensors: the file has no checksum"), "{:?}", loaded.warnings);
    // What is saved again has one; notes come back as they were given.
    let again = File::from_bytes(&File::of(&loaded.tree).unwrap().to_bytes().unwrap()).unwrap();
    assert!(again.warnings.is_empty() && again.notes.is_empty());
}

#[test]
fn the_checksum_survives_another_order_of_the_header() {
    let bytes = small();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    // Written by another program: sorted by name, with line breaks.
    let text = serde_json::to_string_pretty(&header).unwrap();
    let rewritten = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &bytes[8 + length..]].concat();
    assert_ne!(rewritten, bytes);
    assert!(File::from_bytes(&rewritten).unwrap().warnings.is_empty());
}

#[test]
fn the_same_content_makes_the_same_bytes_and_notes_come_back() {
    let mut file = File::of(&Tensor::from([1.0, 2.0])).unwrap();
    let strange = "quotes \" and \\ and \n\t\r\0\u{1b}[0m and \u{7f} Größe π \u{1F600}";
    (0..20).for_each(|k| drop(file.notes.insert(format!("note {k} {strange}"), format!("{strange}{k}"))));
    let bytes = file.to_bytes().unwrap();
    assert!((0..5).all(|_| file.to_bytes().unwrap() == bytes));
    let read = File::from_bytes(&bytes).unwrap();
    assert_eq!(read.notes, file.notes);
    assert!(read.warnings.is_empty());
    // Without tensors too.
    assert!(File::from_bytes(&File { tensors: Default::default(), ..file }.to_bytes().unwrap()).is_ok());
}

fn square(x: &Tensor, batch: &Tensor, _: &Keys) -> Tensor {
    (x - batch).square().mean()
}

#[test]
fn a_checkpoint_without_a_checksum_resumes_with_a_warning_and_a_damaged_one_not_at_all() {
    let path = folder("resume").join("run.safetensors");
    let examples = Arc::new(Examples::new(Tensor::arange(40.0)).unwrap());
    let train = |epochs: u64| {
        let training = Training::new(square, Optimizer::sgd(0.05).momentum(0.9)).epochs(epochs).batch_size(8);
        training.checkpoint(&path, 1).run(&Tensor::from(0.0), &examples)
    };
    assert!(train(1).unwrap().warnings.is_empty());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, without_checksum(&bytes)).unwrap();
    let resumed = train(2).unwrap();
    assert!(resumed.warnings.len() == 1 && resumed.warnings[0].contains("run.safetensors"), "{:?}", resumed.warnings);
    for bit in 0..8 * 64 {
        let mut damaged = bytes.clone();
        let place = bytes.len() - 1 - bit / 8;
        damaged[place] ^= 1 << (bit % 8);
        std::fs::write(&path, &damaged).unwrap();
        let message = train(2).map(|_| ()).expect_err("damage is found").to_string();
        assert!(message.contains("cannot read") && message.contains("damaged"), "{message}");
    }
}

/// A dataset whose fourth batch cannot be made.
struct Broken;

impl Dataset for Broken {
    type Batch = Tensor;

    fn len(&self) -> usize {
        64
    }

    fn batch(&self, places: &[usize]) -> Result<Tensor, Error> {
        assert!(!places.contains(&40), "this example is broken");
        Ok(Tensor::new(&places.iter().map(|place| *place as f64).collect::<Vec<_>>(), [places.len()]))
    }
}

#[test]
fn a_panic_of_the_dataset_is_an_error_and_not_the_end_of_training() {
    let training = Training::new(square, Optimizer::sgd(0.001)).epochs(3).batch_size(8);
    let trouble = training.run(&Tensor::from(0.0), &Arc::new(Broken)).map(|_| ()).unwrap_err();
    assert!(matches!(trouble, TrainError::Failed(_)));
    assert!(trouble.to_string().contains("the dataset panicked while it loaded batch"), "{trouble}");
}

/// Panics after the third epoch.
struct Panics;

impl Observer<Tensor> for Panics {
    fn epoch(&mut self, epoch: &Epoch<'_, Tensor>) -> Result<Flow, Error> {
        assert!(epoch.number < 2, "a watch that panics");
        Ok(Flow::Continue)
    }
}

#[test]
fn a_panic_of_a_watch_loses_nothing_that_was_saved() {
    let path = folder("watch").join("run.safetensors");
    let examples = Arc::new(Examples::new(Tensor::arange(40.0)).unwrap());
    let training = || Training::new(square, Optimizer::adam(0.05)).epochs(6).batch_size(8);
    let whole = training().run(&Tensor::from(0.0), &examples).unwrap();
    let broken = || training().checkpoint(&path, 1).observe(Panics).run(&Tensor::from(0.0), &examples);
    assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
    let resumed = training().checkpoint(&path, 1).run(&Tensor::from(0.0), &examples).unwrap();
    let bits = |tensor: &Tensor| tensor.item().unwrap().to_bits();
    assert_eq!((bits(&resumed.parameters), resumed.losses), (bits(&whole.parameters), whole.losses));
}

#[test]
fn a_panic_of_the_loss_leaves_a_session_as_it_was() {
    let examples = Arc::new(Examples::new(Tensor::arange(8.0)).unwrap());
    let is_broken = std::cell::Cell::new(true);
    let loss = |x: &Tensor, batch: &Tensor, key: &Keys| {
        assert!(!is_broken.get(), "a loss that panics");
        square(x, batch, key)
    };
    let training = Training::new(loss, Optimizer::sgd(0.25)).epochs(2).batch_size(8);
    let mut session = training.session(&Tensor::from(1.0), &examples).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| session.step().map(|_| ()))).is_err());
    assert_eq!((session.steps(), session.parameters().item().unwrap()), (0, 1.0));
    assert_eq!(session.parameters().leaves().len(), 1);
}
