//! Machine code of a lowered graph, by Cranelift.
//!
//! The nodes become straight-line code, in segments of bounded size: the time of register allocation grows faster than a
//! function. Values that a later segment reads are written to scratch memory. Two lanes make code for two points at once.

use std::collections::HashMap;
use std::sync::OnceLock;

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{AbiParam, Endianness, InstBuilder, MemFlags, SigRef, Signature, Type, Value, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module};

use super::CompileError;
use super::graph::Op;
use crate::ops::{Binary, Operation, Relation, Row, Unary, Visitor, visit};

/// Nodes in a segment.
const SEGMENT: usize = 3000;

/// A compiled segment: inputs, results, scratch memory, constants.
type Segment = unsafe extern "C" fn(*const f64, *mut f64, *mut f64, *const f64);

/// Machine code for one or two points at once.
pub(super) struct Code {
    segments: Vec<Segment>,
    /// Constants, once for each lane.
    constants: Vec<f64>,
    /// Numbers of scratch memory, of which the first `lanes` say whether a guard failed.
    scratch: usize,
    arguments: usize,
    results: usize,
    lanes: usize,
    /// Owns the memory of the segments.
    module: Option<JITModule>,
}

// SAFETY: the module is only kept to be freed, and the code that it owns is never changed after it was finalized. It writes
// to the memory that it is called with.
#[allow(unsafe_code)]
unsafe impl Send for Code {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Code").field("segments", &self.segments.len()).field("lanes", &self.lanes).finish()
    }
}

impl Drop for Code {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the segments are only called through this value, which ends here.
            unsafe { module.free_memory() };
        }
    }
}

impl Code {
    /// Numbers of scratch memory that a call needs.
    pub(super) fn scratch(&self) -> usize {
        self.scratch
    }

    /// Runs the code for as many points as it has lanes, and returns for each whether a guard failed.
    ///
    /// # Panics
    /// If a slice is shorter than the code reads or writes.
    #[allow(unsafe_code)]
    pub(super) fn run(&self, arguments: &[f64], results: &mut [f64], scratch: &mut [f64]) -> [bool; 2] {
        assert!(arguments.len() >= self.lanes * self.arguments && results.len() >= self.lanes * self.results);
        assert!(scratch.len() >= self.scratch);
        for segment in &self.segments {
            // SAFETY: the code reads `arguments` and writes `results` numbers of each lane, which lie behind each other, and
            // reads and writes scratch memory below `scratch`: these are the offsets that it was generated with.
            // The lengths are checked above.
            unsafe {
                segment(arguments.as_ptr(), results.as_mut_ptr(), scratch.as_mut_ptr(), self.constants.as_ptr());
            }
        }
        [scratch[0] != 0.0, self.lanes > 1 && scratch[1] != 0.0]
    }
}

/// Generates code that writes the number of each root to its place among the results, and that of `violated` to the start of
/// the scratch memory.
pub(super) fn generate(
    graph: &[Op],
    roots: &[u32],
    violated: u32,
    arguments: usize,
    lanes: usize,
) -> Result<Code, CompileError> {
    let failed = |error: &dyn std::fmt::Display| CompileError { reason: error.to_string() };
    let mut flags = settings::builder();
    for (name, value) in
        [("opt_level", "none"), ("enable_verifier", "false"), ("is_pic", "false"), ("unwind_info", "false")]
    {
        flags.set(name, value).map_err(|error| failed(&error))?;
    }
    let isa = cranelift_native::builder().map_err(|error| failed(&error))?;
    let isa = isa.finish(settings::Flags::new(flags)).map_err(|error| failed(&error))?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa, cranelift_module::default_libcall_names()));

    let plan = Plan::new(graph, roots, violated, lanes);
    let mut context = module.make_context();
    let mut builder_context = FunctionBuilderContext::new();
    let mut functions: Vec<FuncId> = Vec::new();
    for segment in plan.order.chunks(SEGMENT) {
        let pointer = module.target_config().pointer_type();
        context.func.signature.params.extend([AbiParam::new(pointer); 4]);
        {
            let builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
            let mut number = Signature::new(module.isa().default_call_conv());
            number.params.extend([AbiParam::new(types::F64); 2]);
            number.returns.push(AbiParam::new(types::F64));
            Emitter::new(builder, &plan, number, arguments, roots.len()).emit(graph, segment);
        }
        let function = module.declare_anonymous_function(&context.func.signature).map_err(|error| failed(&error))?;
        module
            .define_function(function, &mut context)
            .map_err(|error| CompileError { reason: format!("{error:?}") })?;
        module.clear_context(&mut context);
        functions.push(function);
    }
    module.finalize_definitions().map_err(|error| failed(&error))?;
    #[allow(unsafe_code)]
    let entry = |function: &FuncId| {
        // SAFETY: the function was generated with this signature, in the calling convention of C.
        unsafe { std::mem::transmute::<*const u8, Segment>(module.get_finalized_function(*function)) }
    };
    let segments = functions.iter().map(entry).collect();
    let constants = plan.constants.iter().flat_map(|constant| std::iter::repeat_n(*constant, lanes)).collect();
    let (scratch, results) = (plan.slots * lanes, roots.len());
    Ok(Code { segments, constants, scratch, arguments, results, lanes, module: Some(module) })
}

