//! Kernels as CUDA C++: text made from the steps of a program and from the rows of the operation table.
//!
//! Extents and strides are literals of the text, addresses are arguments, so that equal steps share a kernel and modules can
//! be cached by their text. Nothing is specific to a GPU beyond the preamble: behind `host_shim.hpp` the same text runs on
//! the host.

pub(super) mod attention;
pub(super) mod batch_norm;
pub(super) mod call;
pub(super) mod contraction;
pub(super) mod cross_entropy;
pub(super) mod direct;
pub(super) mod elementwise;
mod epilogue;
pub(super) mod gemm;
pub(super) mod instructions;
pub(super) mod mirror;
pub(super) mod reduction;
pub(super) mod rows;
pub(super) mod tensor_core;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use crate::dtype::DType;
use crate::ops::Operation;
use crate::program::{Access, Loop, Memory};

/// The threads of a block, but for kernels that say otherwise.
pub(super) const THREADS: u32 = 256;

/// A kernel: the body of a function whose arguments are the addresses `a0`, `a1`, ….
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kernel {
    pub(super) body: String,
    pub(super) arguments: usize,
    pub(super) threads: u32,
    /// Whether its threads wait for each other.
    pub(super) barriers: bool,
    /// The rows of the operation table that it calls.
    pub(super) operations: BTreeSet<&'static str>,
    /// The bytes of shared memory of a block.
    pub(super) shared: usize,
    /// The bytes of dynamic shared memory of a block: an arena in the place of one in global memory.
    pub(super) arena: usize,
    /// The groups of threads in a block, each of which stands in for a block.
    groups: u32,
    /// The blocks of a thread-block cluster, along the second axis of the grid; 1 if there are no clusters.
    cluster: u32,
    /// The blocks for which a multiprocessor must have registers.
    resident: u32,
    /// Whether it cannot be a part of a chain.
    pub(super) is_alone: bool,
    /// Functions that it calls besides those of the preamble.
    library: &'static str,
    /// If it is a chain of others: their bodies, as functions that its own body calls.
    pub(super) parts: Vec<Part>,
}

/// A kernel as a part of a chain: the body of a function of a block's index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    body: String,
    arguments: usize,
}

/// The kernels of a program, each once.
#[derive(Default)]
pub(super) struct Module {
    kernels: Vec<Kernel>,
    numbers: HashMap<String, usize>,
}

impl Module {
    /// The number of a kernel, which is added if there is none like it.
    pub(super) fn number(&mut self, kernel: Kernel) -> usize {
        let key: String =
            std::iter::once(&kernel.body).chain(kernel.parts.iter().map(|part| &part.body)).cloned().collect();
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        self.numbers.insert(key, self.kernels.len());
        self.kernels.push(kernel);
        self.kernels.len() - 1
    }

    /// The kernel of a number.
    pub(super) fn kernel(&self, number: usize) -> &Kernel {
        &self.kernels[number]
    }

    /// Leaves out the kernels that nothing launches; returns the new number of each that stays.
    pub(super) fn keep(&mut self, is_launched: &[bool]) -> Vec<usize> {
        let mut numbers = Vec::new();
        let mut next = 0;
        for launched in is_launched {
            numbers.push(next);
            next += usize::from(*launched);
        }
        let mut place = 0;
        self.kernels.retain(|_| {
            place += 1;
            is_launched[place - 1]
        });
        numbers
    }

    /// How many kernels there are.
    pub(super) fn len(&self) -> usize {
        self.kernels.len()
    }

    /// The text of one kernel for a GPU, as the function `kernel`.
    pub(super) fn cuda(&self, number: usize) -> String {
        let kernel = &self.kernels[number];
        let mut text = include_str!("preamble.cuh").to_owned();
        if kernel.groups > 1 {
            text.push_str("// Waits for the threads of a group.\nGG_INLINE void gg_group_barrier(u32 group) { ");
            let _ = writeln!(text, "asm volatile(\"bar.sync %0, {THREADS};\" ::\"r\"(group + 1) : \"memory\"); }}");
        }
        text.push_str(kernel.library);
        kernel.operations.iter().for_each(|name| text.push_str(&function_of(name)));
        kernel.functions(&mut text, 0);
        let cluster = match kernel.cluster {
            1 => String::new(),
            blocks => format!("__cluster_dims__(1, {blocks}, 1) "),
        };
        let bounds = format!("__launch_bounds__({}, {})", kernel.threads, kernel.resident);
        let head = format!("extern \"C\" __global__ void {cluster}{bounds} kernel");
        let _ = writeln!(text, "{head}({}) {{\n{}}}\n", kernel.parameters(), kernel.main(0));
        text
    }

