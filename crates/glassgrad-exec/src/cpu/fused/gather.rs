//! Gathers strided elements of a block into scratch memory.

use super::super::interpreter::{Frame, copy, elements, elements_mut};
#[cfg(target_arch = "x86_64")]
use super::super::{isa::Isa, simd::Register};
use super::{Axes, BLOCK, Pieces, behind, convert, whole_rows};
use crate::dtype::DType;
use crate::program::Access;

/// Reads the elements of a block, at the ISA level of the program.
pub(super) unsafe fn gather(load: &Access, axes: &Axes, frame: &Frame<'_>, start: usize, count: usize, to: *mut u8) {
    match load.dtype {
        DType::F16 | DType::BF16 => return stored::<u16>(load, axes, frame, start, count, to),
        DType::I32 => return stored::<u32>(load, axes, frame, start, count, to),
        DType::U8 => return stored::<u8>(load, axes, frame, start, count, to),
        DType::F32 | DType::F64 | DType::I64 | DType::Bool => {}
    }
    let from = frame.at(load, 0);
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn medium(load: &Access, axes: &Axes, from: *mut u8, start: usize, count: usize, to: *mut u8) {
            by_type::<true>(load, axes, from, start, count, to);
        }
        match frame.isa {
            // SAFETY: the machine has the instructions of the level at which its programs run.
            Isa::Avx512 | Isa::Avx2 => return unsafe { medium(load, axes, from, start, count, to) },
            Isa::Baseline => {}
        }
    }
    by_type::<false>(load, axes, from, start, count, to);
}

