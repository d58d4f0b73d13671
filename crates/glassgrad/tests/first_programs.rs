//! Thirty first programs, as people who come from NumPy, PyTorch and JAX write them. Each is what one types without reading
//! further than the front page: literals without suffixes, data of 64 bits beside layers of 32, negative axes, lists of
//! tensors by value. They compile and run unchanged.

use glassgrad::dtype::DType;
use glassgrad::nn::{Activation, Conv2d, Embedding, Flatten, Linear, Lstm, MaxPool, Mlp, Recurrent};
use glassgrad::operations::{Attention, Convolution};
use glassgrad::optim::Optimizer;
use glassgrad::prelude::*;
use glassgrad::{cond, fori_loop, loss, while_loop};

/// The only element.
fn number(tensor: &Tensor) -> f64 {
    tensor.item().unwrap()
}

mod numpy {
    use super::*;

    #[test]
    fn arithmetic_of_created_and_given_arrays() {
        let x = Tensor::from([1.0, 2.0, 3.0]);
        let y = Tensor::ones(3) + &x * 2.0 - Tensor::zeros(3);
        assert_eq!(y.to_string(), "[3, 5, 7]");
    }

    #[test]
    fn mean_and_deviation_of_columns() {
        let data = Tensor::from([[1.0, 2.0], [3.0, 6.0]]);
        let standardised = (&data - data.mean_over(0)) / data.std_over(0);
        assert_eq!(standardised.to_string(), "[[-1, -1],\n [ 1,  1]]");
    }

    #[test]
    fn integers_divide_to_fractions() {
        let counts = Tensor::from([1, 2, 1]);
        let shares = &counts / counts.sum();
        assert_eq!(shares.to_string(), "[0.25,  0.5, 0.25]");
    }

    #[test]
    fn a_boolean_mask_multiplies_and_counts() {
        let x = Tensor::from([-1.0, 2.0, 3.0]);
        let positive = x.gt(0.0);
        assert_eq!((&x * &positive).to_string(), "[-0,  2,  3]");
        assert_eq!((number(&positive.sum()), number(&x.masked(&positive).mean())), (2.0, 2.5));
    }

    #[test]
    fn reshape_with_an_unknown_size() {
        let x = Tensor::arange(12.0).reshape([3, -1]);
        assert_eq!(x.shape().to_vec(), [3, 4]);
        let rows = x.shape()[0];
        assert_eq!(x.reshape((rows, 2, -1)).sum_over([0, -1]).to_string(), "[27, 39]");
    }

    #[test]
    fn a_matrix_and_its_inverse_image() {
        let a = Tensor::eye(2) * 2.0 + Tensor::from([[0.0, 1.0], [0.0, 0.0]]);
        let b = a.matmul(&Tensor::from([1.0, 2.0]));
        assert_eq!((b.to_string(), b.dtype()), ("[4, 4]".into(), DType::F64));
    }

    #[test]
    fn stacks_of_a_list() {
        let rows: Vec<Tensor> = (0..3).map(|k| Tensor::full(2, k, DType::F32)).collect();
        let whole = Tensor::stack(&rows, 0);
        let joined = Tensor::concatenate(rows.iter().map(|row| row * 10), -1);
        assert_eq!(
            (whole.to_string(), joined.to_string()),
            ("[[0, 0],\n [1, 1],\n [2, 2]]".into(), "[ 0,  0, 10, 10, 20, 20]".into())
        );
    }

    #[test]
    fn batched_products_with_an_ellipsis() {
        let (a, b) = (Tensor::ones([5, 2, 3]), Tensor::from([[1.0, 2.0, 3.0]]));
        let c = Tensor::einsum("...ij,...kj->...ik", [&a, &b]);
        assert_eq!((c.shape().to_vec(), number(&c.max())), (vec![5, 2, 1], 6.0));
    }

