//! Products that are their own transpose, by cuBLAS: one triangle is computed.

use cudarc::cublas::sys as cublas;

use super::super::super::device::Address;
use super::super::super::product::Product;
use super::{Products, at, direction, failure};
use crate::dtype::DType;

impl Products {
    /// The lower triangle of a product that is its own transpose.
    pub(super) fn triangle(&self, product: &Product, places: [Address; 3], alpha: [u64; 2]) -> Result<(), String> {
        let [n, _, k] = product.sizes.map(|size| size as i32);
        let [(offsets, _)] = &product.calls[..] else { unreachable!("a triangle of several products") };
        let place = |k: usize| at(places[k], offsets[k], product.dtype);
        let fill = cublas::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;
        let direction = direction(&product.x);
        let [x, y, result] = [&product.x, &product.y, &product.result].map(|matrix| matrix.leading as i32);
        let (handle, zero) = (self.cublas.0.cast(), [0_u64; 2]);
        // SAFETY: the plan's addresses hold what the verified program accesses; both scalars are host numbers of the type, of which
        // zero is all bits zero.
        let status = unsafe {
            match product.dtype {
                DType::F32 => cublas::cublasSsyrkx(
                    handle,
                    fill,
                    direction,
                    n,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const f32,
                    x,
                    place(1) as *const f32,
                    y,
                    zero.as_ptr().cast(),
                    place(2) as *mut f32,
                    result,
                ),
                DType::F64 => cublas::cublasDsyrkx(
                    handle,
                    fill,
                    direction,
                    n,
                    k,
                    alpha.as_ptr().cast(),
                    place(0) as *const f64,
                    x,
                    place(1) as *const f64,
                    y,
                    zero.as_ptr().cast(),
                    place(2) as *mut f64,
                    result,
                ),
                DType::F16 | DType::BF16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                    unreachable!("triangles of {} are products of whole matrices", product.dtype)
                }
            }
        };
        status.result().map_err(failure)
    }
}
