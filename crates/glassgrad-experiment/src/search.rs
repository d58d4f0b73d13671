//! Searches for settings: candidates are drawn, tried on a validation part, and the better ones lead on.

use glassgrad::rng::Key;
use serde::{Deserialize, Serialize};

use super::objective::Score;
use super::settings::Settings;
use crate::failure::Failure;

/// A candidate configuration: a learning rate, and the layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub lr: f64,
    pub layers: Vec<usize>,
}

/// The search space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Learning rates lie between these, evenly on a logarithmic scale.
    pub rates: (f64, f64),
    /// The maximum number of layers.
    pub depth: usize,
    /// The widths that a layer can have.
    pub widths: Vec<usize>,
}

/// A candidate that was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Its number, from 1 on, in the order in which they were tried.
    pub number: usize,
    /// The round of the search that tried it.
    pub round: usize,
    pub candidate: Candidate,
    pub epochs: u64,
    pub seconds: f64,
    /// Its validation score; `None` if it diverged.
    pub score: Option<Score>,
}

impl Candidate {
    /// Settings with the candidate's learning rate and layers.
    pub fn settings(&self, settings: &Settings, epochs: u64) -> Settings {
        Settings { lr: self.lr, layers: self.layers.clone(), epochs, ..settings.clone() }
    }
}

impl Space {
    /// Refuses a space in which there is nothing.
    pub fn check(&self) -> Result<(), Failure> {
        let (low, high) = self.rates;
        let refuse = |message: String| Err(Failure::Input(message));
        if !(low > 0.0 && high >= low && high.is_finite()) {
            return refuse(format!("--rates {low},{high}: two positive numbers, the lower one first"));
        }
        if self.depth == 0 {
            return refuse("--depth 0: networks have at least one layer between their ends".to_owned());
        }
        if self.widths.is_empty() || self.widths.contains(&0) {
            return refuse("--widths: at least one width, and each at least 1".to_owned());
        }
        Ok(())
    }

    /// A candidate drawn at random.
    pub fn draw(&self, key: Key) -> Candidate {
        let depth = 1 + below(key, 0, self.depth);
        let width = |layer: usize| self.widths[below(key, 2 + layer as u64, self.widths.len())];
        Candidate { lr: self.rate(key.uniform(1)), layers: (0..depth).map(width).collect() }
    }

    /// A learning rate at a part of the way from the lowest to the highest.
    fn rate(&self, part: f64) -> f64 {
        let (low, high) = self.rates;
        // Three digits, which are short to print and to type.
        let rate: f64 = (low.ln() + part * (high / low).ln()).exp();
        format!("{rate:.2e}").parse::<f64>().unwrap_or(rate).clamp(low, high)
    }

    /// A candidate near another: its rate moved, and a layer changed, added or left out.
    pub fn mutate(&self, parent: &Candidate, key: Key) -> Candidate {
        let (low, high) = self.rates;
        let moved = (parent.lr.ln() + 0.5 * key.normal(0)).exp().clamp(low, high);
        let part = if high > low { (moved / low).ln() / (high / low).ln() } else { 0.0 };
        let mut layers = parent.layers.clone();
        let width = self.widths[below(key, 3, self.widths.len())];
        match below(key, 2, 4) {
            0 if layers.len() < self.depth => layers.insert(below(key, 4, layers.len() + 1), width),
            1 if layers.len() > 1 => {
                layers.remove(below(key, 4, layers.len()));
            }
            2 => {
                let place = below(key, 4, layers.len());
                layers[place] = width;
            }
            _ => {}
        }
        Candidate { lr: self.rate(part), layers }
    }
}

fn below(key: Key, number: u64, count: usize) -> usize {
    ((key.uniform(number) * count as f64) as usize).min(count - 1)
}

/// The trials from the best to the worst.
pub fn ranked(trials: &[Trial]) -> Vec<&Trial> {
    let mut ranked: Vec<&Trial> = trials.iter().collect();
    ranked.sort_by(|one, other| match (one.score, other.score) {
        (Some(one), Some(other)) if one.measure.is_better_than(other.measure) => std::cmp::Ordering::Less,
        (Some(one), Some(other)) if other.measure.is_better_than(one.measure) => std::cmp::Ordering::Greater,
        // Of two that are as good, the one whose loss is lower.
        (Some(one), Some(other)) => one.loss.total_cmp(&other.loss),
        (one, other) => other.is_some().cmp(&one.is_some()),
    });
    ranked
}

