//! Paths of leaves: where a tensor is in its tree.

use std::borrow::Cow;

use smallvec::SmallVec;

/// The place of a leaf in its tree, such as `layers.0.weight`.
///
/// ```
/// use glassgrad::{Tensor, tree::Tree};
/// let model = vec![(Tensor::from(1.0), Tensor::from(2.0))];
/// assert_eq!(model.leaves()[1].0.to_string(), "0.1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(SmallVec<[Segment; 4]>);

/// One step of a path: the name of a field or of an entry, or a place in a list.
///
/// ```
/// use glassgrad::tree::Segment;
/// assert_eq!(Segment::from("weight").to_string(), "weight");
/// assert_eq!(Segment::from(2), Segment::Place(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// A place in a list.
    Place(usize),
    /// The name of a field or of an entry.
    Name(Cow<'static, str>),
}

impl From<&'static str> for Segment {
    fn from(name: &'static str) -> Segment {
        Segment::Name(Cow::Borrowed(name))
    }
}

impl From<String> for Segment {
    fn from(name: String) -> Segment {
        Segment::Name(Cow::Owned(name))
    }
}

impl From<usize> for Segment {
    fn from(place: usize) -> Segment {
        Segment::Place(place)
    }
}

impl std::fmt::Display for Segment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Segment::Place(place) => place.fmt(formatter),
            Segment::Name(name) => name.fmt(formatter),
        }
    }
}

impl Path {
    /// The path of a part inside this one.
    ///
    /// ```
    /// use glassgrad::tree::Path;
    /// assert_eq!(Path::default().child("layers").child(0).to_string(), "layers.0");
    /// ```
    pub fn child(&self, segment: impl Into<Segment>) -> Path {
        let mut path = self.clone();
        path.0.push(segment.into());
        path
    }

    /// Whether this path is `prefix` or leads on from it.
    ///
    /// ```
    /// use glassgrad::tree::Path;
    /// let path = Path::default().child("layers").child(10);
    /// assert!(path.starts_with("layers") && !path.starts_with("layers.1"));
    /// ```
    pub fn starts_with(&self, prefix: &str) -> bool {
        let text = self.to_string();
        text == prefix || prefix.is_empty() || text.starts_with(&format!("{prefix}."))
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, segment) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "." };
            write!(formatter, "{separator}{segment}")?;
        }
        Ok(())
    }
}

/// A place on the way down a tree: where it branched off, and by which step. It costs nothing to make, so that walking
/// over leaves whose paths are not read does not pay for them: the key of an entry is written out when a path is.
///
/// ```
/// use glassgrad::tree::Branch;
/// let root = Branch::root();
/// let layers = root.child("layers");
/// assert_eq!(layers.child(0).path().to_string(), "layers.0");
/// ```
pub struct Branch<'t>(Option<(&'t Branch<'t>, Way<'t>)>);

/// A step down a tree.
enum Way<'t> {
    Segment(Segment),
    Key(&'t dyn ToString),
}

impl<'t> Branch<'t> {
    /// The tree itself.
    ///
    /// ```
    /// assert_eq!(glassgrad::tree::Branch::root().path().to_string(), "");
    /// ```
    pub fn root() -> Branch<'t> {
        Branch(None)
    }

    /// A part of what is here.
    ///
    /// ```
    /// use glassgrad::tree::Branch;
    /// assert_eq!(Branch::root().child("weight").path().to_string(), "weight");
    /// ```
    #[inline]
    pub fn child(&'t self, segment: impl Into<Segment>) -> Branch<'t> {
        Branch(Some((self, Way::Segment(segment.into()))))
    }

    /// The entry of a key in what is here.
    ///
    /// ```
    /// use glassgrad::tree::Branch;
    /// assert_eq!(Branch::root().entry(&"weight").path().to_string(), "weight");
    /// ```
    #[inline]
    pub fn entry(&'t self, key: &'t dyn ToString) -> Branch<'t> {
        Branch(Some((self, Way::Key(key))))
    }

    /// The way from the root to here.
    ///
    /// ```
    /// use glassgrad::tree::{Branch, Path};
    /// assert_eq!(Branch::root().path(), Path::default());
    /// ```
    pub fn path(&self) -> Path {
        let mut segments = SmallVec::new();
        let mut branch = self;
        while let Some((parent, way)) = &branch.0 {
            segments.push(match way {
                Way::Segment(segment) => segment.clone(),
                Way::Key(key) => Segment::from(key.to_string()),
            });
            branch = parent;
        }
        segments.reverse();
        Path(segments)
    }
}

/// As the path that it is.
impl std::fmt::Debug for Branch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path().fmt(formatter)
    }
}
