//! Fourier transforms.

use glassgrad::operations::Complex;

use super::windows::{complex, parts};
use super::{Entry, constant};

pub(crate) const SPECTRA: &[Entry] = &[
    ("fft", |x| parts(complex(x).fft(-1))),
    ("fft of six", |x| parts(complex(x).fft(0)).square()),
    ("fft of five", |x| parts(complex(x).fft(0))),
    ("ifft", |x| parts(complex(x).ifft(-1))),
    ("rfft", |x| parts(x[0].rfft(-1)).square()),
    ("rfft of five", |x| parts(x[0].rfft(0)).square()),
    ("irfft of six", |x| complex(x).irfft(6, 0).square()),
    ("irfft of five", |x| complex(x).irfft(5, 0).square()),
    ("fft2", |x| parts(complex(x).fft2()).square()),
    ("ifft2", |x| parts(complex(x).ifft2())),
    ("power spectrum", |x| x[0].rfft(0).abs_square()),
    ("convolution by spectra", |x| (x[0].rfft(0) * x[1].rfft(0)).irfft(6, 0)),
    ("spectral low pass", |x| {
        let pass = constant(&x[0], &[1.0, 1.0, 0.5, 0.0, 0.0]);
        (x[0].rfft(0) * Complex::real(&pass)).irfft(8, 0).square()
    }),
];
