//! Ten million operations: memory grows with the tape and with nothing else, and nothing recurses.
//!
//! There is one test only, because it counts the bytes of the whole process.

#[path = "judges/heap.rs"]
mod heap;

use std::io::Write;
use std::time::Instant;

use glassgrad::scalar::{NodeId, Tape};

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

/// The most bytes that recording and the reverse sweep may need for an operation: 33 for the node,
/// 8 for its adjoint, and the rest for the list of blocks.
const BYTES_AN_OPERATION: f64 = 48.0;

/// Tells the growth also where the harness keeps quiet about tests that pass.
macro_rules! report {
    ($($text:tt)*) => { writeln!(std::io::stderr(), $($text)*).expect("standard error is open") };
}

fn timed<R>(work: impl FnOnce() -> R) -> (R, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

/// The chain x + x + x + …: every node has two parents, and the input has as many children as there
/// are operations. All its derivatives are whole numbers.
fn record(tape: &Tape, operations: usize) -> (NodeId, NodeId) {
    let x = tape.input(1.0);
    let y = (0..operations).fold(x, |y, _| y + x);
    (x.into(), y.into())
}

/// Records and sweeps a chain; returns the bytes an operation that recording and reverse needed.
fn grow(operations: usize) -> f64 {
    let exact = operations as f64 + 1.0;
    let (tape, bytes) = heap::peak_bytes(|| {
        let tape = Tape::new();
        let ((x, y), recording) = timed(|| record(&tape, operations));
        let (adjoints, sweeping) = timed(|| tape.reverse(y));
        assert_eq!((tape.value(y), adjoints.of(x)), (exact, exact));
        report!("  {operations:>9} operations: recorded in {recording:.3} s, reverse in {sweeping:.3} s");
        tape
    });
    let (x, y) = (tape.ids().next().unwrap(), tape.ids().next_back().unwrap());
    let ((slope, forward_bytes), sweeping) = timed(|| heap::peak_bytes(|| tape.forward(x).of(y)));
    assert_eq!(slope, exact);
    let an_operation = bytes as f64 / operations as f64;
    report!("  {:>9} forward in {sweeping:.3} s, {an_operation:.2} bytes an operation at the peak", "");
    let forward = forward_bytes as f64 / operations as f64;
    assert!(forward <= 8.1, "the forward sweep needed {forward:.2} bytes an operation, a tangent is 8");
    assert!(tape.bytes() as f64 <= 34.0 * operations as f64 + 100_000.0, "the tape knows its own size");
    an_operation
}

/// Sums that double: there are 2²⁵ paths from the input to the output, and 26 nodes.
fn double() {
    let tape = Tape::new();
    let x = tape.input(1.0);
    let y = (0..25).fold(x, |y, _| y + y);
    let paths = f64::from(1u32 << 25);
    assert_eq!((y.value(), tape.reverse(y).of(x), tape.forward(x).of(y)), (paths, paths, paths));
    assert_eq!((tape.len(), tape.order_from(x).len(), tape.order_towards(y).len()), (26, 26, 26));
}

/// A million nodes in a row, searched and dropped on a stack on which a million calls have no room.
fn search() {
    let length = 1_000_000;
    let tape = Tape::new();
    let x = tape.input(1.0);
    let y = (1..length).fold(x, |y, _| -y);
    let everything: Vec<NodeId> = tape.ids().collect();
    assert_eq!(everything.len(), length);
    assert_eq!(tape.ancestors(y), everything);
    assert_eq!(tape.reachable(x), everything);
    assert_eq!(tape.order_from(x), everything);
    assert!(tape.order_towards(y).iter().eq(everything.iter().rev()));
    let ((), dropping) = timed(|| drop(tape));
    report!("  {length:>9} nodes searched four times, and dropped in {dropping:.3} s");
}

#[test]
fn ten_million_operations_take_linear_memory_and_no_recursion() {
    report!("\ngrowth of a tape:");
    for operations in [100_000, 1_000_000, 10_000_000] {
        let bytes = grow(operations);
        assert!(bytes <= BYTES_AN_OPERATION, "{bytes:.2} bytes an operation at {operations} operations");
    }
    double();
    let small_stack = std::thread::Builder::new().stack_size(256 << 10);
    small_stack.spawn(search).expect("a thread").join().expect("no search recurses");
}
