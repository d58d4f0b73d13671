//! Views: which element of an array each element of another one reads.
//!
//! A view is affine. Along each axis of what is read, the place is an offset plus a step for each index of the
//! result; places outside read zero. Slices, reversals, padding and sliding windows are all views, and so is
//! what a planner makes of several of them. The transpose of reading is adding up at the places that were read.

use std::fmt;

use crate::hashing::{Fingerprint, Structure};
use crate::shape::Shape;

/// One axis of what is read: the place that the indices of the result lead to.
///
/// ```
/// use glassgrad::{shape::Shape, view::{AxisView, View}};
/// let every_second = View::strided(&Shape::from([6]), &[(1, 2, 3)]);
/// assert_eq!(every_second.axes, [AxisView { offset: 1, steps: vec![(0, 2)] }]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisView {
    /// The place that all indices 0 lead to; it may lie outside.
    pub offset: isize,
    /// Axes of the result, and how far one index of them moves the place.
    pub steps: Vec<(usize, isize)>,
}

/// The places that an array of one shape reads of an array of another.
///
/// ```
/// use glassgrad::shape::Shape;
/// use glassgrad::view::{View, Window};
///
/// let reversed = View::strided(&Shape::from([5]), &[(4, -2, 3)]);
/// assert_eq!(reversed.places().collect::<Vec<_>>(), [Some(4), Some(2), Some(0)]);
/// let padded = View::strided(&Shape::from([2]), &[(-1, 1, 4)]);
/// assert_eq!(padded.places().collect::<Vec<_>>(), [None, Some(0), Some(1), None]);
/// let windows = View::windows(&Shape::from([4]), 0, &[Window::new(3)]).unwrap();
/// assert_eq!(windows.output.to_vec(), [2, 3]);
/// assert_eq!(windows.places().flatten().collect::<Vec<_>>(), [0, 1, 2, 1, 2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The shape of what is read.
    pub input: Shape,
    /// The shape of the result.
    pub output: Shape,
    /// For each axis of what is read.
    pub axes: Vec<AxisView>,
}

impl Structure for View {
    fn mix_into(&self, fingerprint: &mut Fingerprint) {
        fingerprint.words(&self.input);
        fingerprint.words(&self.output);
        for axis in &self.axes {
            fingerprint.word(axis.offset as u64);
            fingerprint.word(axis.steps.len() as u64);
            for (along, step) in &axis.steps {
                fingerprint.word(*along as u64);
                fingerprint.word(*step as u64);
            }
        }
    }
}

/// A window that slides along an axis.
///
/// ```
/// use glassgrad::view::Window;
/// let window = Window::new(3).stride(2).dilation(2).padding(1, 1);
/// assert_eq!(window.count(9), Some(4));
/// assert_eq!(window.count(2), None); // it does not fit once
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// How many places it reads.
    pub size: usize,
    /// How far it moves at a time.
    pub stride: usize,
    /// How far apart the places are that it reads.
    pub dilation: usize,
    /// How many zeros it reads in front of the axis and behind it.
    pub padding: (usize, usize),
}

impl Window {
    /// A window of neighbours that moves by one place, without padding.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!(Window::new(3).count(5), Some(3));
    /// ```
    #[inline]
    pub fn new(size: usize) -> Window {
        Window { size, stride: 1, dilation: 1, padding: (0, 0) }
    }

    /// The same window that moves by this many places.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!(Window::new(3).stride(2).count(5), Some(2));
    /// ```
    #[inline]
    pub fn stride(self, stride: usize) -> Window {
        Window { stride, ..self }
    }

    /// The same window whose places are this far apart.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!(Window::new(3).dilation(2).count(5), Some(1));
    /// ```
    #[inline]
    pub fn dilation(self, dilation: usize) -> Window {
        Window { dilation, ..self }
    }

    /// The same window that also reads zeros in front of the axis and behind it.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!(Window::new(3).padding(1, 1).count(5), Some(5));
    /// ```
    #[inline]
    pub fn padding(self, before: usize, after: usize) -> Window {
        Window { padding: (before, after), ..self }
    }