    /// The text for the host; kernel number k is run by the function `k{k}_host`.
    pub(super) fn host(&self) -> String {
        let mut text = concat!(include_str!("host_shim.hpp"), include_str!("preamble.cuh")).to_owned();
        let libraries: BTreeSet<&str> = self.kernels.iter().map(|kernel| kernel.library).collect();
        libraries.iter().for_each(|library| text.push_str(library));
        let called: BTreeSet<&str> = self.kernels.iter().flat_map(|kernel| kernel.operations.iter().copied()).collect();
        called.iter().for_each(|name| text.push_str(&function_of(name)));
        for (number, kernel) in self.kernels.iter().enumerate() {
            kernel.functions(&mut text, number);
            let given: Vec<String> = (0..kernel.arguments).map(|k| format!("(char *)arguments[{k}]")).collect();
            let _ = write!(
                text,
                "static void k{number}({}) {{\n{}}}\n\
                 static void k{number}_thread(void **arguments) {{ k{number}({}); }}\n\
                 extern \"C\" void k{number}_host(void **arguments, const unsigned *grid, unsigned threads) {{\n    \
                 gg_run(k{number}_thread, arguments, grid, threads, {}, {});\n}}\n\n",
                kernel.parameters(),
                kernel.main(number),
                given.join(", "),
                kernel.barriers,
                kernel.cluster,
            );
        }
        text
    }
}

fn parameters(arguments: usize) -> String {
    let parameters: Vec<String> = (0..arguments).map(|k| format!("char *a{k}")).collect();
    parameters.join(", ")
}

/// The shared memory of a block, in bytes.
pub(super) const SHARED: usize = 48 << 10;

/// One kernel of a chain: the kernel, the blocks of its grid, and which argument of the chain each of its own is.
pub(super) struct Link<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) grid: [u32; 3],
    pub(super) arguments: Vec<usize>,
}

/// Where an argument of a chain lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In global memory; each block has a slice of it, this many bytes apart.
    Global { apart: usize },
    /// In the arena of the block, at this byte of shared memory.
    Arena(usize),
    /// A carry of a loop, in two buffers of shared memory that alternate: what an iteration reads, or what it writes.
    Carry { buffers: [usize; 2], bytes: usize, is_next: bool },
    /// What no iteration changes: a copy in shared memory.
    Invariant { at: usize, bytes: usize },
}

/// The memory of a chain: the bytes of shared memory besides that of its kernels, and the place of each argument.
pub(super) struct ChainMemory {
    pub(super) bytes: usize,
    pub(super) places: Vec<Place>,
}

impl Kernel {
    fn parameters(&self) -> String {
        parameters(self.arguments)
    }

