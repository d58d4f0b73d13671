//! Any text is read or refused, what was read evaluates and differentiates, and what is written reads back.
#![no_main]

use glassgrad::formula::Symbols;
use glassgrad::lang::parse;
use glassgrad::scalar::gradient;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let expression = match parse(text) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let point: Vec<f64> = (0..expression.variables().len()).map(|k| 0.3 + k as f64).collect();
    let value = expression.evaluate(&point)[0];
    let slope = gradient(|x| expression.evaluate(x)[0], &point);
    assert_eq!(slope.len(), point.len());

    let symbols = Symbols::new();
    let inputs: Vec<_> = expression.variables().iter().map(|name| symbols.variable(name)).collect();
    let written = expression.evaluate(&inputs)[0].to_string();
    if written.starts_with("(a formula of") || !value.is_finite() || written.contains("inf") || written.contains("NaN")
    {
        return;
    }
    // Writing nests where reading chains, so a long text may be refused; it must not change its meaning.
    if let Ok(again) = parse(&written) {
        let names = expression.variables();
        let inputs: Vec<f64> = again
            .variables()
            .iter()
            .filter_map(|name| names.iter().position(|n| n == name))
            .map(|k| point[k])
            .collect();
        let reread = again.evaluate(&inputs)[0];
        let tolerance = 1e-6 * value.abs().max(1.0);
        assert!(
            (reread - value).abs() <= tolerance || !reread.is_finite(),
            "{text:?} is {value}, {written:?} is {reread}"
        );
    }
});
