//! Operations of the user's own: one rule of any kind gives every derivative.

use glassgrad::array::{Array, Buffer};
use glassgrad::dtype::DType;
use glassgrad::expr::{CustomOp, Rule};
use glassgrad::shape::Shape;
use glassgrad::{Tensor, grad, hessian, jacobian, jvp, vmap};

/// a³·b element by element, differentiated in a way of choice.
#[derive(Clone, Copy, Debug)]
enum CubeTimes {
    Pullback,
    Pushforward,
    Formula,
}

impl CustomOp for CubeTimes {
    fn name(&self) -> &str {
        "cube_times"
    }
    fn output(&self, inputs: &[&Tensor]) -> Result<(Shape, DType), String> {
        match inputs {
            [a, b] if a.shape() == b.shape() => Ok((a.shape().clone(), a.dtype())),
            _ => Err("two tensors of one shape are needed".to_owned()),
        }
    }
    fn value(&self, inputs: &[Array]) -> Result<Array, String> {
        let [a, b] = [0, 1].map(|k| inputs[k].buffer());
        let buffer = Buffer::from_fn(inputs[0].dtype(), a.len(), |k| a.get(k).powi(3) * b.get(k));
        Ok(Array::new(inputs[0].shape().clone(), buffer))
    }
    fn rule<'r>(&self, inputs: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        let (a, b) = (&inputs[0], &inputs[1]);
        match self {
            CubeTimes::Pullback => {
                Rule::Pullback(Box::new(move |g| vec![Some(g * a.square() * b * 3.0), Some(g * a.powi(3))]))
            }
            CubeTimes::Pushforward => Rule::Pushforward(Box::new(move |moved| {
                let first = moved[0].as_ref().map(|da| da * a.square() * b * 3.0);
                let second = moved[1].as_ref().map(|db| db * a.powi(3));
                first.into_iter().chain(second).sum()
            })),
            CubeTimes::Formula => Rule::Formula(Box::new(|inputs| inputs[0].powi(3) * &inputs[1])),
        }
    }
}

fn plain(a: &Tensor, b: &Tensor) -> Tensor {
    a.powi(3) * b
}

fn assert_same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_f64_vec().unwrap(), b.to_f64_vec().unwrap());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs().max(1.0)), "{a:?}\n{b:?}");
}

#[test]
fn every_kind_of_rule_gives_every_derivative() {
    let pair = (Tensor::from([0.5, -1.5, 2.0]), Tensor::from([1.0, 3.0, -0.7]));
    let direction = (Tensor::from([1.0, 0.2, -2.0]), Tensor::from([0.1, 0.0, 1.0]));
    for kind in [CubeTimes::Pullback, CubeTimes::Pushforward, CubeTimes::Formula] {
        let own = |a: &Tensor, b: &Tensor| Tensor::custom(kind, &[a, b]);
        assert_same(&own(&pair.0, &pair.1), &plain(&pair.0, &pair.1));
        let slopes = grad(|p: &(Tensor, Tensor)| own(&p.0, &p.1).sin().sum())(&pair);
        let exact = grad(|p: &(Tensor, Tensor)| plain(&p.0, &p.1).sin().sum())(&pair);
        assert_same(&slopes.0, &exact.0);
        assert_same(&slopes.1, &exact.1);
        let along =
            |f: &dyn Fn(&Tensor, &Tensor) -> Tensor| jvp(|p: &(Tensor, Tensor)| f(&p.0, &p.1), &pair, &direction).1;
        assert_same(&along(&own), &along(&plain));
        let curved = |f: &dyn Fn(&Tensor, &Tensor) -> Tensor| hessian(|a: &Tensor| f(a, &pair.1).sin().sum())(&pair.0);
        assert_same(&curved(&own), &curved(&plain));
        let whole = |f: &dyn Fn(&Tensor, &Tensor) -> Tensor| jacobian(|b: &Tensor| f(&pair.0, b).exp())(&pair.1);
        assert_same(&whole(&own), &whole(&plain));
        let stacked = Tensor::stack([&pair.0, &pair.1], 0);
        let many = |f: &dyn Fn(&Tensor, &Tensor) -> Tensor| vmap(grad(|a: &Tensor| f(a, &pair.1).sum()))(&stacked);
        assert_same(&many(&own), &many(&plain));
    }
}

/// An operation that breaks its promise about the shape.
#[derive(Debug)]
struct Liar;

impl CustomOp for Liar {
    fn name(&self) -> &str {
        "liar"
    }
    fn output(&self, _: &[&Tensor]) -> Result<(Shape, DType), String> {
        Ok((Shape::from([2]), DType::F64))
    }
    fn value(&self, _: &[Array]) -> Result<Array, String> {
        Ok(Array::new(Shape::from([1]), Buffer::F64(vec![0.0])))
    }
    fn rule<'r>(&self, _: &'r [Tensor], _: &'r Tensor) -> Rule<'r> {
        Rule::Formula(Box::new(|inputs| inputs[0].clone()))
    }
}

#[test]
fn broken_promises_are_errors() {
    let x = Tensor::from([1.0, 2.0]);
    let error = Tensor::custom(CubeTimes::Formula, &[&x]).eval().unwrap_err().to_string();
    assert!(error.starts_with("cube_times: two tensors of one shape are needed\n  operands: f64[2]\n  at "), "{error}");
    let error = Tensor::custom(Liar, &[&x]).eval().unwrap_err().to_string();
    assert!(error.starts_with("liar: it promised f64[2] and made f64[1]"), "{error}");
}
