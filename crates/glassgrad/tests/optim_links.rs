//! Links state their formula once: the numbers of one weight are those of the tensors, for every link of the tables.

use glassgrad::Algebra as _;
use glassgrad::dtype::DType;
use glassgrad::formula::{Symbol, mathml};
use glassgrad::optim::{Link, MODIFIERS, OPTIMIZERS, Optimizer, Quantity, Rule, Schedule, Slot, Step};
use glassgrad::tree::Tree as _;
use glassgrad::{Tensor, rng::Key};

type Parameters = (Tensor, Tensor);

/// Each optimizer of the table alone, and with each modifier.
fn all() -> Vec<Optimizer> {
    let schedule = Schedule::Cosine { steps: 20, least: 0.1 };
    let mut optimizers = Vec::new();
    for row in &OPTIMIZERS {
        let build = || (row.build)(0.05, None).schedule(schedule.clone()).rate_factor("1", 0.3);
        let build = || if row.weight_decay > 0.0 { build().weight_decay(row.weight_decay) } else { build() };
        optimizers.push(build());
        optimizers.extend(MODIFIERS.iter().map(|(_, add)| add(build())));
    }
    optimizers
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    tensor.to_f64_vec().unwrap().iter().map(|number| number.to_bits()).collect()
}

/// The bits of a number that a tensor has computed in its type.
fn bits_of(number: f64) -> u64 {
    number.to_bits()
}

#[test]
fn the_numbers_of_one_weight_are_those_of_the_tensors() {
    for dtype in [DType::F32, DType::F64] {
        for optimizer in all() {
            let draw = |number: u64, shape: &[usize]| Tensor::normal(Key::new(number), shape).cast(dtype);
            let mut x: Parameters = (draw(1, &[3, 4]), draw(2, &[4])).realise().unwrap();
            let mut state = optimizer.init(&x);
            for number in 0..6_u64 {
                let gradient = (draw(10 + number, &[3, 4]) * 2.0, draw(20 + number, &[4])).realise().unwrap();
                let loss = Tensor::from(1.0 - 0.01 * (number / 3) as f64);
                let after = optimizer.update_with_loss(&x, &gradient, Some(&loss), &state);
                let (next, next_state) = after.realise().unwrap();
                let updates = optimizer.updates_by_link(&x, &gradient, Some(&loss), &state);
                for (path, place, index) in [("0", 7, vec![1, 3]), ("1", 2, vec![2])] {
                    let leaf = |tree: &Parameters| bits(if path == "0" { &tree.0 } else { &tree.1 })[place];
                    let step = optimizer.weight_step(&x, &gradient, Some(&loss), &state, path, &index).unwrap();
                    let explained = step.explain(|number| format!("{number:e}")).unwrap();
                    let about = format!("{:?}, {dtype}, step {number}, leaf {path}", optimizer.names());
                    assert_eq!(explained.iter().map(|link| link.name).collect::<Vec<_>>(), optimizer.names());
                    for (place, link) in explained.iter().enumerate() {
                        // The update after each link, the last line of its formula, and its slots.
                        assert_eq!(bits_of(link.update), leaf(&updates[place + 1].1), "{about}: {link:?}");
                        assert_eq!(bits_of(link.lines.last().unwrap().value), bits_of(link.update), "{about}");
                        for (slot, tree) in link.slots.iter().zip(&next_state.slots[place].leaves) {
                            assert_eq!(bits_of(slot.after), leaf(tree), "{about}: {slot:?}");
                        }
                        for line in &link.lines {
                            assert!(!mathml(&line.to_string()).starts_with("<math><mtext>"), "{about}: {line}");
                        }
                    }
                    let last = step.next(&step.inputs).item().unwrap();
                    assert_eq!(bits_of(last), leaf(&next), "{about}");
                    assert_ne!(leaf(&next), leaf(&x), "{about}");
                }
                (x, state) = (next, next_state);
            }
        }
    }
}