    #[test]
    fn a_histogram_and_the_place_of_its_mode() {
        let draws = Tensor::normal(Key::new(1), 1000);
        let counts = draws.histogram(7, -3.5, 3.5);
        assert_eq!(counts.argmax(0).to_vec::<i64>().unwrap(), [3]);
    }

    #[test]
    fn sorting_and_choosing_by_index() {
        let scores = Tensor::from([0.3, 0.9, 0.5]);
        let order = scores.argsort(-1);
        assert_eq!(scores.take(&order, 0).to_string(), "[0.3, 0.5, 0.9]");
        let last = scores.shape()[0] - 1;
        assert_eq!(number(&scores.slice(&[s(last)])), 0.5);
    }
}

mod pytorch {
    use super::*;

    #[test]
    fn backward_through_variables() {
        let w = Tensor::from([1.0, 2.0]).variable();
        let b = Tensor::zeros(()).variable();
        let x = Tensor::from([3.0, 4.0]);
        let error = ((&w * &x).sum() + &b - 10.0).square();
        let gradients = error.backward();
        assert_eq!(gradients.of(&w).to_string(), "[6, 8]");
        assert_eq!((gradients.of(&b).dtype(), number(&gradients.of(&b))), (DType::F32, 2.0));
    }

    #[test]
    fn linear_regression_of_64_bit_data() {
        let x = Tensor::linspace(-1.0, 1.0, 50).unsqueeze(-1);
        let y = &x * 3.0 + 0.5;
        let mut model = Linear::new(Key::new(0), 1, 1);
        let optimizer = Optimizer::sgd(0.3);
        let mut state = optimizer.init(&model);
        for _ in 0..200 {
            let gradient = grad(|model: &Linear| loss::mse(&model.apply(&x), &y).mean())(&model);
            (model, state) = optimizer.update(&model, &gradient, &state);
        }
        assert!((number(&model.weight) - 3.0).abs() < 1e-4);
        assert_eq!(model.weight.dtype(), DType::F32);
    }

    #[test]
    fn a_classifier_and_its_accuracy() {
        let (key, noise) = Key::new(3).split();
        let labels = Tensor::from((0..90).map(|k| k % 3).collect::<Vec<i64>>());
        let centres = Tensor::from([[0.0, 2.0], [2.0, 0.0], [-2.0, -2.0]]);
        let points = centres.take(&labels, 0) + Tensor::normal(noise, [90, 2]) * 0.3;
        let mut model = Mlp::new(key, &[2, 16, 3], Activation::Relu);
        let optimizer = Optimizer::adam(0.02);
        let mut state = optimizer.init(&model);
        for _ in 0..100 {
            let objective = |model: &Mlp| loss::cross_entropy(&model.apply(&points), &labels).mean();
            let (_, gradient) = value_and_grad(objective)(&model);
            (model, state) = optimizer.update(&model, &gradient, &state);
        }
        let accuracy = model.apply(&points).argmax(-1).equal(&labels).mean();
        assert!(number(&accuracy) > 0.95);
    }

    #[test]
    fn a_convolutional_network_on_random_images() {
        let key = Key::new(1);
        let images = Tensor::uniform(key.fold(0), [4, 1, 8, 8]);
        let network = (
            Conv2d::new(key.fold(1), 1, 3, 3, Convolution::default()),
            Activation::Relu,
            MaxPool::<2>::new(2),
            Flatten(3),
            Linear::new(key.fold(2), 27, 10),
        );
        let logits = network.apply(&images);
        assert_eq!(logits.shape().to_vec(), [4, 10]);
        assert!((number(&logits.softmax(-1).sum()) - 4.0).abs() < 1e-5);
    }

    #[test]
    fn an_embedding_and_a_recurrent_layer() {
        let key = Key::new(1);
        let words = Tensor::from([[1, 4, 2], [0, 3, 3]]);
        let vectors = Embedding::new(key.fold(0), 5, 8).apply(&words);
        let states = Recurrent::new(Lstm::new(key.fold(1), 8, 6)).apply(&vectors);
        assert_eq!(states.shape().to_vec(), [2, 3, 6]);
    }

