//! Any text is read as a matrix expression or refused, and so are declarations.
#![no_main]

use glassgrad::lang::matrix::{Declarations, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The first line declares, the others are the expression.
    let (declarations, source) = text.split_once('\n').unwrap_or(("A: m n, X: n n, x: n, y: m, t:", text));
    let declared = match Declarations::read(declarations) {
        Ok(declared) => declared,
        Err(error) => {
            assert!(error.span.end <= declarations.len() && !error.to_string().is_empty());
            return;
        }
    };
    match parse(source, &declared) {
        Ok(expression) => assert!(!expression.shape().to_string().contains('?')),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
