//! Contractions that a library of convolutions runs: which of them are convolutions of images that are stored channels-last, or the gradients of
//! their kernels, and how they are called.

use super::source::contraction::count;
use crate::dtype::DType;
use crate::opt::memory::aligned;
use crate::opt::program::{Access, Contraction, ContractionAxis, Loop, Memory, Store};

/// What a library computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    /// The outputs, from images and a kernel.
    Outputs,
    /// The cotangent of the kernel, from images and the cotangents of the outputs.
    Kernel,
}

/// Images as the library sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Images {
    /// Batch, channels, height and width.
    pub(super) sizes: [usize; 4],
    /// How far apart their elements are along each.
    pub(super) strides: [usize; 4],
}

/// A convolution without padding. Kernels are dense, in the order outputs, height, width, channels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Convolution {
    pub(super) direction: Direction,
    pub(super) dtype: DType,
    pub(super) images: Images,
    pub(super) outputs: Images,
    /// Outputs, channels, height and width.
    pub(super) kernel: [usize; 4],
    /// How far windows move, and how far apart the places are that the kernel reads, vertically and horizontally.
    pub(super) stride: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) coefficient: f64,
    /// The first element of the images, of the kernel, and of the outputs or their cotangents.
    pub(super) offsets: [isize; 3],
}

/// A contraction that is a convolution.
pub(super) struct Convolved {
    pub(super) convolution: Convolution,
    /// The memory of the images, the kernel and the outputs.
    pub(super) memories: [Memory; 3],
    /// Copies the kernel into the scratch memory that the library reads, or from the one that it writes.
    pub(super) copy: Loop,
    /// The bytes of scratch memory.
    pub(super) scratch: usize,
}

/// The bytes that vectors of a library are aligned to.
const ALIGNMENT: usize = 16;

/// The axes of a contraction by what moves along them.
struct Axes {
    /// Along images and the result, along the other factor and the result, along both factors.
    images: Vec<ContractionAxis>,
    other: Vec<ContractionAxis>,
    summed: Vec<ContractionAxis>,
}

impl Axes {
    fn of(product: &Contraction, images: usize) -> Option<Axes> {
        let Contraction { batch, sums, rows, columns, inner, .. } = product;
        let mut axes = Axes { images: Vec::new(), other: Vec::new(), summed: Vec::new() };
        let all = batch.iter().chain(sums).chain([rows, columns, inner]).filter(|axis| axis.extent != 1);
        for axis in all {
            let [own, other, result] = [images, 1 - images, 2].map(|operand| axis.strides[operand] != 0);
            match (own, other, result) {
                (true, false, true) => axes.images.push(*axis),
                (false, true, true) => axes.other.push(*axis),
                (true, true, false) => axes.summed.push(*axis),
                _ => return None,
            }
        }
        let far = |axis: &ContractionAxis| std::cmp::Reverse(axis.strides[images].unsigned_abs());
        [&mut axes.images, &mut axes.summed].into_iter().for_each(|axes| axes.sort_by_key(far));
        Some(axes)
    }
}

/// Batch, rows and columns of windows, and channels, rows and columns of the kernel: axes that move along the images.
struct Windows {
    places: [ContractionAxis; 3],
    channels: ContractionAxis,
    taps: [ContractionAxis; 2],
}

