//! A function as a chain of steps: it is cut where few values are live, and the nodes between two cuts are a step
//! from one state to the next, which can be computed anew.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use super::checkpoint::{pull, region};
use super::reverse::Parts;
use crate::expr::{Node, Op, Region, RegionKind, Subgraph, Tensor};
use crate::opt::revolve::{Action, Schedule, fewest_advances};
use crate::sorting::IndirectSort;

/// The most steps of a chain: every one that runs stands in the program.
const MOST_STEPS: usize = 256;

/// How often the steps of a chain may run forwards, on average.
const MOST_RUNS: usize = 8;

/// The window in which a local minimum of live bytes is searched.
const NEIGHBOURS: usize = 32;

/// States, each of the tensors from which everything after it follows, together with the variables. The first has
/// none, and the last is the result.
pub(super) struct Chain {
    states: Vec<Vec<Tensor>>,
    variables: Vec<Tensor>,
}

impl Chain {
    pub(super) fn of(result: &Tensor, variables: &[Tensor]) -> Chain {
        let whole = Subgraph::new(variables.to_vec(), vec![result.clone()]);
        let is_number = |node: &Arc<Node>| matches!(&node.op, Op::Einsum(einsum) if einsum.operands.is_empty());
        let nodes: Vec<Arc<Node>> = whole.nodes().into_iter().filter(|node| !is_number(node)).collect();
        let alive = Alive::of(&nodes);
        let mut worth = 2;
        let mut places = alive.cuts(worth);
        while places.len() >= MOST_STEPS {
            worth *= 2;
            places = alive.cuts(worth);
        }
        let state = |place: &usize| {
            let crosses = |number: &usize| alive.last_use[*number] > *place;
            (0..=*place).filter(crosses).map(|number| Tensor::onto(Arc::clone(&nodes[number]))).collect()
        };
        let mut states: Vec<Vec<Tensor>> = std::iter::once(Vec::new()).chain(places.iter().map(state)).collect();
        states.push(vec![result.clone()]);
        Chain { states, variables: variables.to_vec() }
    }

    pub(super) fn steps(&self) -> usize {
        self.states.len() - 1
    }

    /// The fewest states to keep, so that the program does not become too long.
    pub(super) fn fewest_snapshots(&self) -> usize {
        let steps = self.steps();
        (0..steps).find(|kept| fewest_advances(steps, *kept) <= MOST_RUNS * steps).unwrap_or_default()
    }

    /// The value, and the cotangents of all variables, with at most this many states kept at a time: the actions of a schedule,
    /// each as a region. Whatever runs after the way forwards waits for the cotangent that has come so far.
    pub(super) fn gradient(
        &self,
        arguments: &[Tensor],
        kept: usize,
        snapshots: Option<usize>,
    ) -> (Tensor, Vec<Option<Tensor>>) {
        let last = self.steps();
        let result = &self.states[last][0];
        let mut value = result.clone();
        let mut cotangents: Parts = HashMap::from([(0, (result.ones_like(), false))]);
        let mut sums: Vec<Option<Tensor>> = vec![None; arguments.len()];
        let schedule = Schedule::new(last, kept);
        let mut slots: Vec<Vec<Tensor>> = vec![Vec::new(); schedule.snapshots];
        let mut state: Vec<Tensor> = Vec::new();
        let mut is_forwards = true;
        for action in &schedule.actions {
            match *action {
                Action::Begin => state = Vec::new(),
                Action::Restore { slot } => state = slots[slot].clone(),
                Action::Store { slot } => slots[slot] = state.clone(),
                Action::Advance { from, to } => {
                    let waits = (!is_forwards).then_some(&cotangents);
                    state = self.advanced(from, to, &state, arguments, waits);
                }
                Action::Reverse { step } => {
                    if step + 1 == last {
                        value = self.advanced(step, last, &state, arguments, None).remove(0);
                    }
                    is_forwards = false;
                    cotangents = self.reversed(step, &state, arguments, &cotangents, snapshots, &mut sums);
                }
            }
        }
        (value, sums)
    }

    /// Some steps as the body of a region, from a state and the variables.
    fn body(&self, from: usize, to: usize) -> Subgraph {
        let since = self.variables.iter().map(|variable| variable.0.id).min();
        let parameters = [&self.states[from][..], &self.variables].concat();
        Subgraph { parameters, outputs: self.states[to].clone(), since }
    }

    /// A later state from an earlier one, after some cotangents.
    fn advanced(
        &self,
        from: usize,
        to: usize,
        state: &[Tensor],
        arguments: &[Tensor],
        after: Option<&Parts>,
    ) -> Vec<Tensor> {
        let mut body = self.body(from, to);
        let mut inputs: Vec<Tensor> = state.iter().chain(arguments).cloned().collect();
        let first = inputs.len();
        // In the order of the state, so that the same function has the same structure again.
        let mut after: Vec<(&usize, &(Tensor, bool))> = after.into_iter().flatten().collect();
        after.indirect_sort_by_key(|(number, _)| **number);
        for (_, (cotangent, _)) in after {
            body.parameters.push(Tensor::placeholder(cotangent.shape().clone(), cotangent.dtype()));
            inputs.push(cotangent.clone());
        }
        let awaited = (first..inputs.len()).collect();
        region(body, &inputs, awaited, Location::caller())
    }