    /// How many places of an axis it spans.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!(Window::new(3).dilation(4).extent(), 9);
    /// ```
    #[inline]
    pub fn extent(&self) -> usize {
        self.size.saturating_sub(1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// How often it fits on an axis, if it fits at all.
    ///
    /// ```
    /// use glassgrad::view::Window;
    /// assert_eq!((Window::new(2).count(2), Window::new(3).count(2)), (Some(1), None));
    /// ```
    #[inline]
    pub fn count(&self, size: usize) -> Option<usize> {
        if self.size == 0 || self.stride == 0 || self.dilation == 0 {
            return None;
        }
        let padded = size.checked_add(self.padding.0)?.checked_add(self.padding.1)?;
        Some(padded.checked_sub(self.extent())? / self.stride + 1)
    }
}

impl View {
    /// Along each axis `length` places, from `start` on, `step` apart, given as triples.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let corner = View::strided(&Shape::from([3, 3]), &[(1, 1, 2), (0, 2, 2)]);
    /// assert_eq!(corner.places().flatten().collect::<Vec<_>>(), [3, 5, 6, 8]);
    /// ```
    pub fn strided(input: &Shape, axes: &[(isize, isize, usize)]) -> View {
        let along = |(axis, (start, step, _)): (usize, &(isize, isize, usize))| AxisView {
            offset: *start,
            steps: vec![(axis, *step)],
        };
        View {
            input: input.clone(),
            output: axes.iter().map(|(_, _, length)| *length).collect::<Vec<_>>().into(),
            axes: axes.iter().enumerate().map(along).collect(),
        }
    }

    /// Windows that slide along neighbouring axes from `first` on. Their positions take the place of those axes,
    /// and the places inside of them are new last axes. `None` if one does not fit.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::{View, Window}};
    /// let pairs = View::windows(&Shape::from([2, 5]), 1, &[Window::new(2).stride(3)]).unwrap();
    /// assert_eq!(pairs.output.to_vec(), [2, 2, 2]);
    /// assert_eq!(pairs.places().flatten().collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6, 8, 9]);
    /// ```
    pub fn windows(input: &Shape, first: usize, windows: &[Window]) -> Option<View> {
        let mut output = input.to_vec();
        let mut axes: Vec<AxisView> =
            (0..input.rank()).map(|axis| AxisView { offset: 0, steps: vec![(axis, 1)] }).collect();
        for (axis, window) in (first..).zip(windows) {
            output[axis] = window.count(*input.get(axis)?)?;
            let inside = output.len();
            output.push(window.size);
            axes[axis] = AxisView {
                offset: -isize::try_from(window.padding.0).ok()?,
                steps: vec![
                    (axis, isize::try_from(window.stride).ok()?),
                    (inside, isize::try_from(window.dilation).ok()?),
                ],
            };
        }
        Some(View { input: input.clone(), output: output.into(), axes })
    }

    /// The same view behind leading axes of these sizes.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let first = View::strided(&Shape::from([3]), &[(0, 1, 1)]);
    /// assert_eq!(first.led(&[2]).places().flatten().collect::<Vec<_>>(), [0, 3]);
    /// ```
    pub fn led(&self, lead: &[usize]) -> View {
        let count = lead.len();
        let own = self.axes.iter().map(|axis| AxisView {
            offset: axis.offset,
            steps: axis.steps.iter().map(|(along, step)| (along + count, *step)).collect(),
        });
        View {
            input: Shape::from(lead).followed_by(&self.input),
            output: Shape::from(lead).followed_by(&self.output),
            axes: (0..count).map(|axis| AxisView { offset: 0, steps: vec![(axis, 1)] }).chain(own).collect(),
        }
    }

    /// The same with the axes of the result in another order, given by their numbers.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let turned = View::strided(&Shape::from([2, 3]), &[(0, 1, 2), (0, 1, 3)]).ordered(&[1, 0]);
    /// assert_eq!(turned.places().flatten().collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
    /// ```
    pub fn ordered(&self, order: &[usize]) -> View {
        let place = |along: &usize| order.iter().position(|own| own == along).unwrap_or(*along);
        let moved = |axis: &AxisView| AxisView {
            offset: axis.offset,
            steps: axis.steps.iter().map(|(along, step)| (place(along), *step)).collect(),
        };
        View {
            input: self.input.clone(),
            output: order.iter().map(|axis| self.output[*axis]).collect::<Vec<_>>().into(),
            axes: self.axes.iter().map(moved).collect(),
        }
    }

    /// Whether every element reads the one at its own place.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// assert!(View::strided(&Shape::from([3]), &[(0, 1, 3)]).is_identity());
    /// assert!(!View::strided(&Shape::from([3]), &[(0, 1, 2)]).is_identity());
    /// ```
    #[inline]
    pub fn is_identity(&self) -> bool {
        let own = |(axis, view): (usize, &AxisView)| view.offset == 0 && view.steps == [(axis, 1)];
        self.input == self.output && self.axes.iter().enumerate().all(own)
    }

    /// Whether every element reads one: none is a zero from outside.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// assert!(View::strided(&Shape::from([3]), &[(2, -1, 3)]).stays_inside());
    /// assert!(!View::strided(&Shape::from([3]), &[(-1, 1, 3)]).stays_inside());
    /// ```
    #[inline]
    pub fn stays_inside(&self) -> bool {
        self.output.elements() == 0
            || self.axes.iter().zip(self.input.iter()).all(|(axis, size)| {
                let reach = |towards: fn(isize) -> isize| -> isize {
                    axis.steps.iter().map(|(along, step)| towards(step * (self.output[*along] as isize - 1))).sum()
                };
                axis.offset + reach(|step| step.min(0)) >= 0 && axis.offset + reach(|step| step.max(0)) < *size as isize
            })
    }

    /// This view of what another view reads, as one view, if it is one: no zero is read from outside of what the
    /// other one reads, for that zero may be a number behind it.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let padded = View::strided(&Shape::from([2]), &[(-1, 1, 4)]);
    /// let reversed = View::strided(&Shape::from([4]), &[(3, -1, 4)]);
    /// let both = reversed.after(&padded).unwrap();
    /// assert_eq!(both.places().collect::<Vec<_>>(), [None, Some(1), Some(0), None]);
    /// assert_eq!(padded.after(&View::strided(&Shape::from([5]), &[(1, 1, 2)])), None);
    /// ```
    pub fn after(&self, other: &View) -> Option<View> {
        if !self.stays_inside() {
            return None;
        }
        let composed = |axis: &AxisView| {
            let mut composed = AxisView { offset: axis.offset, steps: Vec::new() };
            for (along, step) in &axis.steps {
                let own = &self.axes[*along];
                composed.offset += step * own.offset;
                for (along, own_step) in &own.steps {
                    match composed.steps.iter_mut().find(|(known, _)| known == along) {
                        Some((_, known)) => *known += step * own_step,
                        None => composed.steps.push((*along, step * own_step)),
                    }
                }
            }
            composed
        };
        let axes = other.axes.iter().map(composed).collect();
        Some(View { input: other.input.clone(), output: self.output.clone(), axes })
    }

    /// The transpose as a view, if it is one: along every axis neighbours read neighbours.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let part = View::strided(&Shape::from([4]), &[(1, 1, 2)]);
    /// let back = part.transposed().unwrap(); // zeros around
    /// assert_eq!(back.places().collect::<Vec<_>>(), [None, Some(0), Some(1), None]);
    /// ```
    #[inline]
    pub fn transposed(&self) -> Option<View> {
        let back = |(axis, view): (usize, &AxisView)| match view.steps[..] {
            [(along, step)] if along == axis && step.abs() == 1 => Some((-step * view.offset, step, self.input[axis])),
            _ => None,
        };
        let axes: Vec<_> = self.axes.iter().enumerate().map(back).collect::<Option<_>>()?;
        (self.output.rank() == axes.len()).then(|| View::strided(&self.output, &axes))
    }

    /// For each element of the result, the place in memory that it reads, or none if it reads zero.
    ///
    /// ```
    /// use glassgrad::{shape::Shape, view::View};
    /// let shifted = View::strided(&Shape::from([3]), &[(-1, 1, 3)]);
    /// assert_eq!(shifted.places().collect::<Vec<_>>(), [None, Some(0), Some(1)]);
    /// ```
    pub fn places(&self) -> impl Iterator<Item = Option<usize>> + use<> {
        let view = self.clone();
        let (input_strides, output_strides) = (view.input.strides(), view.output.strides());
        (0..view.output.elements()).map(move |element| {
            let index = |axis: usize| (element / output_strides[axis] % view.output[axis]) as isize;
            let mut place = 0;
            for (number, axis) in view.axes.iter().enumerate() {
                let along = axis.offset + axis.steps.iter().map(|(along, step)| index(*along) * step).sum::<isize>();
                let along = usize::try_from(along).ok().filter(|along| *along < view.input[number])?;
                place += along * input_strides[number];
            }
            Some(place)
        })
    }
}

/// The entries of a slice, padding in round brackets, windows with their steps.
impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |(axis, view): (usize, &AxisView)| match view.steps[..] {
            [(along, step)] => {
                let length = self.output[along] as isize;
                let (first, last) = (view.offset, view.offset + step * (length - 1));
                let outside = first.min(last) < 0 || first.max(last) >= self.input[axis] as isize;
                match (first, step) {
                    (0, 1) if length == self.input[axis] as isize => ":".to_owned(),
                    (_, 1) if outside => format!("({}, {})", -first, last + 1 - self.input[axis] as isize),
                    (_, 1) => format!("{first}:{}", last + 1),
                    (_, step) => format!("{first}:{}:{step}", last + step),
                }
            }
            _ => {
                let steps: Vec<String> =
                    view.steps.iter().map(|(along, step)| format!("{step}×{}", self.output[*along])).collect();
                format!("{}+{}", view.offset, steps.join("+"))
            }
        };
        let entries: Vec<String> = self.axes.iter().enumerate().map(entry).collect();
        write!(formatter, "[{}]", entries.join(", "))
    }
}
