//! Free list of large buffers, reused for allocations of the same size.
//!
//! A training loop makes arrays of the same few sizes again and again. Giving their memory back to the system in
//! between costs more than much of the arithmetic: pages are unmapped, mapped, and set to zero again.

use std::cell::RefCell;

use super::{Buffer, OutOfMemory};
use crate::dtype::{DType, bf16, f16};

/// Smaller buffers are the allocator's business.
#[doc(hidden)]
pub const SMALLEST_BYTES: usize = 1 << 16;
/// At most this many bytes are kept for each thread.
const MOST_BYTES: usize = 1 << 26;

thread_local! {
    /// The free list of this thread, the latest last.
    static KEPT: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

fn bytes(buffer: &Buffer) -> usize {
    buffer.len() * buffer.dtype().bytes()
}

/// A buffer of some length with any elements, or an error if there is no memory for it.
#[doc(hidden)]
pub fn buffer(dtype: DType, length: usize) -> Result<Buffer, OutOfMemory> {
    let taken = || {
        KEPT.with_borrow_mut(|kept| {
            let fits = |buffer: &Buffer| buffer.len() == length && buffer.dtype() == dtype;
            kept.iter().rposition(fits).map(|place| kept.remove(place))
        })
    };
    let is_large = length.saturating_mul(dtype.bytes()) >= SMALLEST_BYTES;
    let mut buffer = match is_large.then(taken).flatten() {
        Some(buffer) => buffer,
        None => Buffer::try_zeros(dtype, length)?,
    };
    if cfg!(debug_assertions) {
        spoil(&mut buffer);
    }
    Ok(buffer)
}

/// Poisons a buffer, so that elements that are never written show in a result.
pub(super) fn spoil(buffer: &mut Buffer) {
    match buffer {
        Buffer::F32(elements) => elements.fill(f32::NAN),
        Buffer::F64(elements) => elements.fill(f64::NAN),
        Buffer::I64(elements) => elements.fill(-0x5EED),
        Buffer::Bool(elements) => elements.fill(true),
        Buffer::F16(elements) => elements.fill(f16::NAN),
        Buffer::BF16(elements) => elements.fill(bf16::NAN),
        Buffer::I32(elements) => elements.fill(-0x5EED),
        Buffer::U8(elements) => elements.fill(0xED),
    }
}

/// The elements of an array, which are kept for others when it goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recycled(pub(super) Buffer);

impl Drop for Recycled {
    fn drop(&mut self) {
        if !(SMALLEST_BYTES..=MOST_BYTES).contains(&bytes(&self.0)) {
            return;
        }
        let buffer = std::mem::replace(&mut self.0, Buffer::Bool(Vec::new()));
        let mut gone = Vec::new();
        // A thread that ends keeps nothing.
        let _ = KEPT.try_with(|kept| {
            let Ok(mut kept) = kept.try_borrow_mut() else { return };
            kept.push(buffer);
            while kept.iter().map(bytes).sum::<usize>() > MOST_BYTES {
                gone.push(kept.remove(0));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::shape::Shape;

    fn address(buffer: &Buffer) -> usize {
        match buffer {
            Buffer::F32(elements) => elements.as_ptr() as usize,
            _ => 0,
        }
    }

    #[test]
    fn what_was_given_back_is_used_again() {
        let length = SMALLEST_BYTES / 4;
        let array = Array::new(Shape::from(length), buffer(DType::F32, length).unwrap());
        let place = address(array.buffer());
        let held = array.clone();
        drop(array);
        assert_ne!(address(&buffer(DType::F32, length).unwrap()), place, "it is in use");
        drop(held);
        assert_eq!(buffer(DType::F64, length).unwrap().dtype(), DType::F64);
        let again = buffer(DType::F32, length).unwrap();
        assert_eq!((address(&again), again.len()), (place, length));
    }

    #[test]
    fn little_is_kept() {
        let large = 1 << 22;
        for _ in 0..10 {
            let arrays: Vec<Array> =
                (0..8).map(|_| Array::new(Shape::from(large), Buffer::zeros(DType::F32, large))).collect();
            drop(arrays);
        }
        let total = KEPT.with_borrow(|kept| kept.iter().map(bytes).sum::<usize>());
        assert!((1..=MOST_BYTES).contains(&total), "{total} bytes");
    }
}