    /// Several kernels as one block: groups of its threads stand in for their blocks, one kernel after another. Small programs cost
    /// less that way than their launches do. With a length it is a loop; then each argument is three: the addresses in
    /// even and in odd iterations, and how far they move from one iteration to the next. Values that lie in shared memory do not
    /// leave the multiprocessor.
    pub(super) fn chain(links: &[Link<'_>], memory: &ChainMemory, length: Option<usize>, groups: u32) -> Kernel {
        let ChainMemory { bytes, places } = memory;
        let mut body = String::new();
        if *bytes > 0 {
            let _ = writeln!(body, "    GG_ARENA(arena, {bytes});");
        }
        let shared = links.iter().map(|link| link.kernel.shared).max().unwrap_or(0);
        let words = shared.div_ceil(16).max(1) * 2;
        let groups = (1..=groups).rev().find(|groups| 8 * words * *groups as usize <= SHARED).unwrap_or(1);
        let _ = writeln!(body, "    __shared__ __align__(16) double common[{}];", words * groups as usize);
        let _ = writeln!(body, "    const u32 group = threadIdx.x / {THREADS}u;");
        let _ = writeln!(body, "    const GgThread own = {{threadIdx.x % {THREADS}u}};");
        let sync = if groups > 1 { "gg_group_barrier(group);" } else { "__syncthreads();" };
        if let Some(length) = length {
            copied_in(&mut body, places);
            let _ = writeln!(body, "    for (i64 step = 0; step < {length}; step++) {{");
            for (k, place) in places.iter().enumerate() {
                let [even, odd, apart] = [3 * k, 3 * k + 1, 3 * k + 2];
                let address = match place {
                    Place::Global { apart: slice } => {
                        let slice = if *slice == 0 { String::new() } else { format!(" + blockIdx.x * (i64){slice}") };
                        format!("(step & 1 ? a{odd} : a{even}) + step * (i64)a{apart}{slice}")
                    }
                    Place::Carry { buffers: [first, second], is_next, .. } => {
                        let [even, odd] = if *is_next { [second, first] } else { [first, second] };
                        format!("arena + (step & 1 ? {odd} : {even})")
                    }
                    Place::Arena(at) | Place::Invariant { at, .. } => format!("arena + {at}"),
                };
                let _ = writeln!(body, "    char *const c{k} = {address};");
            }
        }
        let name = |argument: &usize| match (length, places[*argument]) {
            (None, Place::Arena(at)) => format!("arena + {at}"),
            (None, _) => format!("a{argument}"),
            (Some(_), _) => format!("c{argument}"),
        };
        for (number, link) in links.iter().enumerate() {
            let given: String = link.arguments.iter().map(|argument| format!("{}, ", name(argument))).collect();
            let [x, y, _] = link.grid;
            // Shared memory of one block is used again by the next.
            let between = if link.kernel.barriers { sync } else { "" };
            let _ = write!(
                body,
                "    for (u32 b = group; b < {}u; b += {groups}u) {{\n        \
                 part_NUMBER_{number}({given}GgBlock{{b % {x}u, b / {x}u}}, own, group, (char *)(common + group * {words}));\n        \
                 {between}\n    }}\n    __syncthreads();\n",
                x * y,
            );
        }
        let arguments = match length {
            Some(length) => {
                body.push_str("    }\n");
                copied_out(&mut body, places, length);
                3 * places.len()
            }
            None => places.len(),
        };
        let parts = links.iter().map(|link| Part { body: link.kernel.body.clone(), arguments: link.kernel.arguments });
        Kernel {
            body,
            arguments,
            threads: THREADS * groups,
            barriers: true,
            operations: links.iter().flat_map(|link| link.kernel.operations.iter().copied()).collect(),
            shared,
            arena: *bytes,
            parts: parts.collect(),
            groups,
            cluster: 1,
            resident: 1,
            is_alone: true,
            library: "",
        }
    }

    /// The same kernel in clusters of this many blocks, with a launch of its own.
    fn launched_alone(self, cluster: u32) -> Kernel {
        Kernel { cluster, is_alone: true, ..self }
    }

    /// The same kernel with few enough registers for this many blocks on a multiprocessor.
    fn resident(self, blocks: u32) -> Kernel {
        Kernel { resident: blocks, ..self }
    }

    /// The same kernel with functions that it calls, and with dynamic shared memory.
    fn with_library(self, library: &'static str, arena: usize) -> Kernel {
        Kernel { library, arena, ..self }
    }

    /// Writes the parts of a chain as functions, whose names hold the number of the kernel.
    fn functions(&self, text: &mut String, number: usize) {
        if self.parts.is_empty() {
            return;
        }
        text.push_str("#define blockIdx gg_block\n#define threadIdx gg_thread\n#undef GG_SHARED\n");
        if self.groups > 1 {
            text.push_str("#define __syncthreads() gg_group_barrier(gg_group)\n");
        }
        text.push_str("#define GG_SHARED(type, name, length) type *name = (type *)gg_common\n");
        for (part, Part { body, arguments }) in self.parts.iter().enumerate() {
            let separator = if *arguments == 0 { "" } else { ", " };
            let _ = writeln!(
                text,
                "static __device__ void part_{number}_{part}({}{separator}GgBlock gg_block, GgThread gg_thread, u32 gg_group, \
                 char *gg_common) {{\n{body}}}\n",
                parameters(*arguments)
            );
        }
        text.push_str("#undef blockIdx\n#undef threadIdx\n#undef GG_SHARED\n#undef __syncthreads\n");
        text.push_str("#define GG_SHARED(type, name, length) __shared__ __align__(16) type name[length]\n");
    }

    /// The body of the function itself.
    fn main(&self, number: usize) -> String {
        self.body.replace("part_NUMBER_", &format!("part_{number}_"))
    }
}

/// Copies what a loop begins with into shared memory.
fn copied_in(body: &mut String, places: &[Place]) {
    for (k, place) in places.iter().enumerate() {
        let (at, bytes, slice) = match place {
            Place::Carry { buffers, bytes, is_next: false } => (buffers[0], bytes, *bytes),
            Place::Invariant { at, bytes } => (*at, bytes, 0),
            Place::Carry { is_next: true, .. } | Place::Global { .. } | Place::Arena(_) => continue,
        };
        let _ = writeln!(body, "    gg_copy_by_block(arena + {at}, a{} + blockIdx.x * (i64){slice}, {bytes});", 3 * k);
    }
    body.push_str("    __syncthreads();\n");
}

/// Copies the last carries of a loop to where an even or odd number of iterations leaves them.
fn copied_out(body: &mut String, places: &[Place], length: usize) {
    for (k, place) in places.iter().enumerate() {
        if let Place::Carry { buffers, bytes, is_next: true } = place
            && length > 0
        {
            let (from, argument) = (buffers[length % 2], 3 * k + (length - 1) % 2);
            let _ = writeln!(
                body,
                "    gg_copy_by_block(a{argument} + blockIdx.x * (i64){bytes}, arena + {from}, {bytes});"
            );
        }
    }
}

/// A row of the operation table as a function: the value is the text of the row.
fn function_of(name: &str) -> String {
    let row = Operation::from_name(name).and_then(|operation| Some((operation, operation.written()?)));
    let (operation, (arguments, value)) = row.unwrap_or_else(|| unreachable!("{name} is no row of the table"));
    let typed: String = arguments.iter().map(|argument| format!("T {argument}_, ")).collect();
    let numbers: String =
        arguments.iter().map(|argument| format!("Number<T> {argument} = {{{argument}_}}; ")).collect();
    let parameter = operation.parameter().map_or(String::new(), |parameter| {
        let kind = if parameter.integer { "int" } else { "double" };
        format!("const {kind} {} = ({kind})parameter; ", parameter.name)
    });
    format!(
        "template <class T> GG_INLINE T gg_{name}({typed}double parameter) {{ Literal<T> c; (void)c; {numbers}{parameter}\
         return ({value}).v; }}\n"
    )
}

/// An element type.
pub(super) fn type_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I64 => "i64",
        DType::Bool => "u8",
        // Structures that convert to `float` where they are read, and round where they are assigned.
        DType::F16 => "gg_f16",
        DType::BF16 => "gg_bf16",
        DType::I32 => "int",
        DType::U8 => "u8",
    }
}

