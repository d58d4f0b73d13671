//! Random draws and sorting on whole arrays, before the definitions number by number, at every instruction set.

use glassgrad::Tensor;
use glassgrad::exec::{Isa, with_isa, with_threads};
use glassgrad::rng::Key;

const COUNT: usize = 40_003;

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// The numbers of a draw, which are the same at every instruction set and for one and three threads.
fn drawn(make: impl Fn() -> Tensor) -> Vec<f32> {
    let numbers = make().to_vec::<f32>().expect("numbers");
    for isa in Isa::here() {
        for threads in [1, 3] {
            let found = with_isa(isa, || with_threads(threads, || make().to_vec::<f32>())).expect("numbers");
            assert_eq!(bits(&found), bits(&numbers), "{isa:?}, {threads} threads");
        }
    }
    numbers
}

#[test]
fn uniform_draws_are_those_of_the_key() {
    let key = Key::new(11);
    let expected: Vec<f32> = (0..COUNT as u64).map(|k| key.uniform(k) as f32).collect();
    assert_eq!(bits(&drawn(|| Tensor::uniform(key, [COUNT]))), bits(&expected));
}

#[test]
fn normal_draws_are_those_of_the_key_up_to_one_unit_in_the_last_place() {
    let key = Key::new(12);
    let found = drawn(|| Tensor::normal(key, [COUNT]));
    for (k, found) in found.iter().enumerate() {
        let expected = key.normal(k as u64) as f32;
        let apart = found.to_bits().abs_diff(expected.to_bits());
        assert!(apart <= 1, "draw {k}: {found} is not {expected}");
    }
}

#[test]
fn sorting_is_stable_and_places_what_is_no_number_last() {
    let key = Key::new(13);
    // Few different numbers, so that many are equal, and all that is special.
    let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN, f32::MIN_POSITIVE / 4.0];
    let numbers: Vec<f32> = (0..3_000_u64)
        .map(|k| match key.bits(k) % 40 {
            number if (number as usize) < special.len() => special[number as usize],
            number => number as f32 - 25.0,
        })
        .collect();
    let x = Tensor::new(&numbers, [3, 1000]);
    for order in [x.argsort(-1), x.argsort_descending(-1)] {
        let expected = Tensor::from(order.eval_by_reference().expect("an order"));
        assert_eq!(order.to_vec::<i64>().expect("places"), expected.to_vec::<i64>().expect("places"));
    }
}