impl Windows {
    /// The windows, if axes are places in images, and channels and taps, each those with the largest strides first.
    fn of(places: &[ContractionAxis], inside: &[ContractionAxis], images: usize) -> Option<Windows> {
        let places: [ContractionAxis; 3] = places.try_into().ok()?;
        let (channels, taps) = inside.split_last()?;
        let still = ContractionAxis { extent: 1, strides: [0; 3] };
        let taps = match taps {
            [vertical, horizontal] => [*vertical, *horizontal],
            [] => [still, still],
            _ => return None,
        };
        let is_ahead = places.iter().all(|axis| axis.strides[images] > 0);
        (channels.strides[images] == 1 && is_ahead).then_some(Windows { places, channels: *channels, taps })
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// How windows move over images, whose elements are read from this one on.
struct Slid {
    images: Images,
    stride: [usize; 2],
    dilation: [usize; 2],
}

impl Slid {
    fn of(windows: &Windows, images: usize, offset: isize) -> Option<Slid> {
        let [batch, vertical, horizontal] = windows.places.map(|axis| axis.strides[images].unsigned_abs());
        let steps = windows.taps.map(|axis| axis.strides[images].unsigned_abs());
        let channels = windows.channels.extent;
        // The elements from one column of the images to the next, and from one row to the next.
        let (column, row) = match steps {
            [0, 0] => {
                let stride = horizontal / channels;
                (channels, if stride > 0 && horizontal % channels == 0 { vertical / stride } else { 0 })
            }
            _ => (greatest_common_divisor(horizontal, steps[1]), greatest_common_divisor(vertical, steps[0])),
        };
        if row == 0 || column < channels || vertical % row != 0 || horizontal % column != 0 {
            return None;
        }
        let (stride, dilation) =
            ([vertical / row, horizontal / column], [(steps[0] / row).max(1), (steps[1] / column).max(1)]);
        let sizes = [0, 1].map(|k| {
            let (count, taps) = (windows.places[k + 1].extent, windows.taps[k].extent);
            let needed = (count - 1) * stride[k] + (taps - 1) * dilation[k] + 1;
            // All of a row, or of an image, if windows leave less of it than they move by: dense arrays are the usual case.
            let whole = [batch, row][k] / [row, column][k];
            let is_whole = offset == 0 && [batch, row][k] % [row, column][k] == 0;
            if is_whole && (needed..needed + stride[k]).contains(&whole) { whole } else { needed }
        });
        let [height, width] = sizes;
        let images =
            Images { sizes: [windows.places[0].extent, channels, height, width], strides: [batch, 1, row, column] };
        Some(Slid { images, stride, dilation })
    }
}

/// Images at the places of windows, in the memory of an operand.
fn outputs(windows: &Windows, channels: ContractionAxis, operand: usize) -> Option<Images> {
    let [batch, height, width] = windows.places;
    let strides = [batch, channels, height, width].map(|axis| usize::try_from(axis.strides[operand]).unwrap_or(0));
    let images = Images { sizes: [batch, channels, height, width].map(|axis| axis.extent), strides };
    (strides[1] == 1 && !strides.contains(&0)).then_some(images)
}

/// The convolution that a contraction is, if it is one.
pub(super) fn convolution(product: &Contraction) -> Option<Convolved> {
    let is_plain = product.masked == [false; 2] && product.epilogue.is_none() && product.clear.is_none();
    if !is_plain || !product.operands[2].dtype.is_float() {
        return None;
    }
    [0, 1].into_iter().find_map(|images| forward(product, images).or_else(|| gradient(product, images)))
}

/// The outputs of a convolution, if a factor of a product is its images.
fn forward(product: &Contraction, images: usize) -> Option<Convolved> {
    let axes = Axes::of(product, images)?;
    let [channels] = axes.other[..] else { return None };
    let windows = Windows::of(&axes.images, &axes.summed, images)?;
    convolved(product, Direction::Outputs, images, &windows, channels)
}

/// The gradient of a kernel, if a factor of a product is the images that it was multiplied with.
fn gradient(product: &Contraction, images: usize) -> Option<Convolved> {
    let axes = Axes::of(product, images)?;
    let [channels] = axes.other[..] else { return None };
    let windows = Windows::of(&axes.summed, &axes.images, images)?;
    convolved(product, Direction::Kernel, images, &windows, channels)
}

/// The call of a library: the axis of output channels is given.
fn convolved(
    product: &Contraction,
    direction: Direction,
    images: usize,
    windows: &Windows,
    channels: ContractionAxis,
) -> Option<Convolved> {
    let operands = &product.operands;
    let (kernel, result) = match direction {
        Direction::Outputs => (1 - images, 2),
        Direction::Kernel => (2, 1 - images),
    };
    // The library reads kernels forwards: images are read from the other end where they are read backwards.
    let reversed = |axis: &ContractionAxis| axis.strides[images] < 0;
    let moved = |operand: usize| -> isize {
        let reversed = windows.taps.iter().filter(|axis| reversed(axis));
        reversed.map(|axis| axis.strides[operand] * (axis.extent as isize - 1)).sum()
    };
    let turned = |axis: ContractionAxis| match reversed(&axis) {
        true => ContractionAxis { strides: axis.strides.map(|stride| -stride), ..axis },
        false => axis,
    };
    let offset = operands[images].offset + moved(images);
    let windows = Windows { taps: windows.taps.map(turned), ..*windows };
    let slid = Slid::of(&windows, images, offset)?;
    let outputs = outputs(&windows, channels, result)?;
    let [vertical, horizontal] = windows.taps;
    let dtype = operands[2].dtype;
    let is_aligned = |images: &Images, offset: isize, memory: Memory| {
        let unit = ALIGNMENT / dtype.bytes();
        let strides = [images.strides[0], images.strides[2], images.strides[3]];
        // Inputs may begin anywhere in the array of a leaf.
        !matches!(memory, Memory::Input(_))
            && strides.iter().all(|stride| stride % unit == 0)
            && images.sizes[1].is_multiple_of(unit)
            && offset % unit as isize == 0
    };
    if !is_aligned(&slid.images, offset, operands[images].memory)
        || !is_aligned(&outputs, operands[result].offset, operands[result].memory)
    {
        return None;
    }
    // The kernel lies densely in scratch memory.
    let order = [channels, vertical, horizontal, windows.channels];
    let extents: Vec<usize> = order.iter().map(|axis| axis.extent).collect();
    let mut dense = vec![1; 4];
    for axis in (1..4).rev() {
        dense[axis - 1] = dense[axis] * extents[axis] as isize;
    }
    let scratch = aligned(count(&order) * dtype.bytes());
    let packed = Access { memory: Memory::Tile, dtype, offset: 0, strides: dense };
    let strides = order.iter().map(|axis| axis.strides[kernel]).collect();
    let own = Access { strides, offset: operands[kernel].offset + moved(kernel), ..operands[kernel].clone() };
    let (from, to) = match direction {
        Direction::Outputs => (own, packed),
        Direction::Kernel => (packed, own),
    };
    let copy = Loop {
        along_rows: vec![false; 4],
        loads: vec![from],
        code: Vec::new(),
        by_row: vec![false],
        stores: vec![Store { register: 0, access: to, reduction: None, scale: 1.0, clear: None }],
        extents,
    };
    let convolution = Convolution {
        direction,
        dtype,
        images: slid.images,
        outputs,
        kernel: [channels.extent, windows.channels.extent, vertical.extent, horizontal.extent],
        stride: slid.stride,
        dilation: slid.dilation,
        coefficient: product.coefficient,
        offsets: [offset, 0, operands[result].offset],
    };
    let memories = [operands[images].memory, Memory::Tile, operands[result].memory];
    Some(Convolved { convolution, memories, copy, scratch })
}
