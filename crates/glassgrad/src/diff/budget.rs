//! Selective rematerialisation, so that a gradient stays within a memory budget.
//!
//! Ways to make the gradient are tried from the quickest to the one that takes least memory, and each is planned to
//! see what it takes: everything kept; loops swept back with some of their states kept; the whole function cut into a
//! chain, of which some states are kept. Where the number of states is free, it is the largest that fits.

use super::chain::Chain;
use super::checkpoint::region;
use super::reverse::swept;
use crate::error::Error;
use crate::expr::{Pass, ProvenanceScope, Subgraph, Tensor};
use crate::opt::Capture;
use crate::runtime::{self, MemoryBudget, Strategy};

/// A function that was traced: what it returned, the variables in place of its arguments, and the arguments.
pub(super) struct Problem {
    result: Tensor,
    variables: Vec<Tensor>,
    arguments: Vec<Tensor>,
    with_value: bool,
    /// The number of the first variable: later nodes were created by the function.
    since: Option<u64>,
}

/// The value of a function and its gradient with respect to all arguments.
pub(super) type ValueAndGradient = (Tensor, Vec<Tensor>);

impl Problem {
    pub(super) fn new(result: &Tensor, variables: Vec<Tensor>, arguments: Vec<Tensor>, with_value: bool) -> Problem {
        let since = variables.iter().map(|variable| variable.0.id).min();
        Problem { result: result.clone(), variables, arguments, with_value, since }
    }

    /// The value and the gradient, built so that their program stays within a budget.
    pub(super) fn within(&self, budget: &MemoryBudget, operation: &str) -> Result<ValueAndGradient, Error> {
        if let Some(error) = self.variables.iter().find_map(Tensor::error) {
            return Err(error.clone());
        }
        let forwards = self.extract(std::slice::from_ref(&self.result))?;
        let structure = forwards.cacheable.then(|| forwards.structural_hash());
        if let Some(strategy) = structure.and_then(|structure| budget.strategy(structure)) {
            return Ok(self.built(strategy));
        }
        let (strategy, built) = self.search(budget, operation)?;
        if let Some(structure) = structure {
            budget.remember(structure, strategy);
        }
        Ok(built)
    }

    fn search(&self, budget: &MemoryBudget, operation: &str) -> Result<(Strategy, ValueAndGradient), Error> {
        let chain = Chain::of(&self.result, &self.variables);
        let longest = longest_loop(&self.body(std::slice::from_ref(&self.result)));
        let sweeps = (longest > 1).then_some(0);
        // Each with the fewest and the most states that it can keep.
        let mut families = vec![(Strategy::StoreAll, 0, 0)];
        families.extend(sweeps.map(|fewest| (Strategy::Sweeps(fewest), fewest, longest - 1)));
        if chain.steps() > 1 {
            let fewest = chain.fewest_snapshots();
            families.push((Strategy::Chain(fewest, sweeps), fewest, chain.steps() - 1));
        }
        let mut least = usize::MAX;
        for (family, fewest, most) in families {
            let planned = |kept: usize| -> Result<(Strategy, ValueAndGradient, usize), Error> {
                let strategy = family.storing(kept);
                let built = self.built(strategy);
                let bytes = self.memory(&built)?;
                Ok((strategy, built, bytes))
            };
            let (strategy, built, bytes) = planned(fewest)?;
            least = least.min(bytes);
            if bytes > budget.bytes {
                continue;
            }
            // The most states that fit: what was found to fit stays in hand.
            let (mut found, mut fits, mut fails) = ((strategy, built), fewest, most + 1);
            while fails - fits > 1 {
                let middle = if fails > most { most } else { fits + (fails - fits) / 2 };
                let (strategy, built, bytes) = planned(middle)?;
                if bytes <= budget.bytes {
                    (found, fits) = ((strategy, built), middle);
                } else {
                    fails = middle;
                }
            }
            return Ok(found);
        }
        let message = format!("the gradient takes at least {least} bytes of memory, and {} were given", budget.bytes);
        Err(Error::new(operation, message).at(budget.origin).help(format!("ask for {least} bytes or more")))
    }

    fn built(&self, strategy: Strategy) -> ValueAndGradient {
        let _provenance = ProvenanceScope::of(&self.result.0, Pass::Derivative);
        let (value, found) = match strategy {
            Strategy::StoreAll => (self.result.clone(), self.pulled(None)),
            Strategy::Sweeps(snapshots) => (self.result.clone(), self.pulled(Some(snapshots))),
            Strategy::Chain(kept, snapshots) => {
                // As long as variables live, nothing that depends on them is computed ahead of time.
                let live: Vec<Tensor> = self.arguments.iter().map(Tensor::wrapped).collect();
                Chain::of(&self.result, &self.variables).gradient(&live, kept, snapshots)
            }
        };
        let zeros = |(found, variable): (Option<Tensor>, &Tensor)| found.unwrap_or_else(|| variable.zeros_like());
        (value, found.into_iter().zip(&self.variables).map(zeros).collect())
    }

    fn pulled(&self, snapshots: Option<usize>) -> Vec<Option<Tensor>> {
        let requested: Vec<&Tensor> = self.variables.iter().filter(|variable| variable.is_float()).collect();
        let seed = (self.result.clone(), self.result.ones_like(), false);
        let found = swept(&[seed], &requested, &[], false, snapshots);
        let pulled = |variable: &Tensor| found.get(&variable.0.id).map(|(cotangent, _)| cotangent.clone());
        self.variables.iter().map(pulled).collect()
    }

    /// The bytes that a run of the program allocates that computes everything that is asked for, from the arguments. The
    /// program is not kept: most of those that are tried never run.
    fn memory(&self, (value, gradient): &ValueAndGradient) -> Result<usize, Error> {
        let value = self.with_value.then_some(value);
        let results: Vec<Tensor> = value.into_iter().chain(gradient).cloned().collect();
        Ok(runtime::planned(&self.extract(&results)?)?.footprint())
    }

    fn body(&self, results: &[Tensor]) -> Subgraph {
        Subgraph { parameters: self.arguments.clone(), outputs: results.to_vec(), since: self.since }
    }

    /// What computes some results from the arguments, and from what the function captured, as a function of both:
    /// what stands behind them is not part of it.
    fn extract(&self, results: &[Tensor]) -> Result<Capture, Error> {
        let mut body = self.body(results);
        body.parameters.extend(body.captured());
        let unknown = |like: &Tensor| Tensor::placeholder(like.shape().clone(), like.dtype());
        let inputs: Vec<Tensor> = body.parameters.iter().map(unknown).collect();
        let parts = region(body, &inputs, Vec::new(), self.result.origin());
        runtime::capture_function(&parts.iter().collect::<Vec<_>>())
    }
}

/// The length of the longest loop inside, loops in loops included.
fn longest_loop(body: &Subgraph) -> usize {
    let length = |node: &std::sync::Arc<crate::expr::Node>| {
        let inputs = node.held_inputs();
        inputs.multi().map(|multi| multi.op.length().max(longest_loop(multi.op.body())))
    };
    body.nodes().iter().filter_map(length).max().unwrap_or(1)
}
