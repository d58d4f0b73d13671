//! Data sources, one file each: embedded and synthetic ones, and the interface of those that a host provides. Each is recorded as
//! a [`glassgrad::data::Source`].

mod digits;
mod images;
mod iris;
mod synthetic;

pub use digits::digits;
pub use images::{Embedded, ImageSet, ImageSets};
pub use iris::{IRIS, iris};
pub use synthetic::{expression_in_x, function, function_names, synthetic};

#[cfg(test)]
mod tests {
    use glassgrad::data::Targets;
    use glassgrad::rng::Key;

    use super::synthetic::names;
    use super::*;

    #[test]
    fn the_embedded_sets_are_whole() {
        let flowers = iris().unwrap();
        assert_eq!(flowers.examples.features.shape().to_string(), "[150, 4]");
        // The means that the collection is published with.
        let means = flowers.examples.features.mean_over(0).to_f64_vec().unwrap();
        for (mean, expected) in means.into_iter().zip([5.8433, 3.0573, 3.7580, 1.1993]) {
            assert!((mean - expected).abs() < 1e-3, "{mean}");
        }
        assert_eq!(flowers.examples.targets.names(), ["setosa", "versicolor", "virginica"]);
        assert_eq!(counts(&flowers.examples.targets), [50; 3]);

        let digits = digits().unwrap();
        assert_eq!(digits.examples.features.shape().to_string(), "[1797, 1, 8, 8]");
        assert_eq!(counts(&digits.examples.targets), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
        assert_eq!(digits.examples.features.max().item().unwrap(), 1.0);
    }

    #[test]
    fn every_named_dataset_can_be_sampled() {
        for name in names() {
            let source = synthetic(name, Key::new(1), 60, 0.1).unwrap();
            assert_eq!((source.examples.len(), source.name.as_str()), (60, name));
            assert_eq!(source.feature_names.len(), source.examples.features.shape()[1]);
        }
        let message = synthetic("cows", Key::new(1), 60, 0.1).unwrap_err().to_string();
        assert!(message.contains("there are moons, circles, spirals, blobs, sine,"), "{message}");
    }

    #[test]
    fn functions_are_names_or_expressions() {
        let named = function("sine", Key::new(1), 50, 0.0).unwrap();
        let written = function("sin(3*x)", Key::new(1), 50, 0.0).unwrap();
        assert_eq!((named.title.contains("sin(x)"), written.title.contains("sin(3*x)")), (true, true));
        let difference = (&written.examples.features * 3.0).sin() - written.examples.targets.tensor();
        assert!(difference.abs().max().item().unwrap() < 1e-6);
        // Examples are drawn where the function is finite.
        let logarithm = function("ln(x)", Key::new(1), 50, 0.0).unwrap();
        assert!(logarithm.examples.features.min().item().unwrap() > 0.0);
        let message = function("ln(-1 - x^2)", Key::new(1), 50, 0.0).unwrap_err().to_string();
        assert!(message.contains("not finite"), "{message}");
        for (text, reason) in
            [("moons", "x is the variable"), ("x + y", "x is the variable"), ("x; x^2", "one result"), ("sin(", "")]
        {
            let refused = expression_in_x(text).err().unwrap_or_else(|| panic!("{text} is refused"));
            assert!(refused.contains(reason), "{refused}");
        }
    }

    fn counts(targets: &Targets) -> Vec<usize> {
        let classes = targets.tensor().to_vec::<i64>().unwrap();
        let count = |class: usize| classes.iter().filter(|other| **other == class as i64).count();
        (0..targets.width()).map(count).collect()
    }
}