/// What is computed in which order and kept where.
struct Plan {
    order: Vec<u32>,
    /// The places among the results that a node is written to.
    stores: HashMap<u32, Vec<usize>>,
    /// The slots of scratch memory of nodes that another segment reads.
    slot_of: HashMap<u32, usize>,
    slots: usize,
    /// The place of each constant's node.
    constant_of: HashMap<u32, usize>,
    constants: Vec<f64>,
    violated: u32,
    lanes: usize,
}

impl Plan {
    fn new(graph: &[Op], roots: &[u32], violated: u32, lanes: usize) -> Self {
        let mut plan = Plan {
            order: Vec::new(),
            stores: HashMap::new(),
            slot_of: HashMap::new(),
            slots: 1,
            constant_of: HashMap::new(),
            constants: Vec::new(),
            violated,
            lanes,
        };
        for (place, root) in roots.iter().enumerate() {
            plan.stores.entry(*root).or_default().push(place);
        }
        // Simplification leaves nodes behind that nothing uses any more.
        let mut needed = vec![false; graph.len()];
        roots.iter().chain([&violated]).for_each(|root| needed[*root as usize] = true);
        for (node, op) in graph.iter().enumerate().rev() {
            if needed[node] {
                op.operands().for_each(|operand| needed[operand as usize] = true);
            }
        }
        // The order of the lowered graph is that of a depth-first search from the roots.
        let mut segment_of: HashMap<u32, usize> = HashMap::new();
        for node in (0..graph.len() as u32).filter(|node| needed[*node as usize]) {
            let op = graph[node as usize];
            if let Op::Constant(bits) = op {
                plan.constant_of.insert(node, plan.constants.len());
                plan.constants.push(f64::from_bits(bits));
                if !plan.stores.contains_key(&node) && node != violated {
                    continue;
                }
            }
            let segment = plan.order.len() / SEGMENT;
            plan.order.push(node);
            segment_of.insert(node, segment);
            for operand in op.operands() {
                if matches!(graph[operand as usize], Op::Constant(_) | Op::Input(_)) {
                    continue; // Loaded from where they are.
                }
                if segment_of[&operand] != segment && !plan.slot_of.contains_key(&operand) {
                    plan.slot_of.insert(operand, plan.slots);
                    plan.slots += 1;
                }
            }
        }
        plan
    }
}

/// Writes one segment.
struct Emitter<'f, 'p> {
    builder: FunctionBuilder<'f>,
    plan: &'p Plan,
    /// Inputs, results, scratch memory, constants.
    pointers: [Value; 4],
    values: HashMap<u32, Value>,
    number_call: SigRef,
    arguments: usize,
    results: usize,
}

impl<'f, 'p> Emitter<'f, 'p> {
    fn new(
        mut builder: FunctionBuilder<'f>,
        plan: &'p Plan,
        call: Signature,
        arguments: usize,
        results: usize,
    ) -> Self {
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let pointers = std::array::from_fn(|place| builder.block_params(block)[place]);
        let number_call = builder.import_signature(call);
        Emitter { builder, plan, pointers, values: HashMap::new(), number_call, arguments, results }
    }

