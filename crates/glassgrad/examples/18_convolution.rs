//! Convolution on a small image: edges are seen, and the kernel that sees them is found by descent.
//!
//! A convolution is an einsum of windows and a kernel, so its derivatives in the image and in the kernel need no rule of
//! their own.
//!
//! Run it with `cargo run --release -p glassgrad-examples --example 18_convolution`.

use glassgrad::operations::{Convolution, Pooling};
use glassgrad::rng::Key;
use glassgrad::{Tensor, value_and_grad};

/// A disc of light on 12 × 12 pixels.
fn disc() -> Tensor {
    let bright = |k: usize| (k / 12).abs_diff(6).pow(2) + (k % 12).abs_diff(5).pow(2) < 14;
    let pixels: Vec<f32> = (0..144).map(|k| f32::from(u8::from(bright(k)))).collect();
    Tensor::new(&pixels, [1, 12, 12])
}

/// One character a pixel, darker for larger numbers.
fn show(image: &Tensor) {
    let (width, pixels) = (image.shape()[2], image.to_f64_vec().expect("pixels"));
    for row in pixels.chunks(width) {
        let shade = |x: &f64| [' ', '.', ':', '+', '#'][(x.abs().min(4.0)) as usize];
        println!("  {}", row.iter().map(shade).collect::<String>());
    }
}

fn main() {
    // Sobel's kernels: how fast the light changes from left to right, and from above to below.
    let sobel = Tensor::new(&[-1.0_f32, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0], [1, 1, 3, 3]);
    let kernels = Tensor::concatenate([&sobel, &sobel.permute([0, 1, 3, 2])], 0);
    let config = Convolution::default().padding(1);
    let gradients = disc().conv2d(&kernels, config);
    let edges = gradients.norm_over(0).unsqueeze(0);
    println!("edges of a disc, then the strongest of each 2 × 2");
    show(&edges);
    show(&edges.max_pool2d(Pooling::new(2)));

    // A kernel that starts as nothing and should do to noise what Sobel's does.
    let noise = Tensor::normal(Key::new(1), [1, 16, 16]);
    let target = noise.conv2d(&sobel, config);
    let loss = |kernel: &Tensor| (noise.conv2d(kernel, config) - &target).square().mean();
    let mut kernel = sobel.zeros_like();
    for step in 0..=60 {
        let (value, gradient) = value_and_grad(loss)(&kernel);
        if step % 20 == 0 {
            println!("step {step:2}  loss {:.1e}", value.item().expect("a number"));
        }
        kernel -= 0.3 * gradient;
    }
    println!("the kernel that was found\n{}", kernel.reshape([3, 3]));
    let distance = (kernel - sobel).abs().max().item().expect("a number");
    assert!(distance < 1e-3, "it is {distance} away from Sobel's");
}
