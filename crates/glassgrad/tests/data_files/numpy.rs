//! Arrays of NumPy. The files are written by `bench/golden/numpy_files.py`.

use std::path::PathBuf;

use glassgrad::Tensor;
use glassgrad::array::{Array, Buffer};
use glassgrad::data::files::{npy_from_bytes, npy_to_bytes, npz_from_bytes, read_npy, read_npz, read_npz_within};
use glassgrad::shape::Shape;

use super::damage::damaged;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/numpy").join(name)
}

fn numbers(element: impl Fn(i64) -> Buffer) -> Array {
    let mut all = element(0);
    (1..24).for_each(|k| match (&mut all, element(k)) {
        (Buffer::F32(all), Buffer::F32(one)) => all.extend(one),
        (Buffer::F64(all), Buffer::F64(one)) => all.extend(one),
        (Buffer::I64(all), Buffer::I64(one)) => all.extend(one),
        (Buffer::Bool(all), Buffer::Bool(one)) => all.extend(one),
        _ => panic!("elements are of one type"),
    });
    Array::new(Shape::from([2, 3, 4]), all)
}

#[test]
fn all_kinds_are_read_stored_and_deflated() {
    for name in ["stored.npz", "deflated.npz"] {
        let arrays = read_npz(golden(name)).unwrap();
        let eighths = numbers(|k| Buffer::F64(vec![k as f64 / 8.0]));
        let expected = [
            ("bool", numbers(|k| Buffer::Bool(vec![k % 3 == 0]))),
            ("f32", numbers(|k| Buffer::F32(vec![k as f32 / 4.0]))),
            ("f64", eighths.clone()),
            ("fortran", eighths),
            ("i32", numbers(|k| Buffer::I64(vec![k - 12]))),
            ("i64", numbers(|k| Buffer::I64(vec![k - (1 << 40)]))),
            ("none", Array::new(Shape::from([0, 3]), Buffer::F32(vec![]))),
            ("scalar", Array::new(Shape::from(()), Buffer::F64(vec![2.5]))),
            ("u8", numbers(|k| Buffer::I64(vec![k * 10]))),
        ];
        assert_eq!(arrays.len(), expected.len());
        for ((name, array), (expected_name, expected)) in arrays.iter().zip(expected) {
            assert_eq!((name.as_str(), array), (expected_name, &expected));
        }
    }
}

#[test]
fn all_versions_are_read() {
    for version in 1..=3 {
        let array = read_npy(golden(&format!("version{version}.npy"))).unwrap();
        assert_eq!(array, numbers(|k| Buffer::I64(vec![k - 12])));
    }
    let message = read_npy(golden("big_endian.npy")).unwrap_err().to_string();
    assert!(message.contains("big_endian.npy: elements of the type \">f8\" are not read"), "{message}");
}

#[test]
fn what_is_written_reads_back_and_is_what_numpy_writes() {
    let arrays = [
        Tensor::from([[1.5_f32, -0.0], [f32::INFINITY, 1e-45]]).eval().unwrap(),
        Tensor::from([0.1, 0.2, 0.3]).eval().unwrap(),
        Tensor::from(i64::MIN).eval().unwrap(),
        Tensor::from([[true, false]]).eval().unwrap(),
        Tensor::zeros([3, 0]).eval().unwrap(),
    ];
    for array in arrays {
        let bytes = npy_to_bytes(&array);
        assert_eq!(npy_from_bytes(&bytes).unwrap(), array);
        let header = bytes.len() - array.buffer().len() * array.dtype().bytes();
        assert_eq!((header % 64, bytes[header - 1]), (0, b'\n'));
    }
    // The arrays of NumPy's own files, written again, are these files, where tensors have the type; `fortran` is `f64` by rows.
    let stored = std::fs::read(golden("stored.npz")).unwrap();
    for (name, array) in npz_from_bytes(&stored).unwrap() {
        let bytes = npy_to_bytes(&array);
        let is_there = stored.windows(bytes.len()).any(|window| window == bytes);
        assert_eq!(is_there, !["i32", "u8"].contains(&name.as_str()), "{name}");
    }
}

#[test]
fn wrong_files_are_refused_with_the_reason() {
    let with_header = |header: &str| {
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
    };
    let cases: [(Vec<u8>, &str); 10] = [
        (b"".to_vec(), "does not begin as a file of NumPy does"),
        (b"\x93NUMPY\x07\x00\x00\x00".to_vec(), "byte 6 declares version 7"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(), "it ends at byte 13, within its header"),
        (with_header("nothing"), "its header has no braces"),
        (with_header("{'descr': '<f8', 'shape': (1,)}"), "no fortran_order"),
        (with_header("{'descr': '<f8', 'fortran_order': False, 'shape': 1}"), "no shape in parentheses"),
        (with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"), "no shape of whole numbers"),
        (with_header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}"), "no type of elements"),
        (
            with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000, 4000000000)}"),
            "that is more than any file has, and 8 follow",
        ),
        (
            with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,)}"),
            "the header declares [1000000000], that is 8000000000 bytes, and 8 follow behind byte 74",
        ),
    ];
    for (bytes, reason) in cases {
        let message = npy_from_bytes(&bytes).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}, not {reason}");
    }
    // Sizes that no machine multiplies, beside a zero.
    let huge = with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9000000000000000000, 9)}");
    assert!(npy_from_bytes(&huge[..huge.len() - 8]).is_err());
}