    fn emit(mut self, graph: &[Op], segment: &[u32]) {
        for node in segment {
            let value = match self.values.get(node) {
                Some(value) => *value,
                None => {
                    let value = self.compute(graph, *node);
                    self.values.insert(*node, value);
                    value
                }
            };
            for place in self.plan.stores.get(node).into_iter().flatten() {
                self.store_lanes(value, self.pointers[1], *place, self.results);
            }
            if let Some(slot) = self.plan.slot_of.get(node) {
                let offset = self.offset(*slot);
                self.builder.ins().store(flags(), value, self.pointers[2], offset);
            }
            if *node == self.plan.violated {
                self.builder.ins().store(flags(), value, self.pointers[2], 0);
            }
        }
        self.builder.ins().return_(&[]);
        self.builder.finalize();
    }

    fn number_type(&self) -> Type {
        if self.plan.lanes == 1 { types::F64 } else { types::F64X2 }
    }

    fn offset(&self, slot: usize) -> i32 {
        i32::try_from(slot * self.plan.lanes * size_of::<f64>())
            .expect("scratch memory and constants of less than 2 GB")
    }

    /// The value of an operand: computed here, or read from where another segment or the caller left it.
    fn operand(&mut self, graph: &[Op], node: u32) -> Value {
        // A constant is loaded where it is used, as the operand in memory of an instruction.
        if let Some(place) = self.plan.constant_of.get(&node) {
            let (offset, kind) = (self.offset(*place), self.number_type());
            return self.builder.ins().load(kind, flags(), self.pointers[3], offset);
        }
        if let Some(value) = self.values.get(&node) {
            return *value;
        }
        let value = match graph[node as usize] {
            Op::Input(_) => self.compute(graph, node),
            op => {
                let offset = self.offset(self.plan.slot_of[&node]);
                let kind = if is_condition(op) { self.condition_type() } else { self.number_type() };
                self.builder.ins().load(kind, flags(), self.pointers[2], offset)
            }
        };
        self.values.insert(node, value);
        value
    }

    fn condition_type(&self) -> Type {
        if self.plan.lanes == 1 { types::I8 } else { types::I64X2 }
    }

    fn compute(&mut self, graph: &[Op], node: u32) -> Value {
        match graph[node as usize] {
            Op::Input(place) => self.load_lanes(self.pointers[0], place as usize, self.arguments),
            Op::Constant(_) => self.operand(graph, node),
            Op::Unary(operation, parameter, x) => {
                let x = self.operand(graph, x);
                match operation {
                    Operation::Neg => self.builder.ins().fneg(x),
                    Operation::Abs => self.builder.ins().fabs(x),
                    Operation::Sqrt => self.builder.ins().sqrt(x),
                    _ => {
                        let parameter = self.builder.ins().f64const(f64::from_bits(parameter));
                        self.call_lanes(operation, x, None, parameter)
                    }
                }
            }
            Op::Binary(operation, a, b) => {
                let (a, b) = (self.operand(graph, a), self.operand(graph, b));
                match operation {
                    Operation::Add => self.builder.ins().fadd(a, b),
                    Operation::Sub => self.builder.ins().fsub(a, b),
                    Operation::Mul => self.builder.ins().fmul(a, b),
                    Operation::Div => self.builder.ins().fdiv(a, b),
                    _ => self.call_lanes(operation, a, Some(b), b),
                }
            }
            Op::Compare(relation, a, b) => {
                let (a, b) = (self.operand(graph, a), self.operand(graph, b));
                self.builder.ins().fcmp(condition_code(relation), a, b)
            }
            Op::And(a, b) => {
                let (a, b) = (self.operand(graph, a), self.operand(graph, b));
                self.builder.ins().band(a, b)
            }
            Op::Or(a, b) => {
                let (a, b) = (self.operand(graph, a), self.operand(graph, b));
                self.builder.ins().bor(a, b)
            }
            Op::Not(a) => {
                let a = self.operand(graph, a);
                if self.plan.lanes == 1 {
                    let one = self.builder.ins().iconst(types::I8, 1);
                    self.builder.ins().bxor(a, one)
                } else {
                    self.builder.ins().bnot(a)
                }
            }
            Op::Select(mask, a, b) => {
                let mask = self.operand(graph, mask);
                let (a, b) = (self.operand(graph, a), self.operand(graph, b));
                if self.plan.lanes == 1 {
                    return self.builder.ins().select(mask, a, b);
                }
                let bits = MemFlags::new().with_endianness(Endianness::Little);
                let mask = self.builder.ins().bitcast(types::F64X2, bits, mask);
                self.builder.ins().bitselect(mask, a, b)
            }
        }
    }

