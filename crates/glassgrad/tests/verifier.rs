//! The verifier of programs detects planted violations of every kind.

use glassgrad::dtype::DType;
use glassgrad::ops::Operation;
use glassgrad::opt::program::{Instruction, Loop, Memory, Program, Step};
use glassgrad::rng::Key;
use glassgrad::{Tensor, Within, compile, grad, scan};

fn numbers(shape: &[usize]) -> Tensor {
    Tensor::normal(Key::new(7), shape.to_vec()).cast(DType::F64).detach().expect("numbers")
}

/// A program with a loop, a product and a sum, and values in the arena.
fn network() -> Program {
    let (x, w) = (numbers(&[8, 64]), numbers(&[64, 64]));
    let roots = [x.matmul(&w).tanh().matmul(&w).sin(), x.exp().sum_over(0)];
    let program = compile(|_: &Tensor| roots.to_vec()).program(&Tensor::from(1.0)).expect("a program");
    (*program).clone()
}

fn recurrent() -> Program {
    let (w, x) = (numbers(&[6, 6]), numbers(&[5, 6]));
    let step = |s: &Tensor, x: &Tensor| ((w.matmul(s) + x).tanh(), s.sum());
    let (last, sums) = scan(step, &numbers(&[6]), &x);
    (*compile(|_: &Tensor| vec![last.clone(), sums.clone()]).program(&Tensor::from(1.0)).expect("a program")).clone()
}

fn swept() -> Program {
    let loss = |x: &Tensor| scan(|s: &Tensor, x: &Tensor| ((s * x).sin(), ()), &x.sum_over(0), x).0.sum();
    let x = numbers(&[40, 2000]);
    let plain = glassgrad::exec::footprint(&compile(grad(loss)).program(&x).expect("a program"));
    let program = compile(grad(loss).within(plain * 2 / 3)).program(&x).expect("a program");
    assert!(program.steps.iter().any(|step| matches!(step, Step::ReverseScan(_))), "{program}");
    (*program).clone()
}

/// Two columns of a matrix are read and written by one loop.
fn columns() -> Program {
    let x = numbers(&[50, 4]);
    let joined = Tensor::concatenate([&x.exp(), &x.sin()], 1);
    (*joined.program().expect("a program")).clone()
}

fn first_loop(program: &mut Program) -> &mut Loop {
    let found = program.steps.iter_mut().find_map(|step| match step {
        Step::Loop(fused) if !fused.code.is_empty() => Some(fused),
        _ => None,
    });
    found.expect("a loop")
}

/// The loop that reads an input, and the number of that load.
fn input_loop(program: &mut Program) -> (&mut Loop, usize) {
    let is_input = |load: &glassgrad::opt::program::Access| matches!(load.memory, Memory::Input(_));
    let found = program.steps.iter_mut().find_map(|step| match step {
        Step::Loop(fused) => fused.loads.iter().position(is_input).map(|load| (fused, load)),
        _ => None,
    });
    found.expect("a loop over an input")
}

fn input_load(program: &mut Program) -> &mut glassgrad::opt::program::Access {
    let (fused, load) = input_loop(program);
    &mut fused.loads[load]
}

/// Expects a violation whose message contains some words.
#[track_caller]
fn detects(mut program: Program, expected: &str, plant: impl FnOnce(&mut Program)) {
    assert_eq!(program.verify(), Ok(()), "{program}");
    plant(&mut program);
    match program.verify() {
        Ok(()) => panic!("'{expected}' was not detected in\n{program}"),
        Err(violation) => assert!(violation.to_string().contains(expected), "{violation}, not '{expected}'\n{program}"),
    }
}

#[test]
fn sound_programs_are_accepted() {
    for program in [network(), recurrent(), swept(), columns()] {
        assert_eq!(program.verify(), Ok(()), "{program}");
    }
}