#[test]
fn archives_that_lie_are_refused() {
    let deflated = std::fs::read(golden("deflated.npz")).unwrap();
    let list = deflated.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let with = |place: usize, bytes: &[u8]| {
        let mut copy = deflated.clone();
        copy[list + place..][..bytes.len()].copy_from_slice(bytes);
        npz_from_bytes(&copy).unwrap_err().to_string()
    };
    let message = with(24, &[255, 255, 255, 100]);
    assert!(message.contains("\"f32.npy\": 1694498815 bytes are more than the archive can hold"), "{message}");
    let message = with(24, &[9, 0, 0, 0]);
    assert!(message.contains("its length is declared as 9 bytes, and it expands to more"), "{message}");
    assert!(with(16, &[0; 4]).contains("its length or its checksum"));
    assert!(with(10, &[12]).contains("it is packed by the method 12"));
    assert!(with(42, &[0, 0, 0, 99]).contains("nothing is where it should be"));
    assert!(with(20, &[255; 4]).contains("is damaged"));
    assert!(with(0, b"XX").contains("member 0 of the list, at byte"));
}

/// An archive with one deflated member, of which the list declares a length and a checksum.
fn archive(packed: &[u8], declared: u32, checksum: u32) -> Vec<u8> {
    let name = b"x.npy";
    let sizes = [checksum, packed.len() as u32, declared].map(u32::to_le_bytes).concat();
    let lengths = [&(name.len() as u16).to_le_bytes()[..], &[0, 0]].concat();
    // Version, flags, method 8, and four bytes of time.
    let common = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sizes, &lengths].concat();
    let local = [b"PK\x03\x04", &common[..], name, packed].concat();
    let entry = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name].concat();
    let count = 1_u16.to_le_bytes();
    let place = [entry.len() as u32, local.len() as u32].map(u32::to_le_bytes).concat();
    let end = [b"PK\x05\x06\x00\x00\x00\x00", &count[..], &count, &place, &[0, 0]].concat();
    [local, entry, end].concat()
}

#[test]
fn what_an_archive_expands_to_is_limited_by_what_it_declares_and_by_what_it_holds() {
    use std::io::Write as _;
    // Three gigabytes are declared: nothing is expanded.
    let message = npz_from_bytes(&archive(&vec![0; 3_000_000], 3_000_000_000, 0)).unwrap_err().to_string();
    assert!(message.contains("\"x.npy\": its array takes 3000000000 bytes, from 3000000 packed ones"), "{message}");
    assert!(message.contains("of the limit of 2147483648 bytes 2147483648 are left"), "{message}");
    // A million bytes take eight times as much in an array of 64-bit integers.
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000,)}";
    let npy = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &vec![1; 1_000_000]]
        .concat();
    let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(&npy).unwrap();
    let packed = writer.finish().unwrap();
    let mut checksum = flate2::Crc::new();
    checksum.update(&npy);
    let path = std::env::temp_dir().join(format!("glassgrad-bomb-{}.npz", std::process::id()));
    std::fs::write(&path, archive(&packed, npy.len() as u32, checksum.sum())).unwrap();
    let message = read_npz_within(&path, 4_000_000).unwrap_err().to_string();
    assert!(
        message.contains("its array takes 8000000 bytes") && message.contains("limit of 4000000 bytes"),
        "{message}"
    );
    assert_eq!(read_npz_within(&path, 8_000_000).unwrap()["x"].buffer().len(), 1_000_000);
    // More than is declared, and less.
    for (declared, words) in
        [(900, "declared as 900 bytes, and it expands to more"), (npy.len() as u32 + 1, "expands to 1000")]
    {
        std::fs::write(&path, archive(&packed, declared, checksum.sum())).unwrap();
        let message = read_npz(&path).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn damage_is_refused_or_read() {
    let small = npy_to_bytes(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]).eval().unwrap());
    damaged(&small, 1, |bytes| match npy_from_bytes(bytes) {
        Ok(array) => assert!(array.buffer().len() <= bytes.len()),
        Err(error) => assert!(error.to_string().starts_with("npy: ")),
    });
    for (name, seed) in [("stored.npz", 2), ("deflated.npz", 3)] {
        let bytes = std::fs::read(golden(name)).unwrap();
        damaged(&bytes, seed, |bytes| match npz_from_bytes(bytes) {
            Ok(arrays) => {
                let elements: usize = arrays.values().map(|array| array.buffer().len()).sum();
                assert!(elements <= 1032 * bytes.len());
            }
            Err(error) => assert!(error.to_string().starts_with("np"), "{error}"),
        });
    }
}