/// The budget and the random key of a search.
pub struct Plan {
    pub space: Space,
    /// The number of candidates; in an evolution, the number of trials.
    pub count: usize,
    /// The most epochs that a candidate gets.
    pub epochs: u64,
    pub key: Key,
    /// The first candidate: what training without a search would take, so that a search never recommends less.
    pub first: Option<Candidate>,
}

/// A trial that is yet to be run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its number among all trials, from 1 on.
    pub number: usize,
    pub round: usize,
    pub candidate: Candidate,
    pub epochs: u64,
}

impl Planned {
    /// The trial, when it was run.
    pub fn done(self, seconds: f64, score: Option<Score>) -> Trial {
        let Planned { number, round, candidate, epochs } = self;
        Trial { number, round, candidate, epochs, seconds, score }
    }
}

/// Runs the trials of a round, which do not depend on each other; fewer results end the search.
pub type Run<'t> = dyn FnMut(Vec<Planned>) -> Result<Vec<Trial>, Failure> + 't;

/// The population size of an evolution.
const POPULATION: usize = 6;

impl Plan {
    /// Random search: draws candidates and tries each of them.
    pub fn random(&self, run: &mut Run<'_>) -> Result<Vec<Trial>, Failure> {
        let next = |trials: &[Trial], _: usize| {
            let candidates = (trials.len()..self.count).map(|number| self.drawn(number)).collect();
            (self.epochs, candidates)
        };
        search(next, run)
    }

    /// Successive halving: draws candidates, gives each a few epochs, and the better half twice as many, until one has had all of them.
    pub fn halving(&self, run: &mut Run<'_>) -> Result<Vec<Trial>, Failure> {
        let rounds = self.count.max(1).ilog2() as usize;
        let next = |trials: &[Trial], round: usize| {
            let Some(halvings) = rounds.checked_sub(round) else { return (0, Vec::new()) };
            let candidates = if round == 0 {
                (0..self.count).map(|number| self.drawn(number)).collect()
            } else {
                let last = &trials[trials.partition_point(|trial| trial.round + 1 < round)..];
                ranked(last).into_iter().take(last.len().div_ceil(2)).map(|trial| trial.candidate.clone()).collect()
            };
            ((self.epochs >> halvings).max(1), candidates)
        };
        search(next, run)
    }

    /// Generations of candidates near the best so far: of two that are met by chance, the better one has a child.
    pub fn evolution(&self, run: &mut Run<'_>) -> Result<Vec<Trial>, Failure> {
        let next = |trials: &[Trial], _: usize| {
            let alive: Vec<&Trial> = ranked(trials).into_iter().take(POPULATION).collect();
            let child = |number: usize| {
                let key = self.key.fold(number as u64);
                let parent = below(key, 10, alive.len()).min(below(key, 11, alive.len()));
                self.space.mutate(&alive[parent].candidate, key)
            };
            let candidate = |number: usize| if alive.is_empty() { self.drawn(number) } else { child(number) };
            let first = trials.len();
            (self.epochs, (first..self.count.min(first + POPULATION)).map(candidate).collect())
        };
        search(next, run)
    }

    fn drawn(&self, number: usize) -> Candidate {
        match &self.first {
            Some(first) if number == 0 => first.clone(),
            _ => self.space.draw(self.key.fold(number as u64)),
        }
    }
}

