//! Elements as the bytes of a file.

use safetensors::Dtype;

use crate::array::Buffer;
use crate::dtype::{DType, bf16, f16};

/// The name of a type in files.
pub(super) fn dtype_of(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::I64 => Dtype::I64,
        DType::Bool => Dtype::BOOL,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::U8 => Dtype::U8,
    }
}

/// Elements as bytes, the lowest first.
pub(super) fn to_bytes(buffer: &Buffer) -> Vec<u8> {
    match buffer {
        Buffer::F32(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::F64(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::I64(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::Bool(elements) => elements.iter().map(|x| u8::from(*x)).collect(),
        Buffer::F16(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::BF16(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::I32(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::U8(elements) => elements.clone(),
    }
}

/// Elements from bytes. Types that tensors do not have become the nearest that holds all their numbers; `None` if there is
/// none.
pub(super) fn from_bytes(dtype: Dtype, bytes: &[u8]) -> Option<Buffer> {
    fn each<const N: usize, E>(bytes: &[u8], element: impl Fn([u8; N]) -> E) -> Vec<E> {
        bytes.as_chunks::<N>().0.iter().map(|bytes| element(*bytes)).collect()
    }
    Some(match dtype {
        Dtype::F32 => Buffer::F32(each(bytes, f32::from_le_bytes)),
        Dtype::F64 => Buffer::F64(each(bytes, f64::from_le_bytes)),
        Dtype::F16 => Buffer::F16(each(bytes, f16::from_le_bytes)),
        Dtype::BF16 => Buffer::BF16(each(bytes, bf16::from_le_bytes)),
        Dtype::I64 => Buffer::I64(each(bytes, i64::from_le_bytes)),
        Dtype::I32 => Buffer::I32(each(bytes, i32::from_le_bytes)),
        Dtype::U32 => Buffer::I64(each(bytes, |bytes| i64::from(u32::from_le_bytes(bytes)))),
        Dtype::I16 => Buffer::I64(each(bytes, |bytes| i64::from(i16::from_le_bytes(bytes)))),
        Dtype::U16 => Buffer::I64(each(bytes, |bytes| i64::from(u16::from_le_bytes(bytes)))),
        Dtype::I8 => Buffer::I64(each(bytes, |bytes| i64::from(i8::from_le_bytes(bytes)))),
        Dtype::U8 => Buffer::U8(bytes.to_vec()),
        Dtype::BOOL => Buffer::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let buffers = [
            Buffer::F32(vec![1.5, f32::MIN_POSITIVE, -0.0]),
            Buffer::F64(vec![1e300, f64::INFINITY]),
            Buffer::I64(vec![i64::MIN, 7]),
            Buffer::Bool(vec![true, false]),
            Buffer::F32(Vec::new()),
            Buffer::F16(vec![f16::MAX, f16::MIN_POSITIVE_SUBNORMAL, f16::NEG_INFINITY]),
            Buffer::BF16(vec![bf16::MAX, bf16::from_f32(-0.1)]),
            Buffer::I32(vec![i32::MIN, 7]),
            Buffer::U8(vec![0, 255]),
        ];
        for buffer in buffers {
            assert_eq!(from_bytes(dtype_of(buffer.dtype()), &to_bytes(&buffer)), Some(buffer));
        }
        assert_eq!(from_bytes(Dtype::I8, &[255]), Some(Buffer::I64(vec![-1])));
        assert_eq!(from_bytes(Dtype::BF16, &[0x80, 0x3F]), Some(Buffer::BF16(vec![bf16::ONE])));
        assert_eq!(from_bytes(Dtype::F16, &[0xFF, 0x7B]), Some(Buffer::F16(vec![f16::MAX])));
        assert_eq!(from_bytes(Dtype::U64, &[0; 8]), None);
    }
}
