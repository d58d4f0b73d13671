//! Working memory of kernels, kept between launches.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use crate::array::OutOfMemory;
use crate::memory::ALIGNMENT;

/// What working memory is for. Each kind is as large as the largest request for it, so that kinds do not grow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The arena of a program, and the scratch memory of its steps.
    Arena,
    /// The registers of a chunk of a fused loop.
    Registers,
    /// Partial results that are combined in a fixed order.
    PartialSums,
    /// Packed panels of a tile.
    Panels,
    /// The tile of a contraction with an epilogue, and the registers of the epilogue.
    Tile,
    /// Both packed factors of a symmetric product.
    SymmetricFactors,
}

/// All purposes.
pub(super) const PURPOSES: [Purpose; 6] = [
    Purpose::Arena,
    Purpose::Registers,
    Purpose::PartialSums,
    Purpose::Panels,
    Purpose::Tile,
    Purpose::SymmetricFactors,
];

impl Purpose {
    /// Whether each thread of a parallel loop takes memory of its own.
    pub(super) fn is_for_each_thread(self) -> bool {
        match self {
            Purpose::Registers | Purpose::Panels | Purpose::Tile => true,
            Purpose::Arena | Purpose::PartialSums | Purpose::SymmetricFactors => false,
        }
    }
}

/// Working memory that is not in use, by purpose. Threads take it and give it back.
#[derive(Default)]
pub(super) struct Workspaces([Mutex<Vec<Workspace>>; PURPOSES.len()]);

impl Workspaces {
    /// Allocates working memory of this size for this number of concurrent users, so that no launch allocates later.
    pub(super) fn provide(&self, purpose: Purpose, bytes: usize, users: usize) {
        if bytes == 0 {
            return;
        }
        let mut pool = self.0[purpose as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < users {
            pool.resize_with(users, Workspace::default);
        }
        pool.iter_mut().rev().take(users).for_each(|workspace| _ = workspace.reserve(bytes));
    }

    /// Working memory, until it is dropped. Several users at the same time have memory of their own.
    pub(super) fn take(&self, purpose: Purpose) -> Lease<'_> {
        let pool = &self.0[purpose as usize];
        let workspace = pool.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        Lease { pool, workspace }
    }
}

/// Working memory in use.
pub(super) struct Lease<'w> {
    pool: &'w Mutex<Vec<Workspace>>,
    workspace: Workspace,
}

impl Deref for Lease<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.workspace));
    }
}

/// Aligned memory that can be used again.
#[derive(Default)]
pub(super) struct Workspace {
    lines: Vec<Line>,
    /// Lists of the addresses of inputs and results, which a launch fills and leaves empty.
    pub(super) inputs: Vec<*const u8>,
    pub(super) results: Vec<*mut u8>,
}

// SAFETY: the lists are empty between launches.
unsafe impl Send for Workspace {}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; ALIGNMENT]);

impl Workspace {
    /// [`Workspace::reserve`], or an error if there is no memory.
    pub(super) fn try_reserve(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        if self.lines.len() * ALIGNMENT < bytes {
            OutOfMemory::check_bytes(bytes as u128)?;
        }
        Ok(self.reserve(bytes))
    }

    /// Memory of this size in bytes with unspecified contents.
    pub(super) fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(ALIGNMENT);
        if self.lines.len() < lines {
            // No more than is needed; nothing of what was there is, and it is freed first.
            self.lines = Vec::new();
            self.lines.reserve_exact(lines);
            self.lines.resize(lines, Line([0; ALIGNMENT]));
        }
        self.lines.as_mut_ptr().cast()
    }
}
