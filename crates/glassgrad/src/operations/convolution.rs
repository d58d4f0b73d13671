//! Convolution: an einsum of windows and a kernel; and its transpose, an einsum that is folded.

use std::borrow::Cow;

use super::PerAxis;
use super::window::window_view;
use crate::error::Error;
use crate::expr::Tensor;
use crate::view::Window;

/// How a kernel slides over `N` axes. By default it moves by one place, without padding or gaps, and every output
/// channel sees every input channel.
///
/// ```
/// use glassgrad::operations::Convolution;
/// let how = Convolution::<2>::default().stride(2).padding([1, 0]).groups(3);
/// assert_eq!((how.stride, how.padding, how.dilation, how.groups), ([2, 2], [(1, 1), (0, 0)], [1, 1], 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution<const N: usize> {
    /// How far the kernel moves at a time.
    pub stride: [usize; N],
    /// How many zeros stand in front of each axis and behind it.
    pub padding: [(usize, usize); N],
    /// How far apart the places are that the kernel reads.
    pub dilation: [usize; N],
    /// Into how many parts the channels are divided, each with kernels of its own.
    pub groups: usize,
    /// How many places more a transposed convolution makes behind each axis.
    pub output_padding: [usize; N],
}

impl<const N: usize> Default for Convolution<N> {
    fn default() -> Self {
        Convolution { stride: [1; N], padding: [(0, 0); N], dilation: [1; N], groups: 1, output_padding: [0; N] }
    }
}

impl<const N: usize> Convolution<N> {
    /// The kernel moves by this many places.
    ///
    /// ```
    /// use glassgrad::operations::Convolution;
    /// assert_eq!(Convolution::<2>::default().stride([2, 1]).stride, [2, 1]);
    /// ```
    pub fn stride(self, stride: impl PerAxis<N>) -> Self {
        Convolution { stride: stride.per_axis(), ..self }
    }

    /// As many zeros in front of each axis as behind it.
    ///
    /// ```
    /// use glassgrad::operations::Convolution;
    /// assert_eq!(Convolution::<1>::default().padding(2).padding, [(2, 2)]);
    /// ```
    pub fn padding(self, padding: impl PerAxis<N>) -> Self {
        Convolution { padding: padding.per_axis().map(|width| (width, width)), ..self }
    }

    /// The places that the kernel reads are this far apart.
    ///
    /// ```
    /// use glassgrad::operations::Convolution;
    /// assert_eq!(Convolution::<2>::default().dilation(3).dilation, [3, 3]);
    /// ```
    pub fn dilation(self, dilation: impl PerAxis<N>) -> Self {
        Convolution { dilation: dilation.per_axis(), ..self }
    }

    /// The channels are divided into this many parts.
    ///
    /// ```
    /// use glassgrad::operations::Convolution;
    /// assert_eq!(Convolution::<2>::default().groups(4).groups, 4);
    /// ```
    pub fn groups(self, groups: usize) -> Self {
        Convolution { groups, ..self }
    }

    /// A transposed convolution makes this many places more behind each axis: a stride forgets how many there were.
    ///
    /// ```
    /// use glassgrad::operations::Convolution;
    /// assert_eq!(Convolution::<1>::default().stride(2).output_padding(1).output_padding, [1]);
    /// ```
    pub fn output_padding(self, places: impl PerAxis<N>) -> Self {
        Convolution { output_padding: places.per_axis(), ..self }
    }

    pub(super) fn windows(&self, sizes: &[usize]) -> Vec<Window> {
        (0..N)
            .map(|k| Window {
                size: sizes[k],
                stride: self.stride[k],
                dilation: self.dilation[k],
                padding: self.padding[k],
            })
            .collect()
    }
}

impl Tensor {
    /// [`Tensor::conv1d`] along the last `N` axes: `[…, channels, n…]` with `[outputs, channels / groups, k…]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let volume = Tensor::ones([1, 4, 4, 4]);
    /// let sums = volume.conv(&Tensor::ones([1, 1, 2, 2, 2]), Convolution::<3>::default());
    /// assert_eq!(sums.shape().to_string(), "[1, 3, 3, 3]");
    /// ```
    #[track_caller]
    pub fn conv<const N: usize>(&self, kernel: &Tensor, config: Convolution<N>) -> Tensor {
        self.convolve(super::with_axes(["conv", "conv1d", "conv2d", "conv3d"], N), kernel, config)
    }

    /// The product of windows with a kernel along the last axis, as learning calls convolution (the kernel is not
    /// reversed): `[…, channels, n]` with `[outputs, channels / groups, k]` gives `[…, outputs, m]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let signal = Tensor::from([[1.0, 2.0, 4.0, 8.0]]);
    /// let difference = Tensor::from([[[-1.0, 1.0]]]);
    /// assert_eq!(signal.conv1d(&difference, Convolution::default()).to_string(), "[[1, 2, 4]]");
    /// ```
    #[track_caller]
    pub fn conv1d(&self, kernel: &Tensor, config: Convolution<1>) -> Tensor {
        self.convolve("conv1d", kernel, config)
    }

