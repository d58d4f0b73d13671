//! Data-parallel training: the number of ranks does not change a bit, also after stop and resume, and ranks that differ are refused.

use std::path::PathBuf;
use std::sync::Arc;

use glassgrad::collective::{Communicator, Shards, Solo, ThreadRank};
use glassgrad::data::{Dataset, Examples};
use glassgrad::dtype::DType;
use glassgrad::exec::Target;
use glassgrad::expr::{Keys, Op};
use glassgrad::models::{Gpt, GptConfig, ResNet, ResNetConfig, ResNetStatistics};
use glassgrad::nn::{Activation, Layer as _, Mlp};
use glassgrad::optim::{ClipNorm, OPTIMIZERS, Optimizer, OptimizerRow};
use glassgrad::rng::Key;
use glassgrad::runtime::Context;
use glassgrad::train::{Flow, LossOutput, Observer, Precision, Step, TrainError, Training};
use glassgrad::tree::Tree;
use glassgrad::{Tensor, compile, grad, jvp, loss, vmap};

/// The numbers of ranks that the eight shards of a batch are distributed over.
const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

/// A file for the checkpoint of one test.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("glassgrad-distributed-{}-{name}.safetensors", std::process::id()))
}

fn images(count: usize) -> (Tensor, Tensor) {
    let key = Key::new(5);
    let classes = Tensor::uniform(key.fold(1), [count]) * 3.0;
    (Tensor::normal(key.fold(0), [count, 1, 8, 8]), classes.floor().cast(DType::I64))
}

/// The bytes of the checkpoint after training on this many ranks and shards, and the losses.
fn trained<X, D, R>(
    (name, ranks, shards): (&str, usize, usize),
    make: impl Fn() -> (X, D) + Sync,
    training: impl for<'t> Fn(&'t ()) -> Training<'t, X, fn(&X, &D::Batch, &Keys) -> R> + Sync,
) -> (Vec<u8>, Vec<f64>)
where
    X: Tree + Clone + std::fmt::Debug,
    D: Dataset + 'static,
    R: LossOutput<X>,
{
    let path = file(&format!("{name}-{ranks}-{shards}"));
    let losses = ThreadRank::run(ranks, |rank| {
        let shards = Arc::new(Shards::new(rank, shards).unwrap());
        let (start, data) = make();
        let training = training(&()).shards(Arc::clone(&shards)).checkpoint(&path, 1000);
        let trained = training.run(&start, &Arc::new(data)).unwrap();
        (trained.losses, format!("{:?}", trained.parameters.flatten()))
    });
    assert!(losses.iter().all(|own| *own == losses[0]), "{name}: ranks differ among {ranks}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (bytes, losses.into_iter().next().unwrap().0)
}

fn equal_for_all_ranks<X, D, R>(
    name: &str,
    make: impl Fn() -> (X, D) + Sync,
    training: impl for<'t> Fn(&'t ()) -> Training<'t, X, fn(&X, &D::Batch, &Keys) -> R> + Sync,
) where
    X: Tree + Clone + std::fmt::Debug,
    D: Dataset + 'static,
    R: LossOutput<X>,
{
    let (alone, losses) = trained((name, 1, 8), &make, &training);
    assert!(losses.iter().all(|loss| loss.is_finite()) && losses.last() < losses.first(), "{losses:?}");
    for ranks in RANKS {
        let (bytes, own) = trained((name, ranks, 8), &make, &training);
        assert_eq!(own, losses, "{name}: the losses of {ranks} ranks");
        assert!(bytes == alone, "{name}: the checkpoint of {ranks} ranks differs from that of one");
    }
    // The comparison sees the order of sums: another number of shards is another order.
    assert!(trained((name, 2, 4), &make, &training).0 != alone, "{name}: four shards give the bits of eight");
}

fn mlp_loss(network: &Mlp, (x, y): &(Tensor, Tensor), _: &Keys) -> Tensor {
    loss::cross_entropy(&network.apply(x), y).mean()
}

fn mlp() -> (Mlp, Examples<(Tensor, Tensor)>) {
    let (x, classes) = images(70);
    let start = Mlp::new(Key::new(1), &[64, 33, 3], Activation::Tanh);
    (start, Examples::new((x.reshape([70, 64]), classes)).unwrap())
}

