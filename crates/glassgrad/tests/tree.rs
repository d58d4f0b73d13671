//! Trees: structures of tensors as vector spaces with named leaves.

use std::collections::{BTreeMap, HashMap};

use glassgrad::rng::Key;
use glassgrad::tree::{Branch, Definition, Path, Tree};
use glassgrad::{Tensor, Tree, grad, hvp, jvp, value_and_grad, vmap};

#[derive(Clone, Debug, PartialEq, Hash)]
enum Activation {
    Tanh,
    Relu,
}

#[derive(Clone, Tree)]
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

#[derive(Clone, Tree)]
struct Pair(Tensor, Linear);

#[derive(Clone, Debug, PartialEq, Tree)]
struct Nothing;

#[derive(Clone, Tree)]
struct Network {
    layers: Vec<Linear>,
    #[tree(static)]
    activation: Activation,
    scale: Box<Tensor>,
    r#type: Nothing,
}

#[derive(Clone, Tree)]
enum Shape {
    Circle { radius: Tensor },
    Box(Tensor, Tensor),
    Point,
}

#[derive(Clone, Tree)]
struct Ensemble<M, const N: usize> {
    members: [M; N],
    mixture: Tensor,
}

#[derive(Clone, Tree)]
struct Bounded<M: Clone>
where
    M: std::fmt::Debug,
{
    inner: M,
}