    /// [`Tensor::conv1d`] along the last two axes: `[…, channels, height, width]` with
    /// `[outputs, channels / groups, k, l]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let image = Tensor::arange(9.0).reshape([1, 3, 3]);
    /// let kernel = Tensor::ones([1, 1, 2, 2]).cast(image.dtype());
    /// assert_eq!(image.conv2d(&kernel, Convolution::default()).to_string(), "[[[ 8, 12],\n  [20, 24]]]");
    /// ```
    #[track_caller]
    pub fn conv2d(&self, kernel: &Tensor, config: Convolution<2>) -> Tensor {
        self.convolve("conv2d", kernel, config)
    }

    /// [`Tensor::conv1d`] along the last three axes: `[…, channels, depth, height, width]` with
    /// `[outputs, channels / groups, k, l, m]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let sums = Tensor::ones([1, 4, 4, 4]).conv3d(&Tensor::ones([2, 1, 2, 2, 2]), Convolution::default());
    /// assert_eq!(sums.shape().to_string(), "[2, 3, 3, 3]");
    /// ```
    #[track_caller]
    pub fn conv3d(&self, kernel: &Tensor, config: Convolution<3>) -> Tensor {
        self.convolve("conv3d", kernel, config)
    }

    /// The transpose of [`Tensor::conv1d`] in the signal: `[…, channels, m]` with
    /// `[channels, outputs / groups, k]` gives `[…, outputs, n]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let signal = Tensor::from([[1.0, 2.0]]);
    /// let kernel = Tensor::from([[[1.0, 10.0]]]);
    /// let wide = signal.conv_transpose1d(&kernel, Convolution::default().stride(2));
    /// assert_eq!(wide.to_string(), "[[ 1, 10,  2, 20]]");
    /// ```
    #[track_caller]
    pub fn conv_transpose1d(&self, kernel: &Tensor, config: Convolution<1>) -> Tensor {
        self.convolve_transposed("conv_transpose1d", kernel, config)
    }

    /// The transpose of [`Tensor::conv2d`] in the image: `[…, channels, height, width]` with
    /// `[channels, outputs / groups, k, l]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let (image, kernel) = (Tensor::ones([1, 2, 2]), Tensor::ones([1, 1, 2, 2]));
    /// let wide = image.conv_transpose2d(&kernel, Convolution::default());
    /// assert_eq!(wide.to_string(), "[[[1, 2, 1],\n  [2, 4, 2],\n  [1, 2, 1]]]");
    /// ```
    #[track_caller]
    pub fn conv_transpose2d(&self, kernel: &Tensor, config: Convolution<2>) -> Tensor {
        self.convolve_transposed("conv_transpose2d", kernel, config)
    }

    /// The transpose of [`Tensor::conv3d`] in the volume: `[…, channels, depth, height, width]` with
    /// `[channels, outputs / groups, k, l, m]`.
    ///
    /// ```
    /// use glassgrad::{Tensor, operations::Convolution};
    /// let wide = Tensor::ones([1, 2, 2, 2]).conv_transpose3d(&Tensor::ones([1, 1, 2, 2, 2]), Convolution::default());
    /// assert_eq!(wide.shape().to_string(), "[1, 3, 3, 3]");
    /// ```
    #[track_caller]
    pub fn conv_transpose3d(&self, kernel: &Tensor, config: Convolution<3>) -> Tensor {
        self.convolve_transposed("conv_transpose3d", kernel, config)
    }

    #[track_caller]
    fn convolve<const N: usize>(&self, name: &str, kernel: &Tensor, config: Convolution<N>) -> Tensor {
        let operands = match Operands::new(name, self, kernel, &config, true) {
            Ok(operands) => operands,
            Err(failed) => return failed,
        };
        let signal = operands.signal();
        let view = match window_view(name, signal.shape(), signal.rank() - N, &config.windows(&kernel.shape()[2..])) {
            Ok(view) => view,
            Err(error) => return Tensor::refused(error, &[self, kernel]),
        };
        let (lead, outputs) = (operands.lead, kernel.shape()[0]);
        let sizes = view.output[lead + 2..lead + 2 + N].to_vec();
        let mut labels = Labels::default();
        let [batch, group, input, output] = [lead, 1, 1, 1].map(|count| labels.take(count));
        let [place, inside] = [N, N].map(|count| labels.take(count));
        // One channel makes one: no product of matrices, but a loop, which is long along positions on the last axis.
        let is_loop = N > 0 && kernel.shape()[0] == operands.groups && kernel.shape()[1] == 1;
        let (front, back) = place.split_at(if is_loop { N - 1 } else { N });
        let own = [&batch[..], &group, &input, front, &inside, back].concat();
        let order = [&batch[..], &group, &input, &place, &inside].concat();
        let order: Vec<usize> = own.iter().filter_map(|label| order.iter().position(|own| own == label)).collect();
        let seen = signal.read(view.ordered(&order));
        let product = Tensor::einsum_labels(
            &[(&seen, &own), (&operands.kernel(), &[&group[..], &output, &input, &inside].concat())],
            &[&batch[..], &group, &output, &place].concat(),
        );
        product.reshape([&self.shape()[..lead], &[outputs], &sizes].concat())
    }

