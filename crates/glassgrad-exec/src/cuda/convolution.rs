//! Contractions that a library of convolutions runs: which of them are convolutions of images that are stored channels-last, or the gradients of
//! their kernels or, with the scatter of their windows, of their images; and how they are called.

use super::source::contraction::count;
use crate::dtype::DType;
use crate::memory::aligned;
use crate::program::{Access, Contraction, ContractionAxis, Loop, Memory, Store};
use crate::view::View;

/// What a library computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    /// The outputs, from images and a kernel.
    Outputs,
    /// The cotangent of the kernel, from images and the cotangents of the outputs.
    Kernel,
    /// The cotangent of the images, from a kernel and the cotangents of the outputs.
    Images,
}

/// Images as the library sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Images {
    /// Batch, channels, height and width.
    pub(super) sizes: [usize; 4],
    /// How far apart their elements are along each.
    pub(super) strides: [usize; 4],
}

/// A convolution. Kernels are dense, in the order outputs, height, width, channels.
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
    /// The zeros in front of the images and behind them, vertically and horizontally.
    pub(super) padding: [[usize; 2]; 2],
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

/// The strides of a dense array.
fn rows(extents: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis] as isize;
    }
    strides
}

/// A loop that copies.
fn copied(extents: Vec<usize>, from: Access, to: Access) -> Loop {
    Loop {
        along_rows: vec![false; extents.len()],
        loads: vec![from],
        code: Vec::new(),
        by_row: vec![false],
        stores: vec![Store { register: 0, access: to, reduction: None, scale: 1.0, clear: None }],
        extents,
    }
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
        Direction::Images => unreachable!("cotangents of images are scattered"),
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
    let dense = rows(&extents);
    let scratch = aligned(count(&order) * dtype.bytes());
    let packed = Access { memory: Memory::Tile, dtype, offset: 0, strides: dense };
    let strides = order.iter().map(|axis| axis.strides[kernel]).collect();
    let own = Access { strides, offset: operands[kernel].offset + moved(kernel), ..operands[kernel].clone() };
    let copy = match direction {
        Direction::Outputs | Direction::Images => copied(extents, own, packed),
        Direction::Kernel => copied(extents, packed, own),
    };
    let convolution = Convolution {
        direction,
        dtype,
        images: slid.images,
        outputs,
        kernel: [channels.extent, windows.channels.extent, vertical.extent, horizontal.extent],
        stride: slid.stride,
        dilation: slid.dilation,
        padding: [[0; 2]; 2],
        coefficient: product.coefficient,
        offsets: [offset, 0, operands[result].offset],
    };
    let memories = [operands[images].memory, Memory::Tile, operands[result].memory];
    Some(Convolved { convolution, memories, copy, scratch })
}

/// A product of the cotangents of outputs with a kernel, and the scatter of its windows into images: a convolution by a library takes the place of
/// the product. It leaves the images where the windows would be, and the scatter copies them: memory of the operands may be used again by then.
pub(super) struct Transposed {
    pub(super) convolved: Convolved,
    pub(super) copy: Loop,
}

/// The axis of a contraction that a dimension of its result lies along, with the strides of the dimension in both factors.
fn along(product: &Contraction, extent: usize, stride: isize) -> Option<[isize; 2]> {
    let Contraction { batch, rows, columns, .. } = product;
    let is_own = |axis: &&ContractionAxis| {
        let (own, steps) = (axis.strides[2], if axis.strides[2] > 0 { stride / axis.strides[2] } else { 0 });
        own > 0 && stride % own == 0 && steps >= 1 && (steps as usize) * extent <= axis.extent
    };
    let axis = batch.iter().chain([rows, columns]).filter(is_own).max_by_key(|axis| axis.strides[2])?;
    let steps = stride / axis.strides[2];
    Some([axis.strides[0] * steps, axis.strides[1] * steps])
}

