//! Sparse matrices before dense ones: values, both derivatives, second order, batching, and errors.

use glassgrad::dtype::DType;
use glassgrad::operations::SparseMatrix;
use glassgrad::rng::Key;
use glassgrad::{Tensor, grad, hvp, jvp, vmap};

/// A matrix of 4 rows and 3 columns with an empty row, and one place named twice.
fn matrix(values: &Tensor) -> SparseMatrix {
    SparseMatrix::from_coo(&[0, 0, 1, 3, 3, 3], &[0, 2, 1, 2, 0, 2], values.clone(), [4, 3])
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(seed), shape).cast(DType::F64)
}

#[test]
fn products_and_derivatives_are_those_of_dense_matrices() {
    let (values, x) = (normal(1, &[6]), normal(2, &[3, 5]));
    let sparse = |(values, x): &(Tensor, Tensor)| matrix(values).matmul(x).sin().sum();
    let dense = |(values, x): &(Tensor, Tensor)| matrix(values).to_dense().matmul(x).sin().sum();
    let at = (values.clone(), x.clone());
    let direction = (normal(3, &[6]), normal(4, &[3, 5]));
    let close = |a: &Tensor, b: &Tensor| {
        assert!((a - b).abs().max().item().unwrap() <= 32.0 * f64::EPSILON * (1.0 + b.abs().max().item().unwrap()));
    };
    close(&sparse(&at), &dense(&at));
    close(&jvp(sparse, &at, &direction).1, &jvp(dense, &at, &direction).1);
    let pairs = [(grad(sparse)(&at), grad(dense)(&at)), (hvp(sparse, &at, &direction), hvp(dense, &at, &direction))];
    for (found, expected) in pairs {
        close(&found.0, &expected.0);
        close(&found.1, &expected.1);
    }
    // A vector, the transpose, and a batch of right-hand sides.
    let v = normal(5, &[4]);
    close(&matrix(&values).transpose().matmul(&v), &matrix(&values).to_dense().transpose().matmul(&v));
    let columns = vmap(|column: &Tensor| matrix(&values).matmul(column))(&x.transpose());
    close(&columns, &matrix(&values).matmul(&x).transpose());
    let batch = vmap(|values: &Tensor| matrix(values).matmul(&x))(&normal(6, &[2, 6]));
    close(&batch.slice(&[1.into()]), &matrix(&normal(6, &[2, 6]).slice(&[1.into()])).matmul(&x));
}

#[test]
fn compressed_rows_are_coordinates() {
    let values = Tensor::from([1.0, 2.0, 3.0]);
    let compressed = SparseMatrix::from_csr(&[0, 2, 2, 3], &[1, 0, 2], values, 3);
    assert_eq!(compressed.to_dense().to_string(), "[[2, 1, 0],\n [0, 0, 0],\n [0, 0, 3]]");
    assert_eq!(compressed.matmul(&Tensor::from([1.0_f32, 10.0, 100.0])).to_string(), "[ 12,   0, 300]");
}

#[test]
fn what_is_no_matrix_is_refused() {
    let two = Tensor::from([1.0, 2.0]);
    let refused = [
        (SparseMatrix::from_coo(&[0], &[0, 1], two.clone(), [2, 2]), "from_coo: 1 rows and 2 columns do not name"),
        (SparseMatrix::from_coo(&[0, 2], &[0, 1], two.clone(), [2, 2]), "from_coo: there is no row 2"),
        (SparseMatrix::from_coo(&[0, 1], &[0, 5], two.clone(), [2, 2]), "from_coo: there is no column 5"),
        (SparseMatrix::from_csr(&[0, 3], &[0, 1], two.clone(), 2), "from_csr: the starts of rows must ascend"),
        (SparseMatrix::from_csr(&[], &[0, 1], two, 2), "from_csr: the starts of rows must ascend"),
    ];
    for (matrix, message) in refused {
        for tensor in [matrix.values.clone(), matrix.matmul(&Tensor::ones(2)), matrix.to_dense()] {
            let error = tensor.eval().unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
            assert!(error.origin().unwrap().file().ends_with("sparse.rs"), "{error}");
        }
    }
    let error = matrix(&normal(1, &[6])).matmul(&Tensor::ones([4, 2])).eval().unwrap_err().to_string();
    assert!(error.starts_with("matmul: a sparse matrix of 4 rows and 3 columns meets the shape [4, 2]"), "{error}");
}
