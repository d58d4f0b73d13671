//! The elements of host arrays as bytes, without a copy: batches are uploaded in every step.
#![allow(unsafe_code)]

use std::borrow::Cow;

use crate::array::Buffer;

/// The elements of a buffer as the bytes that a device reads.
pub(super) fn bytes_of_buffer(buffer: &Buffer) -> Cow<'_, [u8]> {
    /// Elements of a type without padding.
    fn view<E>(elements: &[E]) -> Cow<'_, [u8]> {
        // SAFETY: the slice is as long as its elements, which are numbers without padding, and every byte may be read as one.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) })
    }
    match buffer {
        Buffer::F32(elements) => view(elements),
        Buffer::F64(elements) => view(elements),
        Buffer::I64(elements) => view(elements),
        Buffer::F16(elements) => view(elements),
        Buffer::BF16(elements) => view(elements),
        Buffer::I32(elements) => view(elements),
        Buffer::U8(elements) => view(elements),
        Buffer::Bool(_) => Cow::Owned(buffer.to_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes_of_buffer;
    use crate::array::Buffer;
    use crate::dtype::{bf16, f16};

    #[test]
    fn views_are_the_bytes_of_copies() {
        let buffers = [
            Buffer::F32(vec![1.5, -0.0, f32::NAN]),
            Buffer::F64(vec![1e300, 2.0]),
            Buffer::I64(vec![-1, i64::MAX]),
            Buffer::Bool(vec![true, false]),
            Buffer::F16(vec![f16::from_f32(1.5)]),
            Buffer::BF16(vec![bf16::from_f32(-2.5)]),
            Buffer::I32(vec![7, -7]),
            Buffer::U8(vec![0, 255]),
            Buffer::F32(Vec::new()),
        ];
        for buffer in buffers {
            assert_eq!(&*bytes_of_buffer(&buffer), buffer.to_bytes(), "{:?}", buffer.dtype());
        }
    }
}