/// A type without any tree in it, and a parameter that is none.
#[derive(Clone, Debug, PartialEq, Hash)]
struct Label(&'static str);

#[derive(Tree)]
struct Tagged<M, L> {
    model: M,
    #[tree(static)]
    labels: Vec<L>,
}

#[derive(Tree)]
enum Impossible {}

fn linear() -> Linear {
    Linear { weight: Tensor::from([[1.0, 2.0], [3.0, 4.0]]), bias: Some(Tensor::from([5.0, 6.0])) }
}

fn network() -> Network {
    Network {
        layers: vec![linear(), Linear { bias: None, ..linear() }],
        activation: Activation::Tanh,
        scale: Box::new(Tensor::from(7.0)),
        r#type: Nothing,
    }
}

fn paths(tree: &impl glassgrad::tree::Tree) -> Vec<String> {
    tree.leaves().iter().map(|(path, _)| path.to_string()).collect()
}

fn numbers(tree: &impl glassgrad::tree::Tree) -> Vec<f64> {
    tree.flatten().iter().flat_map(|leaf| leaf.to_f64_vec().expect("numbers")).collect()
}

// ------------------------------------------------------------------ structure

#[test]
fn leaves_are_named_by_their_fields() {
    assert_eq!(paths(&linear()), ["weight", "bias"]);
    assert_eq!(paths(&Pair(Tensor::from(1.0), linear())), ["0", "1.weight", "1.bias"]);
    assert_eq!(
        paths(&network()),
        ["layers.0.weight", "layers.0.bias", "layers.1.weight", "scale"],
        "an absent option and a unit struct have no leaves, a box no name, and a static field is none"
    );
    assert!(paths(&Nothing).is_empty() && paths(&()).is_empty());
    assert_eq!(paths(&Shape::Circle { radius: Tensor::from(1.0) }), ["radius"]);
    assert_eq!(paths(&Shape::Box(Tensor::from(1.0), Tensor::from(2.0))), ["0", "1"]);
    assert!(paths(&Shape::Point).is_empty());
    let ensemble = Ensemble { members: [linear(), linear()], mixture: Tensor::from([0.5, 0.5]) };
    assert_eq!(
        paths(&ensemble),
        ["members.0.weight", "members.0.bias", "members.1.weight", "members.1.bias", "mixture"]
    );
    assert_eq!(paths(&Bounded { inner: Tensor::from(1.0) }), ["inner"]);
    assert_eq!(paths(&Tensor::from(1.0)), [""]);
}

#[test]
fn what_only_static_fields_use_need_not_be_a_tree() {
    let tagged = Tagged { model: linear(), labels: vec![Label("cat")] };
    assert_eq!(paths(&tagged), ["model.weight", "model.bias"]);
    assert_eq!(tagged.scale(2.0).labels, [Label("cat")]);
    let none: Option<Impossible> = None;
    assert!(paths(&none).is_empty());
}

#[test]
fn containers_are_trees() {
    let x = |number: f64| Tensor::from(number);
    assert_eq!(paths(&(x(1.0), [x(2.0), x(3.0)], vec![Some(x(4.0)), None])), ["0", "1.0", "1.1", "2.0"]);
    assert_eq!(paths(&(x(0.0), x(0.0), x(0.0), x(0.0), x(0.0), x(0.0))), ["0", "1", "2", "3", "4", "5"]);
    let sorted = BTreeMap::from([("b", x(2.0)), ("a", x(1.0))]);
    assert_eq!((paths(&sorted), numbers(&sorted)), (vec!["a".to_owned(), "b".to_owned()], vec![1.0, 2.0]));
    let nested = BTreeMap::from([(1, (x(1.0), x(2.0)))]);
    assert_eq!(paths(&nested), ["1.0", "1.1"]);
}

#[test]
fn leaves_of_a_hash_map_are_sorted() {
    // Two maps of the same entries iterate in different orders; as trees they are the same.
    let entries = |reverse: bool| -> HashMap<usize, Tensor> {
        let keys: Vec<usize> = if reverse { (0..100).rev().collect() } else { (0..100).collect() };
        keys.into_iter().map(|key| (key, Tensor::from(key as f64))).collect()
    };
    let (forward, backward) = (entries(false), entries(true));
    assert_eq!(numbers(&forward), (0..100).map(f64::from).collect::<Vec<_>>());
    assert_eq!(paths(&forward), paths(&backward));
    let sum = forward.add(&backward);
    assert!((0..100).all(|key| sum[&key].item().expect("a number") == 2.0 * key as f64));
    let back = backward.with_leaves(forward.flatten());
    assert!((0..100).all(|key| back[&key].item().expect("a number") == key as f64));
}

#[test]
fn paths_know_their_prefixes() {
    let path = Path::default().child("layers").child(10).child("weight");
    assert_eq!(path.to_string(), "layers.10.weight");
    assert!(path.starts_with("layers") && path.starts_with("layers.10") && path.starts_with(""));
    assert!(path.starts_with("layers.10.weight") && !path.starts_with("layers.1") && !path.starts_with("weight"));
}

#[test]
fn flattening_and_putting_leaves_back_changes_nothing() {
    let network = network();
    let again = network.with_leaves(network.flatten());
    assert_eq!((paths(&again), numbers(&again)), (paths(&network), numbers(&network)));
    assert_eq!(again.activation, Activation::Tanh);
    assert!(again.layers[1].bias.is_none());
    let relu = Network { activation: Activation::Relu, ..network.clone() };
    assert_eq!(relu.scale(2.0).activation, Activation::Relu, "static fields are cloned");
    // Missing leaves stay.
    let first = network.with_leaves(vec![Tensor::from([[0.0]])]);
    assert_eq!(first.layers[0].weight.to_string(), "[[0]]");
    assert_eq!(first.scale.item().expect("a number"), 7.0);
    let circle = Shape::Circle { radius: Tensor::from(2.0) }.map(|leaf| leaf * 3.0);
    let Shape::Circle { radius } = circle else { panic!("the variant stays") };
    assert_eq!(radius.item().expect("a number"), 6.0);
    assert_eq!(Nothing.map(Tensor::clone), Nothing);
}

#[test]
fn leaves_are_visited_and_rebuilt_in_one_order() {
    let network = network();
    let mut seen = Vec::new();
    let _ = network.map_with_path(|path, leaf| {
        seen.push(path.to_string());
        leaf.clone()
    });
    assert_eq!(seen, paths(&network));
}

/// A tree by hand that says only what it must.
struct ByHand<T>(T);

impl<T: Tree> Tree for ByHand<T> {
    fn visit(&self, branch: &Branch<'_>, visitor: &mut dyn FnMut(&Branch<'_>, &Tensor)) {
        self.0.visit(branch, visitor);
    }
    fn rebuild(&self, branch: &Branch<'_>, leaf: &mut dyn FnMut(&Branch<'_>, &Tensor) -> Tensor) -> Self {
        ByHand(self.0.rebuild(branch, leaf))
    }
    fn define(&self, definition: &mut Definition) {
        self.0.define(definition);
    }
}