/// By element type, with vectors of 256 bits if they are `WIDE`.
#[inline(always)]
unsafe fn by_type<const WIDE: bool>(
    load: &Access,
    axes: &Axes,
    from: *mut u8,
    start: usize,
    count: usize,
    to: *mut u8,
) {
    match load.dtype {
        DType::F32 => typed::<f32, WIDE>(load, axes, from, start, elements_mut(to, count)),
        DType::F64 => typed::<f64, WIDE>(load, axes, from, start, elements_mut(to, count)),
        DType::I64 => typed::<i64, WIDE>(load, axes, from, start, elements_mut(to, count)),
        DType::Bool => typed::<bool, WIDE>(load, axes, from, start, elements_mut(to, count)),
        DType::F16 | DType::BF16 | DType::I32 | DType::U8 => unreachable!("{} is read by its bits", load.dtype),
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
    typed::<E, false>(load, axes, frame.at(load, 0), start, &mut bits[..count]);
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

/// Rows of at least this many elements are read one after another.
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
    for (begin, length, place) in Pieces::new(&extents[outer..], &strides[outer..], 0, size) {
        let stride = strides[extents.len() - 1];
        (0..length).for_each(|k| table[begin + k] = place + k as isize * stride);
    }
    let table = &table[..size];
    let step = strides[outer - 1];
    for (begin, length, place) in Pieces::new(&extents[..outer], &strides[..outer], start / size, to.len() / size) {
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
    }
    true
}

/// Reads a block of whole rows of a transposed array, which is contiguous along the last axis but one. Returns `false` for any other
/// layout.
#[inline(always)]
unsafe fn tile<E: Copy, const WIDE: bool>(
    extents: &[usize],
    strides: &[isize],
    start: usize,
    to: &mut [E],
    from: *mut u8,
) -> bool {
    let (&[ref outer @ .., all_rows, columns], &[ref outer_strides @ .., 1, step]) = (extents, strides) else {
        return false;
    };
    let (first_row, rows) = (start / columns, to.len() / columns);
    let is_whole = start.is_multiple_of(columns) && to.len().is_multiple_of(columns);
    // Fewer rows are read one by one, and rows of stride 0 are filled.
    if !is_whole || first_row % all_rows + rows > all_rows || rows < 4 || matches!(step, 0 | 1) {
        return false;
    }
    let above = Pieces::new(outer, outer_strides, first_row / all_rows, 1).next().map_or(0, |(_, _, place)| place);
    let first = above + (first_row % all_rows) as isize;
    let from = from.cast::<E>().wrapping_offset(first);
    #[allow(unused_mut)]
    let mut row = 0;
    #[cfg(target_arch = "x86_64")]
    if WIDE && matches!(size_of::<E>(), 4 | 8) {
        while row + 8 <= rows {
            let mut column = 0;
            while column + 8 <= columns {
                let corner = from.wrapping_offset(row as isize + column as isize * step);
                let own = to.as_mut_ptr().add(row * columns + column);
                let lines = [0, 1, 2, 3, 4, 5, 6, 7].map(|k| corner.wrapping_offset(k * step).cast_const());
                if size_of::<E>() == 4 {
                    <std::arch::x86_64::__m256 as Register<f32>>::transpose(
                        lines.map(|at| at.cast()),
                        own.cast(),
                        columns,
                    );
                } else {
                    <std::arch::x86_64::__m256d as Register<f64>>::transpose(
                        lines.map(|at| at.cast()),
                        own.cast(),
                        columns,
                    );
                }
                column += 8;
            }
            for column in column..columns {
                let source = elements::<E>(from.wrapping_offset(row as isize + column as isize * step).cast(), 8);
                source.iter().enumerate().for_each(|(k, element)| to[(row + k) * columns + column] = *element);
            }
            row += 8;
        }
    }
    #[cfg(target_arch = "x86_64")]
    if size_of::<E>() == 4 {
        while row + 4 <= rows {
            let mut column = 0;
            while column + 4 <= columns {
                let corner = from.wrapping_offset(row as isize + column as isize * step);
                transpose_4x4(corner.cast(), step, to.as_mut_ptr().add(row * columns + column).cast(), columns);
                column += 4;
            }
            for column in column..columns {
                let source = elements::<E>(from.wrapping_offset(row as isize + column as isize * step).cast(), 4);
                source.iter().enumerate().for_each(|(k, element)| to[(row + k) * columns + column] = *element);
            }
            row += 4;
        }
    }
    for column in 0..columns {
        let source = elements::<E>(from.wrapping_offset(row as isize + column as isize * step).cast(), rows - row);
        source.iter().enumerate().for_each(|(k, element)| to[(row + k) * columns + column] = *element);
    }
    true
}

/// Transposes four by four elements of four bytes; the instructions are those that every processor of this kind has.
///
/// # Safety
/// Four elements can be read at each of four addresses `step` elements apart, and written at four that are `columns` apart.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_4x4(from: *const f32, step: isize, to: *mut f32, columns: usize) {
    use std::arch::x86_64::{
        _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
    };
    // SAFETY: four elements can be read at each of the four addresses.
    let [a, b, c, d] = [0, 1, 2, 3].map(|k| unsafe { _mm_loadu_ps(from.wrapping_offset(k * step)) });
    let (low, high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    let (other_low, other_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    _mm_storeu_ps(to, _mm_movelh_ps(low, other_low));
    _mm_storeu_ps(to.wrapping_add(columns), _mm_movehl_ps(other_low, low));
    _mm_storeu_ps(to.wrapping_add(2 * columns), _mm_movelh_ps(high, other_high));
    _mm_storeu_ps(to.wrapping_add(3 * columns), _mm_movehl_ps(other_high, high));
}

/// The element at an offset from an address.
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

#[inline(always)]
unsafe fn typed<E: Copy, const WIDE: bool>(
    load: &Access,
    Axes { extents, strides }: &Axes,
    from: *mut u8,
    start: usize,
    to: &mut [E],
) {
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
                16 => repeated::<E, 16>(from, step, to),
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
        _ if tile::<E, WIDE>(extents, strides, start, to, from) => {}
        _ if short_rows(extents, strides, start, to, from) => {}
        _ => {
            let stride = strides.last().copied().unwrap_or(0);
            for (begin, length, place) in Pieces::new(extents, strides, start, count) {
                let piece = &mut to[begin..begin + length];
                match stride {
                    0 => piece.fill(at(place)),
                    1 => copy(elements::<E>(behind(from, place, load.dtype), length), piece.as_mut_ptr().cast()),
                    // Constant strides compile to vector shuffles.
                    2 => {
                        let source = elements::<E>(behind(from, place, load.dtype), 2 * length - 1);
                        piece.iter_mut().zip(source.iter().step_by(2)).for_each(|(own, element)| *own = *element);
                    }
                    -1 => {
                        let first = place - (length as isize - 1);
                        let source = elements::<E>(behind(from, first, load.dtype), length);
                        piece.iter_mut().zip(source.iter().rev()).for_each(|(own, element)| *own = *element);
                    }
                    _ => {
                        for (k, element) in piece.iter_mut().enumerate() {
                            *element = at(place + k as isize * stride);
                        }
                    }
                }
            }
        }
    }
}