/// The kernel that is being written: its text, and which memory each argument stands for.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) text: String,
    pub(super) memories: Vec<Memory>,
    pub(super) operations: BTreeSet<&'static str>,
    /// The bytes of shared memory.
    shared: usize,
    /// The type of indices.
    pub(super) index: &'static str,
}

impl Writer {
    /// A writer of a kernel whose indices and element offsets are at most this large.
    pub(super) fn new(reach: usize) -> Writer {
        // A grid may go some blocks beyond the last element.
        let index = if reach < (1 << 30) { "int" } else { "i64" };
        Writer { index, ..Writer::default() }
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str("    ");
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Declares shared memory; where several are declared, no two are in use at a time.
    pub(super) fn shared(&mut self, element: &str, name: &str, length: usize, bytes: usize) {
        self.shared = self.shared.max(length * bytes);
        self.line(format!("GG_SHARED({element}, {name}, {length});"));
    }

    /// Declares shared memory that the other blocks of a cluster can read.
    fn cluster_shared(&mut self, element: &str, name: &str, length: usize, bytes: usize) {
        self.shared = self.shared.max(length * bytes);
        self.line(format!("GG_CLUSTER_SHARED({element}, {name}, {length});"));
    }

    /// The number of the argument for some memory.
    pub(super) fn argument(&mut self, memory: Memory) -> usize {
        let known = self.memories.iter().position(|own| *own == memory);
        known.unwrap_or_else(|| {
            self.memories.push(memory);
            self.memories.len() - 1
        })
    }

    /// Defines the indices `x{axis}` of some axes from a row-major linear index.
    pub(super) fn indices(&mut self, linear: &str, axes: &[usize], extents: &[usize]) {
        let mut inner = 1;
        let index = self.index;
        for (place, axis) in axes.iter().enumerate().rev() {
            let divided = if inner == 1 { linear.to_owned() } else { format!("{linear} / ({index}){inner}") };
            let reduced = if place == 0 { divided } else { format!("{divided} % ({index}){}", extents[*axis]) };
            self.line(format!("const {index} x{axis} = {reduced};"));
            inner *= extents[*axis].max(1);
        }
    }

    /// The element of an access at the indices that are defined.
    pub(super) fn element(&mut self, access: &Access) -> String {
        let argument = self.argument(access.memory);
        let mut place = String::new();
        for (axis, stride) in access.strides.iter().enumerate().filter(|(_, stride)| **stride != 0) {
            let _ = write!(place, "x{axis} * ({}){stride} + ", self.index);
        }
        format!("(({} *)a{argument})[{place}{}]", type_of(access.dtype), access.offset)
    }

    /// The finished kernel.
    pub(super) fn kernel(self, threads: u32, barriers: bool) -> (Kernel, Vec<Memory>) {
        let Writer { text, memories, operations, shared, .. } = self;
        (
            Kernel {
                body: text,
                arguments: memories.len(),
                threads,
                barriers,
                operations,
                shared,
                arena: 0,
                groups: 1,
                cluster: 1,
                resident: 1,
                is_alone: false,
                library: "",
                parts: Vec::new(),
            },
            memories,
        )
    }
}

/// The largest index or element offset of a loop.
pub(super) fn reach_of(fused: &Loop) -> usize {
    let elements = fused.extents.iter().fold(1_usize, |product, extent| product.saturating_mul((*extent).max(1)));
    let accesses = fused.loads.iter().chain(fused.stores.iter().map(|store| &store.access));
    let reaches = accesses.map(|access| {
        let moved = access.strides.iter().zip(&fused.extents);
        moved.fold(access.offset.unsigned_abs(), |sum, (stride, extent)| {
            sum.saturating_add(stride.unsigned_abs().saturating_mul(*extent))
        })
    });
    reaches.fold(elements, usize::max)
}

/// The same loop with fewer axes: those of size 1 are dropped, and neighbours that every access walks through as one are
/// merged.
pub(super) fn merged(fused: &Loop) -> Loop {
    let along = |axis: usize| fused.along_rows.get(axis).copied().unwrap_or(false);
    let stride = |axis: usize| -> Vec<isize> {
        let accesses = fused.loads.iter().chain(fused.stores.iter().map(|store| &store.access));
        accesses.map(|access| access.strides[axis]).collect()
    };
    // For each axis that stays: its extent, its strides, and whether rows run along it.
    let mut kept: Vec<(usize, Vec<isize>, bool)> = Vec::new();
    for axis in (0..fused.extents.len()).filter(|axis| fused.extents[*axis] != 1) {
        let (extent, strides) = (fused.extents[axis], stride(axis));
        if let Some((last, last_strides, last_along)) = kept.last_mut() {
            let is_one_walk = last_strides.iter().zip(&strides).all(|(outer, inner)| *outer == inner * extent as isize);
            if is_one_walk && *last_along == along(axis) {
                *last = last.saturating_mul(extent);
                *last_strides = strides;
                continue;
            }
        }
        kept.push((extent, strides, along(axis)));
    }
    let mut merged = fused.clone();
    merged.extents = kept.iter().map(|(extent, _, _)| *extent).collect();
    merged.along_rows = kept.iter().map(|(_, _, along)| *along).collect();
    let accesses = merged.loads.iter_mut().chain(merged.stores.iter_mut().map(|store| &mut store.access));
    for (number, access) in accesses.enumerate() {
        access.strides = kept.iter().map(|(_, strides, _)| strides[number]).collect();
    }
    merged
}
