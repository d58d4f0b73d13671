//! Elements as the bytes of a file.

use safetensors::Dtype;

use crate::array::Buffer;
use crate::dtype::DType;

/// The name of a type in files.
pub(super) fn dtype_of(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::I64 => Dtype::I64,
        DType::Bool => Dtype::BOOL,
    }
}

/// Elements as bytes, the lowest first.
pub(super) fn to_bytes(buffer: &Buffer) -> Vec<u8> {
    match buffer {
        Buffer::F32(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::F64(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::I64(elements) => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Buffer::Bool(elements) => elements.iter().map(|x| u8::from(*x)).collect(),
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
        Dtype::F16 => Buffer::F32(each(bytes, |bytes| from_half(u16::from_le_bytes(bytes)))),
        // The upper half of a number of 32 bits.
        Dtype::BF16 => Buffer::F32(each(bytes, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))),
        Dtype::I64 => Buffer::I64(each(bytes, i64::from_le_bytes)),
        Dtype::I32 => Buffer::I64(each(bytes, |bytes| i64::from(i32::from_le_bytes(bytes)))),
        Dtype::U32 => Buffer::I64(each(bytes, |bytes| i64::from(u32::from_le_bytes(bytes)))),
        Dtype::I16 => Buffer::I64(each(bytes, |bytes| i64::from(i16::from_le_bytes(bytes)))),
        Dtype::U16 => Buffer::I64(each(bytes, |bytes| i64::from(u16::from_le_bytes(bytes)))),
        Dtype::I8 => Buffer::I64(each(bytes, |bytes| i64::from(i8::from_le_bytes(bytes)))),
        Dtype::U8 => Buffer::I64(each(bytes, |bytes| i64::from(u8::from_le_bytes(bytes)))),
        Dtype::BOOL => Buffer::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
        _ => return None,
    })
}

/// A number of 16 bits: a sign, five bits of exponent, ten bits behind the point.
fn from_half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    let size = match exponent {
        0 => fraction as f32 * 2.0_f32.powi(-24),
        31 => f32::from_bits(0x7F80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if sign == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        let cases = [
            (0x0000, 0.0),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0001, 2.0_f32.powi(-24)),
            (0x3555, 0.333_251_95),
        ];
        for (bits, number) in cases {
            assert_eq!(from_half(bits), number, "{bits:x}");
        }
        assert_eq!(from_half(0xFC00), f32::NEG_INFINITY);
        assert!(from_half(0x7E00).is_nan());
    }

    #[test]
    fn bytes_and_back() {
        let buffers = [
            Buffer::F32(vec![1.5, f32::MIN_POSITIVE, -0.0]),
            Buffer::F64(vec![1e300, f64::INFINITY]),
            Buffer::I64(vec![i64::MIN, 7]),
            Buffer::Bool(vec![true, false]),
            Buffer::F32(Vec::new()),
        ];
        for buffer in buffers {
            assert_eq!(from_bytes(dtype_of(buffer.dtype()), &to_bytes(&buffer)), Some(buffer));
        }
        assert_eq!(from_bytes(Dtype::U8, &[255]), Some(Buffer::I64(vec![255])));
        assert_eq!(from_bytes(Dtype::BF16, &[0x80, 0x3F]), Some(Buffer::F32(vec![1.0])));
        assert_eq!(from_bytes(Dtype::U64, &[0; 8]), None);
    }
}