/// Runs round after round: the epochs and the candidates that follow from the trials so far, until there are none.
fn search(next: impl Fn(&[Trial], usize) -> (u64, Vec<Candidate>), run: &mut Run<'_>) -> Result<Vec<Trial>, Failure> {
    let mut trials: Vec<Trial> = Vec::new();
    for round in 0.. {
        let (epochs, candidates) = next(&trials, round);
        let (first, count) = (trials.len() + 1, candidates.len());
        let planned = candidates.into_iter().enumerate();
        let planned = planned.map(|(place, candidate)| Planned { number: first + place, round, candidate, epochs });
        if count == 0 {
            break;
        }
        let done = run(planned.collect())?;
        let is_ended = done.len() < count;
        trials.extend(done);
        if is_ended {
            break;
        }
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::super::objective::Measure;
    use super::*;

    type Search = fn(&Plan, &mut Run<'_>) -> Result<Vec<Trial>, Failure>;

    fn space() -> Space {
        Space { rates: (1e-4, 1.0), depth: 3, widths: vec![4, 8, 16] }
    }

    /// A trial in a world in which the best rate is 0.01 and the best network has two layers.
    fn tried(planned: Planned) -> Trial {
        let Candidate { lr, layers } = &planned.candidate;
        let wrong = (lr.ln() - 0.01_f64.ln()).abs() + (layers.len() as f64 - 2.0).abs();
        planned.done(0.0, Some(Score { loss: wrong, measure: Measure::Error { rmse: wrong, r2: 0.0 } }))
    }

    fn world(planned: Vec<Planned>) -> Result<Vec<Trial>, Failure> {
        Ok(planned.into_iter().map(tried).collect())
    }

    #[test]
    fn candidates_stay_in_their_space() {
        let space = space();
        let mut candidate = space.draw(Key::new(1));
        for number in 0..500 {
            candidate = space.mutate(&candidate, Key::new(2).fold(number));
            assert!((1e-4..=1.0).contains(&candidate.lr) && (1..=3).contains(&candidate.layers.len()), "{candidate:?}");
            assert!(candidate.layers.iter().all(|width| space.widths.contains(width)));
        }
    }

    #[test]
    fn evolution_comes_nearer_than_chance() {
        let best = |search: Search| {
            let mut sum = 0.0;
            for seed in 0..20 {
                let plan = Plan { space: space(), count: 40, epochs: 8, key: Key::new(seed), first: None };
                let trials = search(&plan, &mut world).unwrap();
                sum += ranked(&trials)[0].score.unwrap().loss;
            }
            sum / 20.0
        };
        let (by_chance, evolved) = (best(Plan::random), best(Plan::evolution));
        assert!(evolved < 0.7 * by_chance, "{evolved} and {by_chance}");
    }

    #[test]
    fn the_default_settings_are_the_first_candidate() {
        let first = Candidate { lr: 1.0, layers: vec![10] };
        let searches: [Search; 3] = [Plan::random, Plan::halving, Plan::evolution];
        for search in searches {
            let plan = Plan { space: space(), count: 4, epochs: 8, key: Key::new(3), first: Some(first.clone()) };
            let trials = search(&plan, &mut world).unwrap();
            assert_eq!(trials[0].candidate, first);
            assert!(trials[1..4].iter().all(|trial| trial.candidate != first));
        }
    }

    #[test]
    fn a_search_ends_when_it_is_asked_to() {
        let searches: [Search; 3] = [Plan::random, Plan::halving, Plan::evolution];
        for search in searches {
            for (count, most) in [(0, 5), (1, 5), (8, 5), (9, 0)] {
                let (mut left, mut rounds_after_the_end): (usize, i32) = (most, 0);
                let mut run = |mut planned: Vec<Planned>| {
                    rounds_after_the_end += i32::from(left == 0);
                    planned.truncate(left);
                    left -= planned.len();
                    world(planned)
                };
                let plan = Plan { space: space(), count, epochs: 8, key: Key::new(3), first: None };
                let trials = search(&plan, &mut run).unwrap();
                let all = search(&plan, &mut world).unwrap().len();
                assert_eq!(trials.len(), all.min(most));
                assert!(rounds_after_the_end <= 1, "it went on for {rounds_after_the_end} rounds");
            }
        }
    }

    #[test]
    fn halving_gives_the_better_ones_more() {
        let plan = Plan { space: space(), count: 16, epochs: 32, key: Key::new(3), first: None };
        let trials = plan.halving(&mut world).unwrap();
        let counts: Vec<usize> =
            (0..5).map(|round| trials.iter().filter(|trial| trial.round == round).count()).collect();
        assert_eq!(counts, [16, 8, 4, 2, 1]);
        let last = trials.last().unwrap();
        assert_eq!((last.epochs, last.score.unwrap().loss), (32, ranked(&trials)[0].score.unwrap().loss));
    }
}