#[test]
fn leaves_are_replaced_where_they_stand_in_the_same_order() {
    fn check<T: Tree>(mut tree: T, what: &str) {
        let expected: Vec<String> = paths(&tree);
        let mut seen = Vec::new();
        tree.visit_mut(&Branch::root(), &mut |branch, leaf| {
            seen.push(branch.path().to_string());
            *leaf = Tensor::from(seen.len() as f64);
        });
        assert!(!seen.is_empty(), "{what}");
        assert_eq!(seen, expected, "{what}");
        let numbers: Vec<f64> = tree.flatten().iter().map(|leaf| leaf.item().unwrap()).collect();
        assert_eq!(numbers, (1..=seen.len()).map(|k| k as f64).collect::<Vec<_>>(), "{what}");
    }
    let leaf = || Tensor::from([1.0, 2.0]);
    check(network(), "a struct");
    check(ByHand(network()), "by hand");
    check((leaf(), [leaf(), leaf()], vec![Box::new(leaf())], Some(leaf()), None::<Tensor>), "containers");
    check(BTreeMap::from([(10, leaf()), (9, leaf())]), "a map");
    check((0..20).map(|key| (key, leaf())).collect::<HashMap<_, _>>(), "a hash map");
    check((glassgrad::expr::Keys::from(Key::new(1)), ()), "keys");
}

/// Everything that is no tensor, and none of the tensors, is in the definition.
#[test]
fn definitions_distinguish_structures() {
    #[derive(Clone, Tree)]
    enum Kind {
        First(Tensor),
        Second(Tensor),
    }
    #[derive(Clone, Tree)]
    struct Options {
        x: Tensor,
        #[tree(static)]
        rate: f64,
        #[tree(static)]
        rates: (Option<f32>, Vec<[f64; 2]>),
        #[tree(static)]
        name: &'static str,
        #[tree(static)]
        boxed: Box<f64>,
    }
    fn of(tree: &impl Tree) -> u128 {
        Definition::of(tree).finish()
    }
    let (x, y) = (|| Tensor::from([1.0]), || Tensor::from([[2.0, 3.0]]));
    assert_eq!(of(&(x(), x())), of(&(y(), x())), "leaves are not part of it");
    assert_ne!(of(&Kind::First(x())), of(&Kind::Second(x())));
    assert_ne!(of(&(vec![x()], vec![x(), x()])), of(&(vec![x(), x()], vec![x()])));
    assert_ne!(of(&(Some(x()), None::<Tensor>)), of(&(None::<Tensor>, Some(x()))));
    assert_ne!(of(&BTreeMap::from([("a", x())])), of(&BTreeMap::from([("b", x())])));
    assert_ne!(of(&HashMap::from([(1, x())])), of(&HashMap::from([(2, x())])));
    let options =
        || Options { x: x(), rate: 0.5, rates: (Some(1.0), vec![[1.0, 2.0]]), name: "a", boxed: Box::new(1.0) };
    assert_eq!(of(&options()), of(&Options { x: y(), ..options() }));
    for (number, other) in [
        Options { rate: 0.25, ..options() },
        Options { rate: -0.5, ..options() },
        Options { rates: (None, vec![[1.0, 2.0]]), ..options() },
        Options { rates: (Some(1.0), vec![[1.0, 3.0]]), ..options() },
        Options { rates: (Some(1.0), vec![]), ..options() },
        Options { name: "b", ..options() },
        Options { boxed: Box::new(2.0), ..options() },
    ]
    .iter()
    .enumerate()
    {
        assert_ne!(of(&options()), of(other), "{number}");
    }
}