#[test]
fn an_mlp_has_the_same_checkpoint_on_any_number_of_ranks() {
    // Batches of 30, 30 and 10 examples: shards of 3 and 4, and of 1 and 2.
    equal_for_all_ranks("mlp", mlp, |_| {
        Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::adam(1e-2).clip_norm(1.0)).batch_size(30).epochs(4)
    });
}

/// Every optimizer of the table, with clipping in front and weight decay behind, and leaves that are not trained.
#[test]
fn a_distributed_optimizer_state_changes_no_bit() {
    let optimizer =
        |row: &OptimizerRow| (row.build)(0.01, None).clip_norm(0.5).matrix_decay(0.01).freeze("layers.0.bias");
    for row in &OPTIMIZERS {
        let run = |ranks: usize, is_apart: bool| {
            trained((&format!("state-{}-{is_apart}", row.name), ranks, 4), mlp, |()| {
                let training = Training::new(mlp_loss as fn(&_, &_, &_) -> _, optimizer(row)).epochs(2).batch_size(24);
                if is_apart { training.shard_state() } else { training }
            })
        };
        let whole = run(1, false);
        for ranks in [1, 2, 3, 4] {
            assert!(run(ranks, true) == whole, "{} on {ranks} ranks", row.name);
        }
    }
}

#[test]
fn a_distributed_optimizer_state_works_with_loss_scaling_and_running_statistics() {
    let mixed = |ranks: usize, is_apart: bool| {
        trained((&format!("apart-mixed-{is_apart}"), ranks, 4), mlp, |()| {
            let training = Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::adam(0.01)).epochs(2);
            let training = training.batch_size(24).precision(Precision::F16);
            if is_apart { training.shard_state() } else { training }
        })
    };
    assert!(mixed(3, true) == mixed(1, false));
    let normalised = |ranks: usize, is_apart: bool| {
        trained((&format!("apart-resnet-{is_apart}"), ranks, 4), resnet, |()| {
            let optimizer = Optimizer::sgd(0.05).momentum(0.9).freeze("1");
            let training = Training::new(resnet_loss as fn(&_, &_, &_) -> _, optimizer).epochs(1).batch_size(16);
            if is_apart { training.shard_state() } else { training }
        })
    };
    assert!(normalised(2, true) == normalised(1, false));
}

#[test]
fn each_rank_has_a_part_of_the_optimizer_state() {
    let elements = ThreadRank::run(4, |rank| {
        let shards = Arc::new(Shards::new(rank, 4).unwrap());
        let (start, data) = mlp();
        let training = Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::adam(0.01)).batch_size(24);
        let training = training.shards(shards).shard_state();
        let mut session = training.session(&start, &Arc::new(data)).unwrap();
        session.step().unwrap();
        session.state().slots.element_count()
    });
    let whole = 2 * mlp().0.element_count();
    assert_eq!(elements.iter().sum::<usize>(), whole);
    assert!(elements.iter().all(|own| own.abs_diff(whole / 4) <= 8), "{elements:?} of {whole}");
}

#[test]
fn a_link_that_reads_distributed_updates_is_refused() {
    let errors = ThreadRank::run(2, |rank| {
        let shards = Arc::new(Shards::new(rank, 2).unwrap());
        let (start, data) = mlp();
        let optimizer = Optimizer::adam(0.01).link(ClipNorm(1.0));
        let training =
            Training::new(mlp_loss as fn(&_, &_, &_) -> _, optimizer).batch_size(24).shards(shards).shard_state();
        training.run(&start, &Arc::new(data)).unwrap_err().to_string()
    });
    assert!(errors[0].contains("the updates behind the link \"Adam\" are distributed"), "{}", errors[0]);
}

#[test]
fn the_size_of_buckets_changes_no_bit() {
    let run = |name: &str, bucket: usize| {
        trained((name, 2, 4), mlp, |()| {
            Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::adam(0.01))
                .epochs(2)
                .batch_size(24)
                .bucket(bucket)
        })
    };
    assert!(run("bucket-small", 64) == run("bucket-large", 1 << 26));
}