    /// The cotangents of a state from those of the next; what is owed to variables is added to the sums.
    fn reversed(
        &self,
        step: usize,
        state: &[Tensor],
        arguments: &[Tensor],
        cotangents: &Parts,
        snapshots: Option<usize>,
        sums: &mut [Option<Tensor>],
    ) -> Parts {
        let body = self.body(step, step + 1);
        let captured = body.captured();
        let inputs: Vec<Tensor> = state.iter().chain(arguments).chain(&captured).cloned().collect();
        let is_own = |number: usize| number < state.len() + arguments.len();
        let requested: Vec<bool> =
            (0..inputs.len()).map(|number| is_own(number) && inputs[number].is_float()).collect();
        let region = Region { body, awaited: Vec::new(), kind: RegionKind::Remat };
        let mut pulled = pull(&region, &Vec::new, &inputs, &requested, cotangents, &[], snapshots);
        let owed = pulled.split_off(state.len());
        for (sum, (owed, _)) in sums.iter_mut().zip(owed).filter_map(|(sum, owed)| Some((sum, owed?))) {
            *sum = Some(match sum.take() {
                Some(sum) => Tensor::add_all("add", &[&sum, &owed]),
                None => owed,
            });
        }
        pulled.into_iter().enumerate().filter_map(|(number, found)| Some((number, found?))).collect()
    }
}

/// What is alive after each node of a function, variables not counted.
struct Alive {
    /// The last node that uses each.
    last_use: Vec<usize>,
    /// The bytes of each node.
    own: Vec<usize>,
    /// The bytes alive after each node; none between the outputs of one operation.
    bytes: Vec<Option<usize>>,
}

impl Alive {
    fn of(nodes: &[Arc<Node>]) -> Alive {
        let numbers: HashMap<u64, usize> = nodes.iter().enumerate().map(|(number, node)| (node.id, number)).collect();
        let mut last_use: Vec<usize> = (0..nodes.len()).collect();
        for (number, node) in nodes.iter().enumerate() {
            for input in node.inputs().iter().filter_map(|input| numbers.get(&input.id)) {
                last_use[*input] = number;
            }
        }
        let own: Vec<usize> =
            nodes.iter().map(|node| node.shape.elements().saturating_mul(node.dtype.bytes())).collect();
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        last_use.iter().enumerate().for_each(|(number, last)| ends[*last].push(number));
        // The first and the last output of each operation with several.
        let mut outputs: HashMap<u64, (usize, usize)> = HashMap::new();
        for (number, node) in nodes.iter().enumerate() {
            if let Some(multi) = node.held_inputs().multi() {
                outputs.entry(multi.id).or_insert((number, number)).1 = number;
            }
        }
        let mut is_open = vec![false; nodes.len()];
        outputs.values().for_each(|(first, last)| is_open[*first..*last].fill(true));
        let mut alive = 0_usize;
        let mut bytes = Vec::with_capacity(nodes.len());
        for number in 0..nodes.len() {
            alive = alive.saturating_add(own[number]);
            for ended in &ends[number] {
                alive = alive.saturating_sub(own[*ended]);
            }
            bytes.push((!is_open[number]).then_some(alive));
        }
        Alive { last_use, own, bytes }
    }

    /// The nodes after which to cut: where hardly more is alive than anywhere near, and the step that ends there
    /// computes at least `worth` times the live bytes. The end of a function, where it becomes one number, does not
    /// count as near.
    fn cuts(&self, worth: usize) -> Vec<usize> {
        let largest = self.bytes.iter().flatten().copied().max().unwrap_or_default();
        let least_near = |place: usize| {
            let near = &self.bytes[place.saturating_sub(NEIGHBOURS)..self.bytes.len().min(place + NEIGHBOURS)];
            near.iter().flatten().copied().filter(|bytes| bytes.saturating_mul(16) >= largest).min()
        };
        let (mut cuts, mut computed) = (Vec::new(), 0_usize);
        for place in 0..self.bytes.len().saturating_sub(1) {
            computed = computed.saturating_add(self.own[place]);
            let Some(alive) = self.bytes[place].filter(|alive| *alive > 0) else { continue };
            let is_low = least_near(place).is_none_or(|least| alive <= least.saturating_add(least / 4));
            if is_low && computed >= alive.saturating_mul(worth) {
                cuts.push(place);
                computed = 0;
            }
        }
        cuts
    }
}