// ------------------------------------------------------------------ vector space

#[test]
fn trees_are_vectors() {
    let a = (Tensor::from([1.0, 2.0]), vec![Tensor::from(3.0)]);
    let b = (Tensor::from([10.0, 20.0]), vec![Tensor::from(30.0)]);
    assert_eq!(numbers(&a.add(&b)), [11.0, 22.0, 33.0]);
    assert_eq!(numbers(&a.scale(-2.0)), [-2.0, -4.0, -6.0]);
    assert_eq!(numbers(&a.zip(&b, |a, b| b - a)), [9.0, 18.0, 27.0]);
    assert_eq!(a.inner_product(&b).item().expect("a number"), 140.0);
    assert_eq!(numbers(&a.zeros_like()), [0.0; 3]);
    assert_eq!(numbers(&a.map(Tensor::square)), [1.0, 4.0, 9.0]);
    assert_eq!(a.element_count(), 3);
    assert_eq!(network().element_count(), 11);
    // Every leaf has its own type.
    let mixed = (Tensor::from([1.0_f32]), Tensor::from([1.0_f64]));
    assert_eq!(numbers(&mixed.scale(0.5).add(&mixed.zeros_like())), [0.5, 0.5]);
}

#[test]
fn random_trees_depend_on_the_key_alone() {
    let tree = (Tensor::from([0.0_f32; 50]), Tensor::from([0.0_f64; 50]));
    let draw = |seed: u64| numbers(&tree.random_like(Key::new(seed)));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let one = tree.random_like(Key::new(1));
    assert_ne!(one.0.to_f64_vec().expect("numbers"), one.1.to_f64_vec().expect("numbers"), "leaves differ");
    assert_eq!((one.0.dtype(), one.1.dtype()), (tree.0.dtype(), tree.1.dtype()));
    assert!(draw(3).iter().all(|number| number.abs() < 6.0));
}

