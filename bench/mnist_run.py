"""A whole run of MNIST in PyTorch, with the network and the settings of Nano-AutoGrad: what `glassgrad train mnist` is beside.

    python bench/mnist_run.py DIR [--epochs 10] [--seed 0] [--threads 2]

Prints one JSON object: seconds of training without evaluation, and the accuracy on the standard test set.
"""

import argparse
import gzip
import json
import pathlib
import time

import torch


def read(folder, name):
    path = pathlib.Path(folder) / name
    data = gzip.open(f"{path}.gz").read() if not path.exists() else path.read_bytes()
    axes = data[3]
    shape = [int.from_bytes(data[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes)]
    return torch.frombuffer(bytearray(data[4 + 4 * axes :]), dtype=torch.uint8).reshape(shape)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    images = read(options.folder, "train-images-idx3-ubyte").reshape(-1, 784).float() / 255
    labels = read(options.folder, "train-labels-idx1-ubyte").long()
    test_images = read(options.folder, "t10k-images-idx3-ubyte").reshape(-1, 784).float() / 255
    test_labels = read(options.folder, "t10k-labels-idx1-ubyte").long()
    mean, deviation = images.mean(), images.std(unbiased=False)
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    network = torch.nn.Sequential(
        torch.nn.Linear(784, 1568), torch.nn.ReLU(), torch.nn.Linear(1568, 392), torch.nn.ReLU(), torch.nn.Linear(392, 10)
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.75, total_iters=options.epochs)
    began = time.perf_counter()
    for _ in range(options.epochs):
        for places in torch.randperm(len(images)).split(128):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[places]), labels[places]).backward()
            optimizer.step()
        schedule.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        right = (network(test_images).argmax(1) == test_labels).double().mean().item()
    print(json.dumps({"engine": f"PyTorch {torch.__version__}", "seconds": seconds, "test_accuracy": right}))


main()