#[test]
fn mixed_precision_and_accumulation_have_the_same_checkpoint_on_any_number_of_ranks() {
    for precision in [Precision::Bf16, Precision::F16] {
        equal_for_all_ranks("mixed", mlp, |_| {
            let training = Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::sgd(0.1).momentum(0.9));
            training.batch_size(32).whole_batches().accumulate(2).precision(precision).epochs(3)
        });
    }
}

type Convolutional = (ResNet, ResNetStatistics);

fn resnet_loss(
    (network, statistics): &Convolutional,
    (images, classes): &(Tensor, Tensor),
    _: &Keys,
) -> (Tensor, Convolutional) {
    let (loss, statistics) = network.loss(images, classes, statistics);
    (loss, (network.clone(), statistics))
}

fn resnet() -> (Convolutional, Examples<(Tensor, Tensor)>) {
    let config = ResNetConfig { channels: 1, classes: 3, stages: vec![(4, 1), (6, 1)] };
    (ResNet::new(Key::new(2), &config), Examples::new(images(36)).unwrap())
}

#[test]
fn a_cnn_with_synchronised_batch_norm_has_the_same_checkpoint_on_any_number_of_ranks() {
    equal_for_all_ranks("cnn", resnet, |_| {
        Training::new(resnet_loss as fn(&_, &_, &_) -> _, Optimizer::sgd(0.05).freeze("1")).batch_size(24).epochs(3)
    });
}

fn gpt_loss(network: &Gpt, (tokens, targets): &(Tensor, Tensor), key: &Keys) -> Tensor {
    network.loss_train(tokens, targets, key)
}

fn gpt() -> (Gpt, Examples<(Tensor, Tensor)>) {
    let config = GptConfig { vocabulary: 11, context: 6, width: 16, heads: 2, layers: 2, dropout: 0.2 };
    let text: Vec<i64> = (0..400_i64).map(|k| (k * k + k / 7) % 11).collect();
    let windows = |shift: usize| {
        let rows: Vec<i64> = (0..40).flat_map(|row| text[row * 6 + shift..][..6].to_vec()).collect();
        Tensor::new(&rows, [40, 6])
    };
    (Gpt::new(Key::new(3), &config), Examples::new((windows(0), windows(1))).unwrap())
}

#[test]
fn a_gpt_with_dropout_has_the_same_checkpoint_on_any_number_of_ranks() {
    equal_for_all_ranks("gpt", gpt, |_| {
        Training::new(gpt_loss as fn(&_, &_, &_) -> _, Optimizer::adamw(3e-3, 0.01)).batch_size(20).epochs(3)
    });
}

#[test]
fn sharded_training_computes_what_training_on_whole_batches_does() {
    // In 64 bits, with batch normalization over the whole batch: they differ by the order of sums alone.
    let ((network, statistics), _) = resnet();
    let start = (network.cast(DType::F64), statistics.cast(DType::F64));
    let (x, classes) = images(36);
    let data = Arc::new(Examples::new((x.cast(DType::F64), classes)).unwrap());
    let training = || Training::new(resnet_loss, Optimizer::sgd(0.05).freeze("1")).batch_size(24).epochs(2);
    let whole = training().run(&start, &data).unwrap();
    let shards = Arc::new(Shards::new(Arc::new(Solo), 4).unwrap());
    let sharded = training().shards(shards).run(&start, &data).unwrap();
    for ((path, one), (_, other)) in whole.parameters.leaves().iter().zip(sharded.parameters.leaves()) {
        let distance = (one - other).abs().max().item().unwrap();
        let size = one.abs().max().item().unwrap().max(1.0);
        // 4 steps through 6 layers with sums of at most 24·64 terms.
        assert!(distance <= size * 1e4 * f64::EPSILON, "{path}: {distance}");
    }
}