#[test]
fn parts_of_a_partition_add_up() {
    let network = network();
    let (first, rest) = network.partition(|path| path.starts_with("layers.0"));
    assert_eq!(numbers(&first), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(numbers(&first.add(&rest)), numbers(&network));
    assert_eq!(first.inner_product(&rest).item().expect("a number"), 0.0);
}

#[test]
fn realised_trees_have_values_and_no_history() {
    let x = Tensor::from([1.0, 2.0]).variable();
    let tree = (x.exp(), vec![x.exp().sum()]);
    let real = tree.realise().expect("values");
    assert!(real.flatten().iter().all(|leaf| leaf.inputs().is_empty() && format!("{leaf:?}").contains(" = ")));
    assert_eq!(numbers(&real), numbers(&tree));
    let failed = (Tensor::from(1.0), Tensor::from([1.0, 2.0]).reshape([3]));
    let error = failed.realise().expect_err("one leaf failed");
    assert_eq!(error.operation(), "reshape");
}

// ------------------------------------------------------------------ derivatives

#[test]
fn the_gradient_of_a_dictionary_is_a_dictionary() {
    let square = |p: &HashMap<&str, Tensor>| p["x"].square();
    let slope = grad(square)(&HashMap::from([("x", Tensor::from(3.0))]));
    assert_eq!(slope.len(), 1);
    assert_eq!(slope["x"].item().expect("a slope"), 6.0);
    let sorted =
        grad(|p: &BTreeMap<String, Tensor>| p["x"].square())(&BTreeMap::from([("x".to_owned(), Tensor::from(3.0))]));
    assert_eq!(sorted["x"].item().expect("a slope"), 6.0);
}

/// A number that depends on every leaf: x W₀ + b₀, then tanh, then W₁, then the scale.
fn output(network: &Network) -> Tensor {
    let mut x = Tensor::from([0.1, -0.2]);
    for layer in &network.layers {
        x = x.matmul(&layer.weight);
        if let Some(bias) = &layer.bias {
            x += bias * 0.1;
        }
        x = match network.activation {
            Activation::Tanh => x.tanh(),
            Activation::Relu => x.relu(),
        };
    }
    (x * &*network.scale).sum()
}

#[test]
fn the_gradient_of_a_struct_is_that_struct() {
    let network = network();
    let (value, slope) = value_and_grad(output)(&network);
    assert_eq!((paths(&slope), slope.activation.clone()), (paths(&network), Activation::Tanh));
    // The output is linear in the scale.
    let (value, by_scale) = (value.item().expect("a value"), slope.scale.item().expect("a slope"));
    assert!((value - 7.0 * by_scale).abs() < 1e-14);
    // Central differences along a random direction, and forward mode along it.
    let direction = network.random_like(Key::new(5));
    let along = slope.inner_product(&direction).item().expect("a slope");
    let at = |h: f64| output(&network.add(&direction.scale(h))).item().expect("a value");
    let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
    assert!((along - difference).abs() < 1e-7 * along.abs().max(1.0), "{along} against {difference}");
    let forward = jvp(output, &network, &direction).1.item().expect("a slope");
    assert!((along - forward).abs() < 1e-13 * along.abs().max(1.0), "{along} against {forward}");
}

#[test]
fn frozen_leaves_have_a_zero_gradient() {
    let network = network();
    let all = grad(output)(&network);
    let some = grad(|network: &Network| output(&network.freeze_except(|path| path.starts_with("layers.0"))))(&network);
    assert_eq!(numbers(&some.layers[0]), numbers(&all.layers[0]));
    assert!(numbers(&some.layers[1]).iter().chain(&numbers(&*some.scale)).all(|slope| *slope == 0.0));
    assert!(numbers(&all.layers[1]).iter().any(|slope| *slope != 0.0));
    let frozen = network.freeze_except(|_| false);
    assert_eq!(numbers(&frozen), numbers(&network), "freezing changes no value");
}

#[test]
fn an_enum_is_differentiated_by_its_variant() {
    let area = |shape: &Shape| match shape {
        Shape::Circle { radius } => radius.square() * std::f64::consts::PI,
        Shape::Box(width, height) => width * height,
        Shape::Point => Tensor::from(0.0),
    };
    let Shape::Box(by_width, by_height) = grad(area)(&Shape::Box(Tensor::from(2.0), Tensor::from(3.0))) else {
        panic!("the variant stays")
    };
    assert_eq!((by_width.item(), by_height.item()), (Ok(3.0), Ok(2.0)));
    assert!(matches!(grad(area)(&Shape::Point), Shape::Point));
    let Shape::Circle { radius } = grad(area)(&Shape::Circle { radius: Tensor::from(2.0) }) else {
        panic!("the variant stays")
    };
    assert_eq!(radius.item(), Ok(4.0 * std::f64::consts::PI));
}

#[test]
fn integers_in_a_tree_have_a_zero_gradient() {
    let tree = (Tensor::from([2.0, 3.0]), Tensor::from([1_i64, 0]));
    let slope = grad(|tree: &(Tensor, Tensor)| tree.0.take(&tree.1, 0).square().sum())(&tree);
    assert_eq!(numbers(&slope), [4.0, 6.0, 0.0, 0.0]);
    assert_eq!(slope.1.dtype(), tree.1.dtype());
}

#[test]
fn curvature_and_batches_of_trees() {
    // f = x² y: the Hessian times (1, 0) is (2y, 2x).
    let f = |p: &(Tensor, Tensor)| (p.0.square() * &p.1).sum();
    let (x, y) = (Tensor::from(3.0), Tensor::from(5.0));
    let curved = hvp(f, &(x, y), &(Tensor::from(1.0), Tensor::from(0.0)));
    assert_eq!(numbers(&curved), [10.0, 6.0]);
    let batch = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 4.0]));
    let slopes = vmap(grad(f))(&batch);
    assert_eq!(numbers(&slopes), [6.0, 16.0, 1.0, 4.0]);
}

// ------------------------------------------------------------------ the derive macro refuses

#[test]
fn what_cannot_be_a_tree_is_refused_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/derive/*.rs");
}
