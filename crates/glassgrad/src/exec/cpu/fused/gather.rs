//! LoadMode strided elements of a block into scratch memory.

use super::super::interpreter::{Frame, copy, elements, elements_mut};
use super::{Axes, BLOCK, behind, convert, pieces, whole_rows};
use crate::dtype::DType;
use crate::opt::program::Access;

/// Reads the elements of a block.
pub(super) unsafe fn gather(load: &Access, axes: &Axes, frame: &Frame<'_>, start: usize, count: usize, to: *mut u8) {
    let from = frame.at(load, 0);
    match load.dtype {
        DType::F32 => typed::<f32>(load, axes, from, start, elements_mut(to, count)),
        DType::F64 => typed::<f64>(load, axes, from, start, elements_mut(to, count)),
        DType::I64 => typed::<i64>(load, axes, from, start, elements_mut(to, count)),
        DType::Bool => typed::<bool>(load, axes, from, start, elements_mut(to, count)),
        DType::F16 | DType::BF16 => stored::<u16>(load, axes, frame, start, count, to),
        DType::I32 => stored::<u32>(load, axes, frame, start, count, to),
        DType::U8 => stored::<u8>(load, axes, frame, start, count, to),
    }
}

/// Reads elements of a storage type by their bits, and converts them.
unsafe fn stored<E: Copy + Default>(
    load: &Access,
    axes: &Axes,
    frame: &Frame<'_>,
    start: usize,
    count: usize,
    to: *mut u8,
) {
    let mut bits = [E::default(); BLOCK];
    typed::<E>(load, axes, frame.at(load, 0), start, &mut bits[..count]);
    convert::widen(frame.isa, load.dtype, bits.as_mut_ptr().cast(), to, count);
}

/// Reads the one element that is the same for a whole block.
pub(super) unsafe fn once(load: &Access, frame: &Frame<'_>, count: usize, to: *mut u8) {
    unsafe fn typed<E: Copy>(from: *mut u8, to: *mut u8, count: usize) {
        let element = elements::<E>(from, 1)[0];
        elements_mut::<E>(to, count).fill(element);
    }
    let from = frame.at(load, 0);
    match load.dtype {
        DType::F32 => typed::<f32>(from, to, count),
        DType::F64 => typed::<f64>(from, to, count),
        DType::I64 => typed::<i64>(from, to, count),
        DType::Bool => typed::<bool>(from, to, count),
        DType::F16 | DType::BF16 => {
            let mut element = 0.0_f32;
            convert::widen(frame.isa, load.dtype, from, (&raw mut element).cast(), 1);
            elements_mut::<f32>(to, count).fill(element);
        }
        DType::I32 | DType::U8 => {
            let mut element = 0_i64;
            convert::widen(frame.isa, load.dtype, from, (&raw mut element).cast(), 1);
            elements_mut::<i64>(to, count).fill(element);
        }
    }
}

/// Rows of at least so many elements are read one after another.
const LONG: usize = 16;

/// Reads short rows, as many neighbouring axes of them at once as a small table of places has room for; `false` if
/// rows are long or the block does not consist of whole ones.
unsafe fn short_rows<E: Copy>(extents: &[usize], strides: &[isize], start: usize, to: &mut [E], from: *mut u8) -> bool {
    const MOST: usize = 32;
    let is_whole = |size: usize| start.is_multiple_of(size) && to.len().is_multiple_of(size);
    let Some(last) = extents.last().filter(|last| **last < LONG && is_whole(**last)) else { return false };
    let (mut outer, mut size) = (extents.len() - 1, *last);
    while outer > 1 && size * extents[outer - 1] <= MOST && is_whole(size * extents[outer - 1]) {
        outer -= 1;
        size *= extents[outer];
    }
    if outer == 0 {
        return false;
    }
    let mut table = [0_isize; MOST];
    pieces(&extents[outer..], &strides[outer..], 0, size, |begin, length, place| {
        let stride = strides[extents.len() - 1];
        (0..length).for_each(|k| table[begin + k] = place + k as isize * stride);
    });
    let table = &table[..size];
    let step = strides[outer - 1];
    pieces(&extents[..outer], &strides[..outer], start / size, to.len() / size, |begin, length, place| {
        let own = &mut to[begin * size..(begin + length) * size];
        match size {
            2 => tuples::<E, 2>(table, own, [place, step], from),
            3 => tuples::<E, 3>(table, own, [place, step], from),
            4 => tuples::<E, 4>(table, own, [place, step], from),
            5 => tuples::<E, 5>(table, own, [place, step], from),
            8 => tuples::<E, 8>(table, own, [place, step], from),
            9 => tuples::<E, 9>(table, own, [place, step], from),
            _ => {
                for (number, own) in own.chunks_exact_mut(size).enumerate() {
                    let first = from.cast::<E>().wrapping_offset(place + number as isize * step);
                    own.iter_mut().zip(table).for_each(|(own, k)| *own = element(first, *k));
                }
            }
        }
    });
    true
}

/// The element so many places behind an address.
#[inline(always)]
unsafe fn element<E: Copy>(at: *mut E, place: isize) -> E {
    elements::<E>(at.wrapping_offset(place).cast(), 1)[0]
}

/// One element for each row of one length.
unsafe fn repeated<E: Copy, const N: usize>(from: *mut E, step: isize, to: &mut [E]) {
    for (row, own) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *own = [element(from, row as isize * step); N];
    }
}

/// Reads elements in tuples, whose places lie as a table says, and from one tuple to the next by a step.
unsafe fn tuples<E: Copy, const N: usize>(table: &[isize], to: &mut [E], [place, step]: [isize; 2], from: *mut u8) {
    let mut places = [0; N];
    places.copy_from_slice(table);
    for (number, own) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let first = from.cast::<E>().wrapping_offset(place + number as isize * step);
        for k in 0..N {
            own[k] = element(first, places[k]);
        }
    }
}

unsafe fn typed<E: Copy>(load: &Access, Axes { extents, strides }: &Axes, from: *mut u8, start: usize, to: &mut [E]) {
    let count = to.len();
    let at = |place: isize| elements::<E>(behind(from, place, load.dtype), 1)[0];
    match whole_rows(extents, strides, start, count) {
        // One element for each row.
        Some((first, [step, 0], inner)) => {
            let from = from.cast::<E>().wrapping_offset(first);
            match inner {
                2 => repeated::<E, 2>(from, step, to),
                3 => repeated::<E, 3>(from, step, to),
                4 => repeated::<E, 4>(from, step, to),
                8 => repeated::<E, 8>(from, step, to),
                9 => repeated::<E, 9>(from, step, to),
                _ => {
                    for (row, elements) in to.chunks_exact_mut(inner).enumerate() {
                        let element = element(from, row as isize * step);
                        elements.iter_mut().for_each(|own| *own = element);
                    }
                }
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
        _ if short_rows(extents, strides, start, to, from) => {}
        _ => {
            let stride = strides.last().copied().unwrap_or(0);
            pieces(extents, strides, start, count, |begin, length, place| {
                let piece = &mut to[begin..begin + length];
                match stride {
                    0 => piece.fill(at(place)),
                    1 => copy(elements::<E>(behind(from, place, load.dtype), length), piece.as_mut_ptr().cast()),
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