#[test]
fn a_run_is_resumed_on_another_number_of_ranks_with_the_same_bits() {
    struct StopAt(u64);
    impl<X> Observer<X> for StopAt {
        fn step(&mut self, step: &Step) -> Result<Flow, glassgrad::error::Error> {
            Ok(if step.number == self.0 { Flow::Stop } else { Flow::Continue })
        }
    }
    let path = file("resumed");
    let run = |ranks: usize, stop: u64| {
        ThreadRank::run(ranks, |rank| {
            let (start, data) = gpt();
            let training = Training::new(gpt_loss, Optimizer::adam(3e-3)).batch_size(20).epochs(5);
            let training = training.shards(Arc::new(Shards::new(rank, 8).unwrap())).checkpoint(&path, 1000);
            training.observe(StopAt(stop)).run(&start, &Arc::new(data)).unwrap().steps
        });
        std::fs::read(&path).unwrap()
    };
    let whole = run(2, u64::MAX);
    std::fs::remove_file(&path).unwrap();
    for (ranks, stop) in [(3, 2), (1, 5), (8, 7), (4, u64::MAX)] {
        run(ranks, stop);
    }
    assert!(std::fs::read(&path).unwrap() == whole);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn ranks_that_differ_are_refused_before_the_first_step() {
    type Change = fn(
        usize,
        Training<'static, Mlp, fn(&Mlp, &(Tensor, Tensor), &Keys) -> Tensor>,
    ) -> Training<'static, Mlp, fn(&Mlp, &(Tensor, Tensor), &Keys) -> Tensor>;
    let changes: [(&str, Change); 4] = [
        ("rank 1 has epochs 11, and rank 0 has 10", |rank, training| training.epochs(10 + rank as u64)),
        ("rank 1 has batch size 21, and rank 0 has 20", |rank, training| training.batch_size(20 + rank)),
        ("rank 1 has data b, and rank 0 has a", |rank, training| {
            training.note("data", if rank == 0 { "a" } else { "b" })
        }),
        ("rank 1 has seed 1, and rank 0 has 0", |rank, training| training.seed(rank as u64)),
    ];
    for (expected, change) in changes {
        let errors = ThreadRank::run(2, |rank| {
            let (start, data) = mlp();
            let training = Training::new(mlp_loss as fn(&_, &_, &_) -> _, Optimizer::sgd(0.1)).batch_size(20);
            let training = change(rank.rank(), training).shards(Arc::new(Shards::new(rank, 4).unwrap()));
            training.run(&start, &Arc::new(data)).unwrap_err().to_string()
        });
        assert!(errors.iter().all(|error| error.contains(expected)), "{errors:?}");
    }
    let errors = ThreadRank::run(2, |rank| {
        let (_, data) = mlp();
        let start = Mlp::new(Key::new(rank.rank() as u64), &[64, 33, 3], Activation::Tanh);
        let training = Training::new(mlp_loss, Optimizer::sgd(0.1)).shards(Arc::new(Shards::new(rank, 4).unwrap()));
        training.run(&start, &Arc::new(data)).unwrap_err().to_string()
    });
    assert!(errors[0].contains("rank 1 has initial parameters "), "{}", errors[0]);
}

#[test]
fn batches_with_fewer_examples_than_shards_are_refused() {
    let (start, data) = mlp();
    let shards = Arc::new(Shards::new(Arc::new(Solo), 16).unwrap());
    let training = Training::new(mlp_loss, Optimizer::sgd(0.1)).batch_size(30).shards(shards);
    let error = training.run(&start, &Arc::new(data)).unwrap_err().to_string();
    assert!(error.contains("the last batch of an epoch has 10 examples, fewer than the 16 shards"), "{error}");
}

#[test]
fn an_error_on_one_rank_ends_the_others() {
    let errors = ThreadRank::run(3, |rank| {
        let shards = Shards::new(Arc::clone(&rank), 4).unwrap();
        let is_wrong = rank.rank() == 1;
        // An index that is out of bounds where the program runs, on one rank alone.
        let picked = compile(|(x, index): &(Tensor, Tensor)| x.all_reduce().take(index, 0).all_reduce());
        let index = Tensor::from([if is_wrong { 9_i64 } else { 0 }]);
        let arguments: Vec<_> = shards.local().map(|_| (Tensor::from([1.0, 2.0]), index.clone())).collect();
        let result = picked.call_shards(&shards, &arguments);
        if let Err(error) = &result {
            shards.abort(&error.to_string());
        }
        drop(shards);
        result.unwrap_err().to_string()
    });
    assert!(errors[1].contains("index 9 is not on axis 0"), "{}", errors[1]);
    for rank in [0, 2] {
        assert!(errors[rank].contains("rank 1 has ended the job"), "{}", errors[rank]);
    }
}

#[test]
fn a_loss_that_is_not_a_number_is_explained_on_every_rank() {
    fn wrong(x: &Tensor, batch: &Tensor, _: &Keys) -> Tensor {
        ((x - batch).square() + x.sqrt()).mean()
    }
    let messages = ThreadRank::run(2, |rank| {
        let data = Arc::new(Examples::new(Tensor::linspace(1.0, 2.0, 8)).unwrap());
        let training = Training::new(wrong, Optimizer::sgd(0.9)).batch_size(8).epochs(50);
        let training = training.shards(Arc::new(Shards::new(rank, 4).unwrap()));
        match training.run(&Tensor::from([4.0]), &data) {
            Err(error @ TrainError::NotFinite { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    });
    assert!(messages[0].contains("sqrt"), "{}", messages[0]);
    assert_eq!(messages[0], messages[1]);
}

/// All collectives, by a number.
fn collective(kind: usize, x: &Tensor) -> Tensor {
    match kind {
        0 => x.all_reduce(),
        1 => x.broadcast_from(1),
        2 => x.all_gather(0),
        3 => x.all_gather(1),
        4 => x.reduce_scatter(0),
        _ => x.reduce_scatter(1),
    }
}

/// The operand of a shard.
fn operand(shard: usize) -> Tensor {
    Tensor::normal(Key::new(shard as u64), [8, 4]).cast(DType::F64)
}

/// The result of a function on each of four shards that are distributed over some ranks.
fn on_shards(ranks: usize, function: impl Fn(&Tensor) -> Tensor + Sync) -> Vec<Vec<f64>> {
    let results = ThreadRank::run(ranks, |rank| {
        let shards = Shards::new(rank, 4).unwrap();
        let compiled = compile(&function);
        let operands: Vec<Tensor> = shards.local().map(operand).collect();
        let results = compiled.call_shards(&shards, &operands).unwrap();
        results.iter().map(|result| result.to_vec::<f64>().unwrap()).collect::<Vec<_>>()
    });
    results.concat()
}

/// The same by definition, from the operands of all shards.
fn defined(kind: usize, shard: usize, all: &[Tensor]) -> Tensor {
    // In the order of the tree over four shards.
    let sum = (&all[0] + &all[1]) + (&all[2] + &all[3]);
    match kind {
        0 => sum,
        1 => all[1].clone(),
        2 => Tensor::concatenate(all, 0),
        3 => Tensor::concatenate(all, 1),
        4 => sum.slice(&[(2 * shard as isize..2 * shard as isize + 2).into()]),
        _ => sum.slice(&[(0..8).into(), (shard as isize..shard as isize + 1).into()]),
    }
}

#[test]
fn collectives_compute_their_definition_on_any_number_of_ranks() {
    let all: Vec<Tensor> = (0..4).map(operand).collect();
    for kind in 0..6 {
        let expected: Vec<Vec<f64>> = (0..4).map(|shard| defined(kind, shard, &all).to_vec().unwrap()).collect();
        for ranks in 1..=4 {
            assert_eq!(on_shards(ranks, |x| collective(kind, x)), expected, "kind {kind} on {ranks} ranks");
        }
    }
}

#[test]
fn collectives_run_on_the_reference_executor() {
    for kind in 0..6 {
        let expected = on_shards(2, |x| collective(kind, x));
        let results = ThreadRank::run(2, |rank| {
            let shards = Shards::new(rank, 4).unwrap();
            Context::new(Target::Reference).run(|| {
                let compiled = compile(|x: &Tensor| collective(kind, x));
                let operands: Vec<Tensor> = shards.local().map(operand).collect();
                let results = compiled.call_shards(&shards, &operands).unwrap();
                results.iter().map(|result| result.to_vec::<f64>().unwrap()).collect::<Vec<_>>()
            })
        });
        assert_eq!(results.concat(), expected, "kind {kind}");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn collectives_run_on_the_host_between_the_kernels_of_a_gpu() {
    let function = |x: &Tensor| (x.sin().all_reduce() * 0.5).cos().all_gather(0);
    let expected = on_shards(2, function);
    let results = ThreadRank::run(2, |rank| {
        let shards = Shards::new(rank, 4).unwrap();
        Context::new(Target::EmulatedCuda).run(|| {
            let compiled = compile(function);
            let operands: Vec<Tensor> = shards.local().map(operand).collect();
            let results = compiled.call_shards(&shards, &operands).unwrap();
            results.iter().map(|result| result.to_vec::<f64>().unwrap()).collect::<Vec<_>>()
        })
    });
    for (one, other) in results.concat().concat().iter().zip(expected.concat()) {
        assert!((one - other).abs() <= 64.0 * f64::EPSILON, "{one} and {other}");
    }
}

#[test]
fn collectives_of_many_bytes_go_in_parts() {
    // Above the size at which operands are sent as they are; no multiple of the number of ranks.
    let large = |shard: usize| Tensor::normal(Key::new(shard as u64), [10_007]);
    let sums = |ranks: usize| {
        ThreadRank::run(ranks, |rank| {
            let shards = Shards::new(rank, 8).unwrap();
            let operands: Vec<Tensor> = shards.local().map(large).collect();
            let sum = compile(|x: &Tensor| x.all_reduce()).call_shards(&shards, &operands).unwrap();
            sum[0].to_vec::<f32>().unwrap()
        })
    };
    let alone = sums(1).remove(0);
    for ranks in [2, 3, 5, 8] {
        assert!(sums(ranks).iter().all(|sum| *sum == alone), "{ranks} ranks");
    }
}

/// Σ over shards and elements of a product.
fn inner(left: &[Vec<f64>], right: &[Vec<f64>]) -> f64 {
    left.iter().flatten().zip(right.iter().flatten()).map(|(a, b)| a * b).sum()
}

#[test]
fn derivatives_of_collectives_satisfy_the_adjoint_identity() {
    // The tangents and cotangents of shards depend on their operands, so that they differ among shards.
    let tangent = |x: &Tensor| x.sin();
    for kind in 0..6 {
        let weight = move |x: &Tensor| {
            let y = collective(kind, x);
            (&y * 0.3).cos().stop_gradient()
        };
        let pushed = on_shards(3, |x| jvp(|x: &Tensor| collective(kind, x).square(), x, &tangent(x)).1);
        let weights = on_shards(3, weight);
        // The objective is the sum over shards.
        let pulled = on_shards(3, |x| grad(|v: &Tensor| (collective(kind, v).square() * weight(x)).sum())(x));
        let tangents = on_shards(3, tangent);
        let (forward, reverse) = (inner(&pushed, &weights), inner(&pulled, &tangents));
        let size: f64 = pushed.iter().flatten().map(|number| number.abs()).sum();
        assert!((forward - reverse).abs() <= size * 64.0 * f64::EPSILON, "kind {kind}: {forward} and {reverse}");
        assert!(forward.abs() > 1e-3, "kind {kind} is tested by zeros");
    }
}

#[test]
fn second_derivatives_pass_through_collectives() {
    // Each shard contributes (Σ x³)² / 8 of four shards: the loss is s² / 2 with s = Σ x³ over all.
    let part = |x: &Tensor| x.powi(3).sum().all_reduce().square() * 0.125;
    let products = on_shards(2, |x| {
        let v = x.cos();
        jvp(grad(part), x, &v).1
    });
    let all: Vec<Tensor> = (0..4).map(operand).collect();
    let whole = Tensor::stack(&all, 0);
    let exact = jvp(grad(|x: &Tensor| x.powi(3).sum().square() * 0.5), &whole, &whole.cos()).1;
    let found = Tensor::new(&products.concat(), [4, 8, 4]);
    let error = (&found - &exact).abs().max().item().unwrap();
    assert!(error <= 1e3 * f64::EPSILON * exact.abs().max().item().unwrap(), "{error}");
}

#[test]
fn collectives_are_batched() {
    for kind in 0..6 {
        let stacked = |x: &Tensor| Tensor::stack([x, &(x * 2.0), &x.sin()], 0);
        let batched = on_shards(2, |x| vmap(|row: &Tensor| collective(kind, row))(&stacked(x)));
        let one_by_one = on_shards(2, |x| {
            Tensor::stack([&collective(kind, x), &collective(kind, &(x * 2.0)), &collective(kind, &x.sin())], 0)
        });
        assert_eq!(batched, one_by_one, "kind {kind}");
    }
}

#[test]
fn storage_types_are_summed_in_their_compute_type() {
    let shards = Shards::new(Arc::new(Solo), 4).unwrap();
    let operands: Vec<Tensor> = [1.0_f32, 0.001, 0.001, 0.001].map(|x| Tensor::from([x]).cast(DType::BF16)).to_vec();
    let summed = compile(|x: &Tensor| x.all_reduce());
    let result = summed.call_shards(&shards, &operands).unwrap().remove(0);
    // Each addition to 1 alone would be lost in 8 bits of precision, and so is their sum; in f32 nothing is lost before it is rounded.
    assert_eq!(result.dtype(), DType::BF16);
    assert_eq!(result.item().unwrap(), 1.0);
    let integers: Vec<Tensor> = [5_i64, -7, 11, 40].map(|x| Tensor::from([x])).to_vec();
    assert_eq!(summed.call_shards(&shards, &integers).unwrap()[3].item().unwrap(), 49.0);
}

#[test]
fn wrong_collectives_are_refused_with_the_users_call() {
    let shards = Shards::new(Arc::new(Solo), 4).unwrap();
    let refused = |function: fn(&Tensor) -> Tensor, x: Tensor| {
        let arguments = vec![x; 4];
        compile(function).call_shards(&shards, &arguments).unwrap_err().to_string()
    };
    let message = refused(|x| x.reduce_scatter(0), Tensor::ones([6]));
    assert!(message.contains("the size 6 of axis 0 is no multiple of the 4 shards"), "{message}");
    let message = refused(|x| x.all_gather(1), Tensor::ones([6]));
    assert!(message.contains("there is no axis 1"), "{message}");
    let message = refused(|x| x.broadcast_from(4), Tensor::ones([6]));
    assert!(message.contains("there is no shard 4 among 4"), "{message}");
    let message = refused(|x| x.gt(0.0).all_reduce(), Tensor::ones([6]));
    assert!(message.contains("truth values have no sum"), "{message}");
    let few = compile(|x: &Tensor| x.all_reduce()).call_shards(&shards, &[Tensor::from(1.0)]).unwrap_err().to_string();
    assert!(few.contains("arguments for 1 shards, and rank 0 has 4"), "{few}");
}

#[test]
fn shards_that_run_different_programs_are_noticed() {
    let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    // What a function computes depends on the shape of its argument, which differs.
    let own = compile(|x: &Tensor| if x.shape()[0] == 1 { x.all_reduce() } else { x.all_gather(0) });
    let error = own.call_shards(&shards, &[Tensor::ones([1]), Tensor::ones([2])]).unwrap_err().to_string();
    assert!(error.contains("all shards must run the same program"), "{error}");
}

#[test]
fn messages_begin_before_the_backward_pass_ends() {
    // In the program of a shard, the sum of the last layer's gradient stands before the gradient of the first layer.
    let shards = Shards::new(Arc::new(Solo), 2).unwrap();
    let step = compile(|(first, last, x): &(Tensor, Tensor, Tensor)| {
        let loss = |(first, last): &(Tensor, Tensor)| x.matmul(first).tanh().matmul(last).square().sum();
        let (first, last) = grad(loss)(&(first.clone(), last.clone()));
        (first.all_reduce(), last.all_reduce())
    });
    let arguments = (Tensor::ones([4, 5]), Tensor::ones([5, 3]), Tensor::ones([2, 4]));
    step.call_shards(&shards, &vec![arguments.clone(); 2]).unwrap();
    let program = step.program_for(&shards, &arguments).unwrap();
    let text = program.to_string();
    let sums: Vec<usize> = text.match_indices("all_reduce").map(|(place, _)| place).collect();
    assert_eq!(sums.len(), 2, "{text}");
    // Between the two sums the gradient of the first layer is computed.
    assert!(text[sums[0]..sums[1]].lines().count() > 2, "{text}");
    assert!(matches!(Tensor::from(1.0).all_reduce().op(), Op::Leaf));
}