/// The transposed convolution that a product and a scatter of its windows are, if they are one. The windows are a dense array in the memory of the
/// product's result.
pub(super) fn transposed(product: &Contraction, view: &View, result: &Access) -> Option<Transposed> {
    let is_plain = product.masked == [false; 2]
        && product.epilogue.is_none()
        && product.clear.is_none()
        && product.sums.is_empty()
        && product.operands[2].offset == 0;
    let dtype = product.operands[2].dtype;
    if !is_plain || dtype != result.dtype || view.input.elements() > view.output.elements() {
        return None;
    }
    let lying = rows(&view.output);
    let dimension = |place: usize| match view.output[place] {
        1 => Some((1, [0, 0])),
        extent => Some((extent, along(product, extent, lying[place])?)),
    };
    // Axes of size 1 stand still; batch, height, width and channels are left.
    let axes: Vec<usize> = (0..view.input.rank()).filter(|axis| view.input[*axis] != 1).collect();
    let [batch, height, width, channels] = axes[..] else { return None };
    let alone = |axis: usize| match view.axes[axis].steps[..] {
        [(place, 1)] if view.axes[axis].offset == 0 && view.output[place] == view.input[axis] => dimension(place),
        _ => None,
    };
    // Positions of windows come first, and places in them second; windows of one place may have only the first.
    let slid = |axis: usize| match view.axes[axis].steps[..] {
        [(position, stride), (tap, dilation)] if stride > 0 && dilation > 0 => {
            Some((dimension(position)?, dimension(tap)?, [stride as usize, dilation as usize]))
        }
        _ => None,
    };
    let (batch_size, batch_strides) = alone(batch)?;
    let (channel_count, channel_strides) = alone(channels)?;
    let [down, across] = [slid(height)?, slid(width)?];
    let (outputs, inner) = (product.inner.extent, product.inner.strides);
    // The cotangents move along batch and positions, the kernel along channels and taps.
    let (cotangents, kernel) = if batch_strides[0] != 0 { (0, 1) } else { (1, 0) };
    let is_apart =
        [batch_strides, down.0.1, across.0.1].iter().all(|strides| strides[cotangents] > 0 && strides[kernel] == 0)
            && [channel_strides, down.1.1, across.1.1].iter().all(|strides| strides[cotangents] == 0);
    let unit = (ALIGNMENT / dtype.bytes()) as isize;
    let strides = [batch_strides[cotangents], 1, down.0.1[cotangents], across.0.1[cotangents]];
    let is_aligned = [strides[0], strides[2], strides[3], outputs as isize, channel_count as isize]
        .iter()
        .all(|number| number % unit == 0)
        && product.operands[cotangents].offset % unit == 0
        && !matches!(product.operands[cotangents].memory, Memory::Input(_));
    if !is_apart || !is_aligned || inner[cotangents] != 1 || inner[2] != 0 {
        return None;
    }
    let padding = [(height, &down), (width, &across)].map(|(axis, (positions, taps, [stride, dilation]))| {
        let before = usize::try_from(-view.axes[axis].offset).ok()?;
        let (size, spanned) = (view.input[axis], (taps.0 - 1) * dilation + 1);
        let count = |after: usize| (size + before + after).checked_sub(spanned).map(|left| left / stride + 1);
        let needed = ((positions.0 - 1) * stride + spanned).saturating_sub(size + before);
        [before, needed].into_iter().find(|after| count(*after) == Some(positions.0)).map(|after| [before, after])
    });
    let [Some(vertical), Some(horizontal)] = padding else { return None };
    let dense = |sizes: [usize; 4]| {
        let [_, channels, height, width] = sizes;
        Images { sizes, strides: [height * width * channels, 1, width * channels, channels] }
    };
    let extents = vec![outputs, down.1.0, across.1.0, channel_count];
    let own = Access {
        strides: vec![inner[kernel], down.1.1[kernel], across.1.1[kernel], channel_strides[kernel]],
        ..product.operands[kernel].clone()
    };
    let packed = Access { memory: Memory::Tile, dtype, offset: 0, strides: rows(&extents) };
    let convolution = Convolution {
        direction: Direction::Images,
        dtype,
        images: dense([batch_size, channel_count, view.input[height], view.input[width]]),
        outputs: Images {
            sizes: [batch_size, outputs, down.0.0, across.0.0],
            strides: strides.map(|stride| stride as usize),
        },
        kernel: [outputs, channel_count, down.1.0, across.1.0],
        stride: [down.2[0], across.2[0]],
        dilation: [down.2[1], across.2[1]],
        padding: [vertical, horizontal],
        coefficient: product.coefficient,
        offsets: [0, 0, product.operands[cotangents].offset],
    };
    let scratch = aligned(extents.iter().product::<usize>() * dtype.bytes());
    let memories = [product.operands[2].memory, Memory::Tile, product.operands[cotangents].memory];
    let elements = vec![view.input.elements()];
    let from = Access { strides: vec![1], ..product.operands[2].clone() };
    let copy = copied(elements, from, Access { strides: vec![1], ..result.clone() });
    Some(Transposed {
        convolved: Convolved { convolution, memories, copy: copied(extents, own, packed), scratch },
        copy,
    })
}
