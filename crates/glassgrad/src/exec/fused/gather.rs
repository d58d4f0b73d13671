//! Reading strided elements of a block into scratch memory.

use super::super::machine::{Frame, elements, elements_mut};
use super::{behind, pieces, whole_rows};
use crate::dtype::DType;
use crate::opt::program::Access;

/// Reads the elements of a block.
pub(super) fn gather(load: &Access, extents: &[usize], frame: &Frame<'_>, start: usize, count: usize, to: *mut u8) {
    let from = frame.at(load, 0);
    match load.dtype {
        DType::F32 => typed::<f32>(load, extents, from, start, elements_mut(to, count)),
        DType::F64 => typed::<f64>(load, extents, from, start, elements_mut(to, count)),
        DType::I64 => typed::<i64>(load, extents, from, start, elements_mut(to, count)),
        DType::Bool => typed::<bool>(load, extents, from, start, elements_mut(to, count)),
    }
}

/// Reads the one element that is the same for a whole block.
pub(super) fn once(load: &Access, frame: &Frame<'_>, count: usize, to: *mut u8) {
    fn typed<E: Copy>(from: *mut u8, to: *mut u8, count: usize) {
        let element = elements::<E>(from, 1)[0];
        elements_mut::<E>(to, count).fill(element);
    }
    let from = frame.at(load, 0);
    match load.dtype {
        DType::F32 => typed::<f32>(from, to, count),
        DType::F64 => typed::<f64>(from, to, count),
        DType::I64 => typed::<i64>(from, to, count),
        DType::Bool => typed::<bool>(from, to, count),
    }
}

fn typed<E: Copy>(load: &Access, extents: &[usize], from: *mut u8, start: usize, to: &mut [E]) {
    let (count, strides) = (to.len(), &load.strides[..extents.len()]);
    let at = |place: isize| elements::<E>(behind(from, place, load.dtype), 1)[0];
    match whole_rows(extents, strides, start, count) {
        // One element for each row.
        Some((first, [step, 0], inner)) => {
            for (row, elements) in to.chunks_exact_mut(inner).enumerate() {
                let element = at(first + row as isize * step);
                elements.iter_mut().for_each(|own| *own = element);
            }
        }
        // The same short row again and again.
        Some((first, [0, 1], inner)) if inner <= 64 => {
            let row = elements::<E>(behind(from, first, load.dtype), inner);
            for own in to.chunks_exact_mut(inner) {
                own.iter_mut().zip(row).for_each(|(own, element)| *own = *element);
            }
        }
        // Columns, as of a transposed matrix.
        Some((first, [1, step], inner)) if step != 1 => {
            let rows = count / inner;
            for column in 0..inner {
                let source = elements::<E>(behind(from, first + column as isize * step, load.dtype), rows);
                source.iter().enumerate().for_each(|(row, element)| to[row * inner + column] = *element);
            }
        }
        _ => {
            let stride = strides.last().copied().unwrap_or(0);
            pieces(extents, strides, start, count, |begin, length, place| {
                let piece = &mut to[begin..begin + length];
                match stride {
                    0 => piece.fill(at(place)),
                    1 => piece.copy_from_slice(elements::<E>(behind(from, place, load.dtype), length)),
                    _ => {
                        for (k, element) in piece.iter_mut().enumerate() {
                            *element = at(place + k as isize * stride);
                        }
                    }
                }
            });
        }
    }
}
