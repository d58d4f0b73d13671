//! Dense matrices of the oracles.

/// A matrix, row by row.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The elements.
    pub numbers: Vec<f64>,
}

/// Whether a number is above a bound, or NaN.
pub fn exceeds(number: f64, bound: f64) -> bool {
    number.is_nan() || number > bound
}

/// The Euclidean norm.
pub fn norm(numbers: &[f64]) -> f64 {
    numbers.iter().map(|number| number * number).sum::<f64>().sqrt()
}

impl Matrix {
    /// The matrix with these columns.
    pub fn from_columns(rows: usize, columns: Vec<Vec<f64>>) -> Matrix {
        let mut numbers = vec![0.0; rows * columns.len()];
        for (j, column) in columns.iter().enumerate() {
            for (i, number) in column.iter().enumerate() {
                numbers[i * columns.len() + j] = *number;
            }
        }
        Matrix { rows, columns: columns.len(), numbers }
    }

    /// One element.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.columns + column]
    }

    /// The largest magnitude, NaN if there is one.
    pub fn largest(&self) -> f64 {
        let larger = |a: f64, b: &f64| if b.is_nan() || a.is_nan() { f64::NAN } else { a.max(b.abs()) };
        self.numbers.iter().fold(0.0, larger)
    }

    /// The product with a vector.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| (0..self.columns).map(|j| self.at(i, j) * vector[j]).sum()).collect()
    }

    /// The diagonal.
    pub fn diagonal(&self) -> Vec<f64> {
        (0..self.rows.min(self.columns)).map(|k| self.at(k, k)).collect()
    }

    /// The pivots and the sign of Gaussian elimination with complete pivoting.
    fn pivots(&self) -> (f64, Vec<f64>) {
        let (size, mut a, mut sign, mut found) = (self.rows, self.numbers.clone(), 1.0, Vec::new());
        for k in 0..size {
            let (mut p, mut q) = (k, k);
            for i in k..size {
                for j in k..size {
                    if a[i * size + j].abs() > a[p * size + q].abs() {
                        (p, q) = (i, j);
                    }
                }
            }
            for j in 0..size {
                a.swap(k * size + j, p * size + j);
            }
            for i in 0..size {
                a.swap(i * size + k, i * size + q);
            }
            sign *= if (p == k) == (q == k) { 1.0 } else { -1.0 };
            let pivot = a[k * size + k];
            found.push(pivot);
            if pivot == 0.0 {
                continue;
            }
            for i in k + 1..size {
                let factor = a[i * size + k] / pivot;
                for j in k..size {
                    a[i * size + j] -= factor * a[k * size + j];
                }
            }
        }
        (sign, found)
    }

    /// The determinant.
    pub fn determinant(&self) -> f64 {
        let (sign, pivots) = self.pivots();
        pivots.iter().fold(sign, |product, pivot| product * pivot)
    }

    /// The sign of the determinant, and the logarithm of its magnitude.
    pub fn log_determinant(&self) -> (f64, f64) {
        let (sign, pivots) = self.pivots();
        pivots.iter().fold((sign, 0.0), |(sign, log), pivot| (sign * pivot.signum(), log + pivot.abs().ln()))
    }

    /// About the condition number: the ratio of the extreme pivots of complete pivoting, which reveal the rank.
    pub fn condition(&self) -> f64 {
        let (_, pivots) = self.pivots();
        let sizes = pivots.iter().map(|pivot| pivot.abs());
        let (least, most) = sizes.fold((f64::INFINITY, 0.0_f64), |(a, b), size| (a.min(size), b.max(size)));
        if pivots.is_empty() { 1.0 } else { most / least }
    }
}