#[test]
fn accesses_beyond_their_memory() {
    detects(network(), "reaches elements", |p| input_load(p).offset += 1);
    detects(network(), "reaches elements", |p| input_load(p).offset -= 1);
    detects(network(), "where no value is live", |p| first_loop(p).loads[0].offset += 1);
    detects(network(), "reaches elements", |p| input_load(p).strides[0] += 1);
    detects(network(), "reaches elements", |p| first_loop(p).stores[0].access.offset += 1_000_000);
    detects(network(), "reaches elements", |p| input_loop(p).0.extents[0] += 1);
    detects(network(), "strides for", |p| first_loop(p).loads[0].strides.push(1));
    detects(network(), "which there is not", |p| first_loop(p).loads[0].memory = Memory::Input(99));
    detects(network(), "which there is not", |p| first_loop(p).loads[0].memory = Memory::Constant(99));
    detects(network(), "there is no product before it", |p| first_loop(p).loads[0].memory = Memory::Tile);
    detects(network(), "takes input", |p| p.inputs.iter_mut().for_each(|(_, dtype)| *dtype = DType::I64));
    let product = |p: &mut Program, change: &dyn Fn(&mut glassgrad::opt::program::Contraction)| {
        let found = p.steps.iter_mut().find_map(|step| if let Step::Contract(one) = step { Some(one) } else { None });
        change(found.expect("a product"));
    };
    detects(network(), "the first factor reaches", |p| product(p, &|one| one.operands[0].offset += 1));
    detects(network(), "the second factor reaches", |p| product(p, &|one| one.columns.extent += 1));
    detects(network(), "go to one place", |p| product(p, &|one| one.rows.strides[2] = 0));
    detects(network(), "was not cleared", |p| {
        product(p, &|one| {
            one.accumulates = true;
            one.clear = None;
        });
    });
    detects(columns(), "reaches elements", |p| p.results[0].0 = [50, 7].into());
}

#[test]
fn values_of_the_arena() {
    let in_arena = |p: &Program| !p.values.is_empty();
    assert!(in_arena(&network()) && in_arena(&recurrent()), "{}", network());
    detects(network(), "does not lie in the arena", |p| p.values[0].place = p.arena);
    detects(network(), "does not lie in the arena", |p| p.arena = 8);
    detects(network(), "where no value is live", |p| p.values.clear());
    detects(network(), "where no value is live", |p| p.values.iter_mut().for_each(|value| value.last = value.first));
    detects(network(), "overlap", |p| {
        let twin = p.values[0];
        p.values.push(twin);
    });
    detects(network(), "not aligned", |p| {
        for step in &mut p.steps {
            if let Step::Loop(fused) = step {
                for load in &mut fused.loads {
                    if let Memory::Arena(place) = &mut load.memory {
                        *place += 1;
                    }
                }
            }
        }
    });
    // The second product reads what no step has written.
    detects(network(), "before they are written", |p| {
        p.steps.drain(..2);
        p.values.retain(|value| !value.is_taken_over);
        p.values.iter_mut().for_each(|value| (value.first, value.last) = (0, 4));
    });
}

#[test]
fn results_that_are_not_written() {
    detects(network(), "elements of result", |p| drop(p.steps.pop()));
    detects(columns(), "elements of result 0 are written", |p| drop(p.steps.pop()));
    detects(columns(), "elements of result 1 are written", |p| p.results.push(p.results[0].clone()));
}

#[test]
fn what_is_overwritten() {
    detects(network(), "not declared as overwritten", |p| first_loop(p).stores[0].access.memory = Memory::Input(0));
    detects(network(), "goes to Constant", |p| {
        p.constants.push(numbers(&[8 * 64]).eval().expect("numbers"));
        first_loop(p).stores[0].access.memory = Memory::Constant(0);
    });
    // A loop that writes its result one place further than it reads.
    let shifted = || {
        let mut program = (*numbers(&[64]).exp().program().expect("a program")).clone();
        let fused = first_loop(&mut program);
        fused.extents[0] = 32;
        fused.loads[0].memory = Memory::Result(0);
        program
    };
    let mut program = shifted();
    first_loop(&mut program).stores[0].access.offset = 1;
    let violation = program.verify().unwrap_err().to_string();
    assert!(violation.contains("writes over load 0 at other places"), "{violation}");
    // Even and odd places do not meet.
    let mut program = shifted();
    let fused = first_loop(&mut program);
    (fused.loads[0].strides, fused.stores[0].access.strides) = (vec![2], vec![2]);
    fused.stores[0].access.offset = 1;
    let violation = program.verify().unwrap_err().to_string();
    assert!(violation.contains("32 of 64 elements"), "{violation}");
    detects(network(), "over its factor", |p| {
        for step in &mut p.steps {
            if let Step::Contract(product) = step {
                let result = product.operands[2].memory;
                product.operands[0].memory = result;
            }
        }
        p.values.iter_mut().for_each(|value| value.first = 0);
        p.results.iter_mut().for_each(|(shape, _)| *shape = [8, 64].into());
        p.steps.retain(|step| matches!(step, Step::Contract(_)));
        p.values.clear();
        for step in &mut p.steps {
            if let Step::Contract(product) = step {
                for operand in [0, 2] {
                    product.operands[operand].memory = Memory::Result(0);
                }
            }
        }
    });
}