#[test]
fn every_link_of_the_tables_has_a_formula_in_its_symbols() {
    for (name, add) in &MODIFIERS {
        assert!(add(Optimizer::new(0.1)).names().contains(name));
    }
    for optimizer in all() {
        for (name, lines) in optimizer.formulas() {
            assert!(lines.iter().all(|line| line.contains(" = ")), "{name}: {lines:?}");
        }
    }
    let formulas = Optimizer::adam(0.1).formulas();
    let expected = [
        "m_t = β1 * m + (1 - β1) * g",
        "v_t = β2 * v + (1 - β2) * g^2",
        "a = 1 / (1 - β1^t)",
        "b = 1 / sqrt(1 - β2^t)",
        "u1 = a * m_t / (b * sqrt(v_t) + ε)",
    ];
    assert_eq!(formulas, [("Adam", expected.map(str::to_owned).to_vec())]);
}

/// A link from outside the library: the update is scaled by the ratio of the norms of each leaf and its update.
#[derive(Debug)]
struct TrustRatio;

impl Link for TrustRatio {
    fn name(&self) -> &'static str {
        "trust ratio"
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot { initial: 2.0, ..Slot::per_weight("running update", "r") }]
    }

    fn quantities(&self, step: &Step<'_>, updates: &[Tensor]) -> Vec<Quantity> {
        let norm = |tensor: &Tensor| tensor.square().sum().sqrt();
        vec![
            Quantity::per_leaf("W", step.parameters.iter().map(norm).collect()),
            Quantity::per_leaf("U", updates.iter().map(norm).collect()),
        ]
    }

    fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
        let ratio = rule.quantity("W") / rule.quantity("U");
        let (ratio, half) = (rule.define("q", ratio), rule.number(0.5));
        let blended = half * rule.slot("r") + half * rule.update();
        rule.set("r", blended) * ratio.min(rule.constant("c", 10.0))
    }
}

#[test]
fn a_link_from_outside_is_explained_too() {
    let x: Parameters = (Tensor::from([3.0_f32, 4.0]), Tensor::from([1.0_f32]));
    let gradient = (Tensor::from([0.6_f32, 0.8]), Tensor::from([0.5_f32]));
    let optimizer = Optimizer::adam(0.5).link(TrustRatio);
    let formula = &optimizer.formulas()[1];
    assert_eq!(formula.0, "trust ratio");
    assert_eq!(formula.1, ["q = W / U", "r_t = 0.5 * r + 0.5 * u1", "u2 = r_t * min(q, c)"]);
    let state = optimizer.init(&x);
    assert_eq!(state.slots[1].leaves[0].0.to_string(), "[2, 2]");
    let (next, _) = optimizer.update(&x, &gradient, &state);
    let step = optimizer.weight_step(&x, &gradient, None, &state, "0", &[1]).unwrap();
    assert_eq!(bits_of(step.next(&step.inputs).item().unwrap()), bits(&next.0)[1]);
    let explained = step.explain(|number| format!("{number:.3}")).unwrap();
    assert_eq!(explained[1].lines[0].to_string(), "q = W / U = 5.000 / 1.414 = 3.536");
    assert_eq!(explained[1].slots[0].before, 2.0);
}

#[test]
fn undeclared_names_and_misplaced_values_are_errors() {
    #[derive(Debug)]
    struct Wrong(bool);
    impl Link for Wrong {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn slots(&self) -> Vec<Slot> {
            vec![Slot::scalar("sum", "s", 0.0)]
        }
        fn formula<'s>(&self, rule: &mut Rule<'s>) -> Symbol<'s> {
            let g = rule.update();
            if self.0 { rule.set("s", g) } else { rule.slot("m") + g }
        }
    }
    let x = Tensor::from([1.0]);
    for (misplaced, expected) in [(false, "reads \"m\", which it does not declare"), (true, "to the number \"sum\"")] {
        let optimizer = Optimizer::new(0.1).link(Wrong(misplaced));
        let (next, _) = optimizer.update(&x, &x, &optimizer.init(&x));
        let error = next.item().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("optim_links.rs"), "{error}");
    }
    let optimizer = Optimizer::adam(0.1).freeze("1");
    let pair = (x.clone(), x.clone());
    for (path, index) in [("1", &[0][..]), ("0", &[1]), ("0", &[]), ("2", &[0])] {
        assert!(optimizer.weight_step(&pair, &pair, None, &optimizer.init(&pair), path, index).is_err());
    }
}