    /// Calls the value of a row for each lane.
    fn call_lanes(&mut self, operation: Operation, a: Value, b: Option<Value>, parameter: Value) -> Value {
        let address = self.builder.ins().iconst(types::I64, address_of(operation) as i64);
        if self.plan.lanes == 1 {
            let call = self.builder.ins().call_indirect(self.number_call, address, &[a, b.unwrap_or(parameter)]);
            return self.builder.inst_results(call)[0];
        }
        let mut result = None;
        for lane in 0..2 {
            let first = self.builder.ins().extractlane(a, lane);
            let second = match b {
                Some(b) => self.builder.ins().extractlane(b, lane),
                None => parameter,
            };
            let call = self.builder.ins().call_indirect(self.number_call, address, &[first, second]);
            let value = self.builder.inst_results(call)[0];
            result = Some(match result {
                None => self.builder.ins().scalar_to_vector(types::F64X2, value),
                Some(vector) => self.builder.ins().insertlane(vector, value, lane),
            });
        }
        result.expect("there are two lanes")
    }

    /// Loads a number of each lane, whose vectors lie behind each other.
    fn load_lanes(&mut self, pointer: Value, place: usize, stride: usize) -> Value {
        let mut load = |lane: usize| {
            let offset = i32::try_from((lane * stride + place) * size_of::<f64>()).expect("vectors of less than 2 GB");
            self.builder.ins().load(types::F64, flags(), pointer, offset)
        };
        let first = load(0);
        if self.plan.lanes == 1 {
            return first;
        }
        let second = load(1);
        let vector = self.builder.ins().scalar_to_vector(types::F64X2, first);
        self.builder.ins().insertlane(vector, second, 1)
    }

    fn store_lanes(&mut self, value: Value, pointer: Value, place: usize, stride: usize) {
        for lane in 0..self.plan.lanes {
            let offset = i32::try_from((lane * stride + place) * size_of::<f64>()).expect("vectors of less than 2 GB");
            let number = match self.plan.lanes {
                1 => value,
                _ => self.builder.ins().extractlane(value, lane as u8),
            };
            self.builder.ins().store(flags(), number, pointer, offset);
        }
    }
}

/// Addresses are valid; numbers of a vector are aligned like one number.
fn flags() -> MemFlags {
    MemFlags::new().with_notrap()
}

fn is_condition(op: Op) -> bool {
    matches!(op, Op::Compare(..) | Op::And(..) | Op::Or(..) | Op::Not(_))
}

fn condition_code(relation: Relation) -> FloatCC {
    match relation {
        Relation::Less => FloatCC::LessThan,
        Relation::LessOrEqual => FloatCC::LessThanOrEqual,
        Relation::Greater => FloatCC::GreaterThan,
        Relation::GreaterOrEqual => FloatCC::GreaterThanOrEqual,
        Relation::Equal => FloatCC::Equal,
        Relation::NotEqual => FloatCC::NotEqual,
    }
}

extern "C" fn unary_value<R: Unary>(x: f64, parameter: f64) -> f64 {
    R::value(x, parameter)
}

extern "C" fn binary_value<R: Binary>(a: f64, b: f64) -> f64 {
    R::value(a, b)
}

/// The function that computes a row's value.
fn address_of(operation: Operation) -> usize {
    static ADDRESSES: OnceLock<HashMap<Operation, usize>> = OnceLock::new();
    let addresses = ADDRESSES.get_or_init(|| {
        let mut addresses = Addresses(HashMap::new());
        visit(&mut addresses);
        addresses.0
    });
    addresses[&operation]
}

struct Addresses(HashMap<Operation, usize>);

impl Visitor for Addresses {
    fn unary<R: Unary>(&mut self, row: &Row) {
        self.0.insert(row.operation, unary_value::<R> as extern "C" fn(f64, f64) -> f64 as usize);
    }

    fn binary<R: Binary>(&mut self, row: &Row) {
        self.0.insert(row.operation, binary_value::<R> as extern "C" fn(f64, f64) -> f64 as usize);
    }
}
