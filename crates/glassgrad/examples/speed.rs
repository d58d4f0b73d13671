use glassgrad::scalar::{NodeId, Sweep, Tape};
use std::time::Instant;
fn main() {
    let n = 1_000_000;
    let mut tape = Tape::<f64>::new();
    let mut sweep = Sweep::new();
    for kind in 0..3 {
        let mut best = (f64::INFINITY, f64::INFINITY);
        for _ in 0..30 {
            tape.clear();
            let t = Instant::now();
            let a = tape.input(0.999999);
            let b = tape.input(1e-6);
            let mut x = tape.input(1.0);
            for k in 0..n / 2 {
                x = match kind {
                    0 => x * a + b,
                    1 => (x * 0.99999) + b,
                    _ => {
                        if k % 4 == 3 {
                            (x * x).sqrt()
                        } else {
                            x * a - b
                        }
                    }
                };
            }
            let y = NodeId::from(x);
            let r = t.elapsed().as_secs_f64();
            let t = Instant::now();
            tape.reverse_into(&[(y, 1.0)], &mut sweep);
            let s = t.elapsed().as_secs_f64();
            std::hint::black_box(&sweep);
            best = (best.0.min(r), best.1.min(s));
        }
        println!("{kind}: record {:.2} ns/op, reverse {:.2} ns/op", best.0 * 1e9 / n as f64, best.1 * 1e9 / n as f64);
    }
}
