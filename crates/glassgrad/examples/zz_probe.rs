#![allow(missing_docs)]
use glassgrad::operations::Pooling;
use glassgrad::{Tensor, grad};
fn main() {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let show = |y: &Tensor| {
        let right = y.eval_by_reference().unwrap();
        println!("{}", y.program().unwrap());
        println!("{}\n{}", y, right);
    };
    show(&x.flip(&[0]).cumsum(0));
    let x = Tensor::from([[1.0, 1.0], [0.0, 1.0]]);
    show(&grad(|x: &Tensor| x.max_pool2d(Pooling::new(2)).sum())(&x));
}