    #[track_caller]
    fn convolve_transposed<const N: usize>(&self, name: &str, kernel: &Tensor, config: Convolution<N>) -> Tensor {
        let operands = match Operands::new(name, self, kernel, &config, false) {
            Ok(operands) => operands,
            Err(failed) => return failed,
        };
        let (signal, lead, windows) = (operands.signal(), operands.lead, config.windows(&kernel.shape()[2..]));
        let mut sizes = Vec::new();
        for (axis, window) in windows.iter().enumerate() {
            let count = signal.shape()[lead + 2 + axis];
            let spanned = count.saturating_sub(1).saturating_mul(window.stride).saturating_add(window.extent());
            let size = spanned.saturating_add(config.output_padding[axis]);
            let (before, after) = window.padding;
            let size = if count == 0 { None } else { size.checked_sub(before.saturating_add(after)) };
            match size {
                Some(size) if window.count(size) == Some(count) => sizes.push(size),
                _ => {
                    let message = format!(
                        "no axis makes {count} windows {window:?}; output_padding must be less than the stride"
                    );
                    return Tensor::refused(Error::new(name, message), &[self, kernel]);
                }
            }
        }
        let mut labels = Labels::default();
        let [batch, group, input, output] = [lead, 1, 1, 1].map(|count| labels.take(count));
        let [place, inside] = [N, N].map(|count| labels.take(count));
        let product = Tensor::einsum_labels(
            &[
                (&signal, &[&batch[..], &group, &input, &place].concat()),
                (&operands.kernel(), &[&group[..], &input, &output, &inside].concat()),
            ],
            &[&batch[..], &group, &output, &place, &inside].concat(),
        );
        let outputs = config.groups * kernel.shape()[1];
        let folded = product.fold((lead + 2) as isize, &windows, &sizes);
        if folded.error().is_some() {
            return folded;
        }
        folded.reshape([&self.shape()[..lead], &[outputs], &sizes].concat())
    }
}

/// Signal and kernel of a convolution, whose channels are divided into groups.
struct Operands<'t> {
    signal: Cow<'t, Tensor>,
    kernel: Cow<'t, Tensor>,
    groups: usize,
    /// How many axes stand in front of the channels.
    lead: usize,
}

impl<'t> Operands<'t> {
    /// Checks that they fit. In front of the kernel's places stand outputs and inputs, or the other way round.
    #[track_caller]
    fn new<const N: usize>(
        name: &str,
        signal: &'t Tensor,
        kernel: &'t Tensor,
        config: &Convolution<N>,
        outputs_first: bool,
    ) -> Result<Operands<'t>, Tensor> {
        if let Some(failed) = [signal, kernel].into_iter().find(|tensor| tensor.error().is_some()) {
            return Err(failed.clone());
        }
        let groups = config.groups;
        let origin = std::panic::Location::caller();
        let refuse = |message: String| Tensor::refused_at(Error::new(name, message), &[signal, kernel], origin);
        if signal.rank() < N + 1 || kernel.rank() != N + 2 {
            let (places, needed) = match N {
                1 => ("n", "k"),
                2 => ("height, width", "k, l"),
                _ => ("n…", "k…"),
            };
            let channels = if outputs_first { "outputs, channels" } else { "channels, outputs" };
            return Err(refuse(format!(
                "the shapes {} and {} are not […, channels, {places}] and [{channels}, {needed}]",
                signal.shape(),
                kernel.shape()
            )));
        }
        let lead = signal.rank() - N - 1;
        let channels = signal.shape()[lead];
        let first = kernel.shape()[0];
        let seen = if outputs_first { kernel.shape()[1].saturating_mul(groups) } else { first };
        if groups == 0 || seen != channels || !first.is_multiple_of(groups) {
            return Err(refuse(format!(
                "a kernel of the shape {} in {groups} groups does not fit {channels} channels",
                kernel.shape()
            )));
        }
        let mut promoted = Tensor::promoted(&[signal, kernel])?;
        let kernel = promoted.remove(1);
        Ok(Operands { signal: promoted.remove(0), kernel, groups, lead })
    }

    /// The signal as `[…, group, channel, places]`.
    fn signal(&self) -> Tensor {
        let shape = self.signal.shape();
        let channels = [self.groups, shape[self.lead] / self.groups];
        self.signal.reshape([&shape[..self.lead], &channels, &shape[self.lead + 1..]].concat())
    }

    /// The kernel as `[group, first channel, second channel, places]`.
    fn kernel(&self) -> Tensor {
        let shape = self.kernel.shape();
        self.kernel.reshape([&[self.groups, shape[0] / self.groups], &shape[1..]].concat())
    }
}

/// Labels of an einsum, handed out one after another.
#[derive(Default)]
struct Labels(usize);

impl Labels {
    fn take(&mut self, count: usize) -> Vec<usize> {
        let first = self.0;
        self.0 += count;
        (first..self.0).collect()
    }
}
