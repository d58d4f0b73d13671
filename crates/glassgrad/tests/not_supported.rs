//! `docs/not-supported.md` states what is missing; each statement is checked here.

use std::path::{Path, PathBuf};

use glassgrad::dtype::DType;
use glassgrad::{Tensor, grad, vmap};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/not-supported.md");
    std::fs::read_to_string(path).expect("the page")
}

/// The text of all files of the library.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("a file");
                files.push((path, text));
            }
        }
    }
    files
}

/// Whether a public function of this name exists outside of the scalar engines.
fn exists(sources: &[(PathBuf, String)], name: &str) -> bool {
    let (plain, generic) = (format!("pub fn {name}("), format!("pub fn {name}<"));
    let of_tensors = |path: &Path| !path.components().any(|part| part.as_os_str() == "scalar");
    sources.iter().any(|(path, text)| of_tensors(path) && (text.contains(&plain) || text.contains(&generic)))
}

#[test]
fn functions_that_are_called_missing_are_missing() {
    let (page, sources) = (page(), sources());
    for name in ["rfftn", "dct", "cg", "gmres", "divmod", "bessel_y"] {
        assert!(page.contains(&format!("`{name}`")), "the page does not name {name}");
        assert!(!exists(&sources, name), "{name} exists: take it off docs/not-supported.md");
    }
    for name in ["taylor", "sparse_jacobian", "from_parquet", "read_parquet", "read_hdf5", "from_onnx"] {
        assert!(!exists(&sources, name), "{name} exists: take it off docs/not-supported.md");
    }
}

#[test]
fn functions_that_are_recommended_exist() {
    let (page, sources) = (page(), sources());
    for name in [
        "cast",
        "with_at",
        "put_along",
        "add_at",
        "update",
        "masked",
        "nonzero",
        "choose",
        "scan",
        "fftn",
        "floor_divide",
        "remainder",
        "schur",
        "jacobian",
        "hessian",
        "jvp",
        "grad",
    ] {
        assert!(page.contains(name), "the page does not name {name}");
        assert!(exists(&sources, name), "there is no {name}");
    }
    // Named on no page as missing, since they exist.
    for name in ["poisson", "conv", "max_pool", "read_npz", "eigh", "expm"] {
        assert!(exists(&sources, name) && !page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn element_types_are_those_of_the_page() {
    // A new variant does not compile here, and belongs on the page.
    let name = |dtype: DType| match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I64 => "i64",
        DType::Bool => "bool",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I32 => "i32",
        DType::U8 => "u8",
    };
    let page = page();
    let wide = [DType::F32, DType::F64, DType::I64, DType::Bool].map(name);
    for name in wide.into_iter().chain([DType::F16, DType::BF16, DType::I32, DType::U8].map(name)) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn shapes_and_branches_cannot_depend_on_batched_values() {
    let x = Tensor::from([[1.0, -1.0], [2.0, 3.0]]);
    let masked = vmap(|row: &Tensor| row.masked(&row.gt(0.0)))(&x);
    assert!(masked.to_f64_vec().is_err());
    let positions = vmap(|row: &Tensor| row.gt(0.0).nonzero())(&x);
    assert!(positions.to_vec::<i64>().is_err());
    let is_read = std::cell::Cell::new(None);
    let _ = vmap(|row: &Tensor| {
        is_read.set(Some(row.sum().item().is_ok()));
        row.sum()
    })(&x);
    assert_eq!(is_read.get(), Some(false), "the values of an argument of vmap are readable now");
}

#[test]
fn a_tensor_that_occurs_twice_is_two_parameters() {
    let weight = Tensor::from([2.0, 3.0]);
    let (first, second) = grad(|(a, b): &(Tensor, Tensor)| (a * b).sum())(&(weight.clone(), weight));
    assert_eq!((first.to_string(), second.to_string()), ("[2, 3]".to_owned(), "[2, 3]".to_owned()));
}

#[cfg(feature = "save")]
#[test]
fn pickled_archives_are_refused() {
    use glassgrad::save::File;
    assert!(File::from_bytes(b"PK\x03\x04archive/data.pkl").is_err());
    assert!(File::from_bytes(b"\x80\x02}q\x00.").is_err());
}
