//! Images and labels.

use std::path::PathBuf;

use glassgrad::Tensor;
use glassgrad::data::files::Idx;

use super::damage::damaged;
use super::{packed, written};

/// Three images of 2 × 4 pixels.
fn images() -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4];
    bytes.extend(0..24);
    bytes
}

#[test]
fn images_are_read_plain_and_compressed() {
    for bytes in [images(), packed(&images())] {
        let path = written("images.idx", &bytes);
        let read = Idx::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(read, Idx { shape: vec![3, 2, 4], elements: (0..24).collect() });
        assert_eq!(Tensor::from(read.integers()).shape().to_string(), "[3, 2, 4]");
        assert_eq!(Tensor::from(read.fractions()).max().item().unwrap(), f64::from(23.0_f32 / 255.0));
    }
}

#[test]
fn wrong_files_are_refused_with_the_reason() {
    let with = |place: usize, byte: u8| {
        let mut bytes = images();
        bytes[place] = byte;
        bytes
    };
    let mut longer = images();
    longer.push(1);
    let huge = [&[0, 0, 8, 4][..], &[255; 16], &[1, 2, 3]].concat();
    let cases = [
        (vec![], "0 bytes are too few"),
        (with(0, 1), "begins with two zeros"),
        (with(2, 13), "byte 2 declares elements of the type 13"),
        (with(3, 0), "byte 3 declares 0 axes"),
        (with(3, 200), "byte 3 declares 200 axes"),
        (images()[..10].to_vec(), "it ends at byte 10, within the sizes of its 3 axes"),
        (longer, "[3, 2, 4], that is 24 elements, and more follow behind byte 16"),
        (huge, "more elements than any file has"),
    ];
    for (bytes, reason) in cases {
        for bytes in [bytes.clone(), packed(&bytes)] {
            let message = Idx::from_bytes(&bytes).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}, not {reason}");
        }
    }
    // More than is there, and, compressed, more than is expanded.
    let message = Idx::from_bytes(&with(4, 127)).unwrap_err().to_string();
    assert!(
        message.contains("declares [2130706435, 2, 4], that is 17045651480 elements, and 24 follow behind byte 16"),
        "{message}"
    );
    let message = Idx::from_bytes(&packed(&with(4, 127))).unwrap_err().to_string();
    assert!(message.contains("declares 17045651496 bytes") && message.contains("the limit is 2147483648"), "{message}");
    let path = written("wrong.idx", &images()[..20]);
    let message = Idx::read(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(message.contains(&path.display().to_string()) && message.contains("4 follow"), "{message}");
}

/// A header that tells of little is not followed by the gigabytes that come behind it.
#[test]
fn a_small_header_limits_what_is_expanded() {
    let mut bytes = vec![0, 0, 8, 1, 0, 0, 0, 3];
    bytes.resize(50_000_000, 0);
    let message = Idx::from_bytes(&packed(&bytes)).unwrap_err().to_string();
    assert!(message.contains("3 elements, and more follow"), "{message}");
}

#[test]
fn damage_is_refused_or_read() {
    for (bytes, seed) in [(images(), 1), (packed(&images()), 2)] {
        damaged(&bytes, seed, |bytes| match Idx::from_bytes(bytes) {
            Ok(read) => {
                assert_eq!(read.elements.len(), read.shape.iter().product::<usize>());
                // Elements are bytes of the file, which compression makes at most about a thousand times as many.
                assert!(read.elements.len() <= 1100 * bytes.len());
                assert_eq!(read.integers().shape().to_vec(), read.shape);
            }
            Err(error) => assert!(error.to_string().starts_with("idx: ")),
        });
    }
}

/// The real files, where they are.
#[test]
fn mnist_is_read() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mnist");
    let folder = std::env::var_os("GLASSGRAD_MNIST").map_or(root, PathBuf::from);
    let images = folder.join("t10k-images-idx3-ubyte.gz");
    if !images.exists() {
        eprintln!("skipped: no MNIST in {} (GLASSGRAD_MNIST names the folder)", folder.display());
        return;
    }
    let images = Idx::read(images).unwrap();
    let labels = Idx::read(folder.join("t10k-labels-idx1-ubyte.gz")).unwrap();
    assert_eq!((images.shape, labels.shape), (vec![10_000, 28, 28], vec![10_000]));
    assert_eq!(labels.elements[..10], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]);
}
