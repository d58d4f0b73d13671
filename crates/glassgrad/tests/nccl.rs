//! Messages between GPUs by NCCL. With `--ignored` on a GPU: one rank, which sends to itself.

use std::sync::Arc;

use glassgrad::collective::{Communicator, Shards, Solo};
use glassgrad::dtype::DType;
use glassgrad::exec::NcclCommunicator;
use glassgrad::{Tensor, compile};

#[test]
fn a_missing_library_is_an_error_that_names_it() {
    // On a machine with NCCL this job of one rank begins.
    if let Err(error) = NcclCommunicator::new(Arc::new(Solo), 0) {
        let text = error.to_string();
        assert!(text.contains("libnccl") || text.contains("the CUDA driver"), "{text}");
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|k| (k * 7 + 3) as u8).collect()
}

#[test]
#[ignore = "needs a GPU and NCCL"]
fn one_rank_moves_bytes_through_its_gpu() {
    let rank = NcclCommunicator::new(Arc::new(Solo), 0).unwrap();
    assert_eq!((rank.rank(), rank.size()), (0, 1));
    assert!(rank.describe().starts_with("NCCL 2."), "{}", rank.describe());
    // Sizes that grow the staging memory, and none.
    for count in [0, 1, 1000, 100_000, 10, 5_000_000] {
        let sent = bytes(count);
        let mut received = vec![0; count];
        rank.all_gather(&sent, &[count], &mut received).unwrap();
        assert_eq!(received, sent);
        received.fill(0);
        rank.all_to_all(&sent, &[count], &mut received, &[count]).unwrap();
        assert_eq!(received, sent);
        rank.broadcast(0, &mut received).unwrap();
        assert_eq!(received, sent);
    }
    let numbers: Vec<u8> = [1.5_f64, -2.0, 1e300].iter().flat_map(|number| number.to_ne_bytes()).collect();
    let mut sums = numbers.clone();
    assert!(rank.sum(DType::F64, &mut sums).unwrap());
    assert_eq!(sums, numbers);
}

#[test]
#[ignore = "needs a GPU and NCCL"]
fn shards_over_nccl_have_the_bits_of_one_process() {
    let sums = |communicator: Arc<dyn Communicator>| {
        let shards = Shards::over(communicator, 4).unwrap();
        let own: Vec<Tensor> =
            (0..4).map(|shard| Tensor::linspace(0.0_f32, 1.0, 5000) * (0.1 + shard as f64)).collect();
        let total = compile(|x: &Tensor| (x.all_reduce(), x.all_gather(0).sum())).call_shards(&shards, &own).unwrap();
        total
            .iter()
            .flat_map(|(sum, all)| [sum.to_vec::<f32>().unwrap(), all.to_vec::<f32>().unwrap()].concat())
            .collect::<Vec<f32>>()
    };
    let expected = sums(Arc::new(Solo));
    let found = sums(Arc::new(NcclCommunicator::new(Arc::new(Solo), 0).unwrap()));
    assert!(expected.iter().zip(&found).all(|(a, b)| a.to_bits() == b.to_bits()));
}