#[test]
fn registers() {
    detects(network(), "before it is defined", |p| {
        let fused = first_loop(p);
        let own = fused.loads.len();
        fused.code[0].0 = Instruction::Unary(Operation::Exp, own, 0.0);
    });
    detects(network(), "not of f32", |p| first_loop(p).code[0].1 = DType::F32);
    detects(network(), "which there is not", |p| first_loop(p).stores[0].register = 99);
    detects(network(), "as i64", |p| first_loop(p).stores[0].access.dtype = DType::I64);
    detects(network(), "describes", |p| first_loop(p).by_row.truncate(1));
    let whole = || {
        let x = Tensor::from([1_i64, 2, 3]);
        (*((&x + 1) * &x).program().expect("a program")).clone()
    };
    detects(whole(), "there is no div of i64", |p| {
        let fused = first_loop(p);
        for (instruction, _) in &mut fused.code {
            if let Instruction::Binary(operation, ..) = instruction {
                *operation = Operation::Div;
            }
        }
    });
}

#[test]
fn loops_over_time() {
    let repeat = |p: &mut Program, change: &dyn Fn(&mut glassgrad::opt::program::ScanLoop)| {
        let found = p.steps.iter_mut().find_map(|step| if let Step::Scan(one) = step { Some(one) } else { None });
        change(found.expect("a loop over time"));
    };
    detects(recurrent(), "of the body reaches", |p| repeat(p, &|one| one.length += 1));
    detects(recurrent(), "scratch memory", |p| repeat(p, &|one| one.scratch = Memory::Arena(1 << 30)));
    detects(recurrent(), "scratch memory", |p| repeat(p, &|one| one.scratch = Memory::Input(0)));
    detects(recurrent(), "is given", |p| repeat(p, &|one| drop(one.inputs.pop())));
    detects(recurrent(), "fewer inputs or results", |p| repeat(p, &|one| one.carries = 100));
    // A body whose outputs are not those of its loop, or of another type.
    detects(recurrent(), "results has", |p| repeat(p, &|one| drop(one.outputs.pop())));
    detects(recurrent(), "and taken for i64", |p| {
        repeat(p, &|one| one.outputs.iter_mut().flatten().for_each(|output| output.dtype = DType::I64));
    });
    detects(recurrent(), "and taken for i64", |p| repeat(p, &|one| one.inputs[0].dtype = DType::I64));
    detects(recurrent(), "carry 0 is", |p| {
        repeat(p, &|one| {
            let mut body = (*one.body).clone();
            body.inputs[0].0 = body.inputs[0].0.followed_by(&[1]);
            one.body = body.into();
        });
    });
    detects(recurrent(), "in the body", |p| {
        repeat(p, &|one| {
            let mut body = (*one.body).clone();
            body.steps.clear();
            one.body = body.into();
        });
    });
    let sweep = |p: &mut Program, change: &dyn Fn(&mut glassgrad::opt::program::ReverseScan)| {
        let found =
            p.steps.iter_mut().find_map(|step| if let Step::ReverseScan(one) = step { Some(one) } else { None });
        change(found.expect("a sweep"));
    };
    detects(swept(), "scratch memory", |p| {
        sweep(p, &|one| {
            let mut schedule = (*one.schedule).clone();
            schedule.snapshots += 1000;
            one.schedule = schedule.into();
        });
    });
    detects(swept(), "do not belong together", |p| sweep(p, &|one| one.advance = one.reverse.clone()));
}