    #[test]
    fn clipping_and_masked_filling() {
        let scores = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
        let causal = scores.ones_like().tril(0).equal(0.0);
        let weights = scores.masked_fill(&causal, f64::NEG_INFINITY).softmax(-1);
        assert_eq!(weights.slice(&[s(0)]).to_string(), "[1, 0]");
        assert_eq!(scores.clip_max(2.5).clip_min(1.5).to_string(), "[[1.5,   2],\n [2.5, 2.5]]");
    }

    #[test]
    fn gather_of_the_right_class() {
        let log_probabilities = Tensor::from([[0.1, 0.9], [0.6, 0.4]]).ln();
        let targets = Tensor::from([1, 0]);
        let picked = log_probabilities.take_along(&targets.unsqueeze(1), 1).squeeze(1);
        assert!((number(&picked.exp().sum()) - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_module_of_ones_own() {
        #[derive(Clone, Debug, Tree)]
        struct Residual {
            first: Linear,
            second: Linear,
            #[tree(static)]
            scale: f64,
        }
        impl Layer for Residual {
            fn apply(&self, x: &Tensor) -> Tensor {
                x + self.second.apply(&self.first.apply(x).relu()) * self.scale
            }
        }
        let block =
            Residual { first: Linear::new(Key::new(1), 4, 8), second: Linear::new(Key::new(2), 8, 4), scale: 0.5 };
        let gradient = grad(|block: &Residual| block.apply(&Tensor::ones([2, 4])).sum())(&block);
        assert_eq!(gradient.first.weight.shape().to_vec(), [4, 8]);
        assert_eq!(block.cast(DType::F64).second.weight.dtype(), DType::F64);
    }

    #[test]
    fn attention_with_heads() {
        let (q, k, v) = (
            Tensor::normal(Key::new(1), [2, 4, 6, 8]),
            Tensor::normal(Key::new(2), [2, 4, 6, 8]),
            Tensor::ones([2, 4, 6, 8]),
        );
        let mixed = q.scaled_dot_product_attention(&k, &v, &Attention::default().causal());
        assert!((mixed - 1).abs().lt(1e-5).all().to_vec::<bool>().unwrap()[0]);
    }

    #[test]
    fn an_error_names_the_shapes_and_the_line() {
        let x = Tensor::zeros([32, 784]);
        let error = x.matmul(&Tensor::zeros([10, 784])).eval().unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("784 columns meet 10 rows") && text.contains("first_programs.rs"), "{text}");
    }
}

mod jax {
    use super::*;

    fn predict((w, b): &(Tensor, Tensor), x: &Tensor) -> Tensor {
        (x.matmul(w) + b).sigmoid()
    }

    #[test]
    fn logistic_regression_with_grad_and_jit() {
        let x = Tensor::from([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]]);
        let y = Tensor::from([true, true, false, true]);
        let objective = |p: &(Tensor, Tensor)| {
            let predicted = predict(p, &x);
            let likelihood = &predicted * &y + (1 - &predicted) * y.not();
            -likelihood.ln().sum()
        };
        let step = jit(|p: &(Tensor, Tensor)| {
            let (dw, db) = grad(objective)(p);
            (&p.0 - 0.1 * dw, &p.1 - 0.1 * db)
        });
        let mut parameters = (Tensor::zeros(3), Tensor::zeros(()));
        let before = number(&objective(&parameters));
        for _ in 0..50 {
            parameters = step(&parameters);
        }
        assert!(number(&objective(&parameters)) < 0.5 * before);
        assert_eq!(parameters.0.dtype(), DType::F32);
    }

    #[test]
    fn gradients_of_gradients() {
        let f = |x: &Tensor| x.powi(3) + 2.0 * x.square() - 3.0 * x + 1.0;
        let x = Tensor::from(1.0);
        let (first, second) = (grad(f)(&x), grad(grad(f))(&x));
        assert_eq!((number(&first), number(&second)), (4.0, 10.0));
    }

    #[test]
    fn vmap_of_a_dot_product() {
        let w = Tensor::from([1.0, 2.0, 3.0]);
        let rows = Tensor::ones([4, 3]);
        let products = vmap(|row: &Tensor| row.inner(&w))(&rows);
        assert_eq!(products.to_string(), "[6, 6, 6, 6]");
    }

    #[test]
    fn jacobians_forwards_and_in_reverse() {
        let f = |x: &Tensor| x.sin() * x.sum();
        let x = Tensor::from([0.5, 1.0, 1.5]);
        assert!(jacfwd(f)(&x).all_close(jacrev(f)(&x), 1e-12, 0.0).to_vec::<bool>().unwrap()[0]);
        assert_eq!(hessian(|x: &Tensor| f(x).sum())(&x).shape().to_vec(), [3, 3]);
    }

    #[test]
    fn keys_are_split_and_give_the_same_numbers_again() {
        let (first, second) = Key::new(42).split();
        let (a, b) = (Tensor::normal(first, [3]), Tensor::normal(second, [3]));
        assert_eq!(a.to_string(), Tensor::normal(first, [3]).to_string());
        assert_ne!(a.to_string(), b.to_string());
    }

    #[test]
    fn scan_of_a_running_mean() {
        let step = |(sum, n): &(Tensor, Tensor), x: &Tensor| {
            let next = (sum + x, n + 1);
            let mean = &next.0 / &next.1;
            (next, mean)
        };
        let (_, means) = scan(step, &(Tensor::from(0.0), Tensor::from(0)), &Tensor::from([2.0, 4.0, 9.0]));
        assert_eq!(means.to_string(), "[2, 3, 5]");
    }

    #[test]
    fn loops_and_branches_of_values() {
        let factorial = fori_loop(1..6, |i: &Tensor, product: &Tensor| product * i, &Tensor::from(1));
        assert_eq!(factorial.to_vec::<i64>().unwrap(), [120]);
        let halved = while_loop(|x: &Tensor| x.gt(1.0), |x: &Tensor| x / 2, &Tensor::from(20.0));
        assert_eq!(number(&halved), 0.625);
        let safe = |x: &Tensor| cond(&x.gt(0.0), |x: &Tensor| x.ln(), |x: &Tensor| x.zeros_like(), x);
        assert_eq!(vmap(safe)(&Tensor::from([1.0, -1.0])).to_string(), "[0, 0]");
    }

    #[test]
    fn parameters_in_a_dictionary() {
        use std::collections::BTreeMap;
        let parameters: BTreeMap<String, Tensor> =
            [("w".to_owned(), Tensor::ones([3, 1])), ("b".to_owned(), Tensor::zeros(1))].into();
        let x = Tensor::from([[1.0, 2.0, 3.0]]);
        let gradient = grad(|p: &BTreeMap<String, Tensor>| (x.matmul(&p["w"]) + &p["b"]).sum())(&parameters);
        assert_eq!(gradient["w"].transpose().to_string(), "[[1, 2, 3]]");
        let updated = parameters.add(&gradient.scale(-0.5));
        assert_eq!(updated["b"].to_string(), "[-0.5]");
    }

    #[test]
    fn derivatives_along_a_direction() {
        let f = |x: &Tensor| x.exp().sum();
        let (x, v) = (Tensor::zeros(3), Tensor::from([1.0_f32, 2.0, 3.0]));
        let (value, tangent) = jvp(f, &x, &v);
        assert_eq!((number(&value), number(&tangent)), (3.0, 6.0));
        assert_eq!(hvp(f, &x, &v).to_string(), "[1, 2, 3]");
    }

    #[test]
    fn updates_at_indices() {
        let x = Tensor::zeros([3, 3]);
        let i = Tensor::from([0, 2]);
        let changed = x.with_at(&[&i], 1).add_at(&[&Tensor::from([0])], 5.0);
        assert_eq!(changed.sum_over(-1).to_string(), "[18,  0,  3]");
    }
}
