"""Training steps of whole networks on one GPU: Glassgrad beside PyTorch, eager and compiled, on the same numbers; one table from one run.

Times are medians of rounds, each a batch of steps back to back that ends with a synchronisation. In bf16 PyTorch runs under autocast, in TF32
both multiply 32-bit numbers in TF32. Engines whose first loss differs from Glassgrad's are marked. `bench/run gpu_networks` starts this program.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu  # noqa: E402  (also finds peers_python)

import data  # noqa: E402

NETWORKS = {
    "gpt2": ("GPT-2 124M, 16×1024 tokens", (16, 50304, 1024, 768, 12)),
    "character_gpt_64": ("character GPT 6×384, 64×256", (64, 65, 256, 384, 6)),
    "resnet18_512": ("ResNet-18, 512 images of 32×32", None),
}
PRECISIONS = {"bf16": "_bf16", "TF32": ""}
ENGINES = ["glassgrad", "torch eager", "torch compiled"]


def torch_step(name, is_bf16, is_compiled):
    """A step that returns its loss."""
    import torch
    from torch.nn import functional as F

    import torch_engine

    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    sizes = NETWORKS[name][1]
    if sizes is None:
        model, images, classes = torch_engine.resnet18(*data.resnet18(512))
        model = model.to("cuda", memory_format=torch.channels_last)
        inputs = torch.tensor(images, device="cuda").to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9, fused=True)
    else:
        batch, vocabulary, context, width, layers = sizes
        tokens, positions, blocks, source = data.gpt_parameters(vocabulary, context, width, layers)
        model = torch_engine.Gpt(tokens, positions, blocks).to("cuda")
        drawn = [source.classes(batch * context, vocabulary) for _ in range(2)]
        inputs, classes = torch.tensor(drawn[0], device="cuda").view(batch, context), drawn[1]
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    classes = torch.tensor(classes, device="cuda").flatten()
    function = torch.compile(model) if is_compiled else model

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=is_bf16):
            outputs = function(inputs)
        loss = F.cross_entropy(outputs.flatten(0, -2).float(), classes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(name, precision, program, device, rounds, report):
    """Seconds of each engine by name, or why there are none, and the peak memory of PyTorch in bytes."""
    outcome, memory, is_bf16 = {}, {}, precision == "bf16"
    expected = None
    if program:
        report(f"{name} {precision}: glassgrad")
        glassgrad = gpu.Glassgrad(program, device, [] if is_bf16 else ["--tf32"])
        try:
            outcome["glassgrad"], expected = glassgrad.measure(name + PRECISIONS[precision], rounds)
        except RuntimeError as error:
            outcome["glassgrad"] = str(error)[:80]
        glassgrad.process.kill()
        glassgrad.process.wait()
    import torch

    for engine, is_compiled in (("torch eager", False), ("torch compiled", True)):
        report(f"{name} {precision}: {engine}")
        torch.cuda.reset_peak_memory_stats()
        try:
            step = torch_step(name, is_bf16, is_compiled)
            first = float(step().detach())
            outcome[engine] = gpu.timed(step, torch.cuda.synchronize, rounds)
            memory[engine] = torch.cuda.max_memory_allocated()
            # Losses of engines that round to 16 bits agree to about three digits.
            if expected is not None and abs(first - expected) > (5e-3 if is_bf16 else 5e-4) * abs(expected):
                outcome[engine] = f"first loss {first:.6g}, Glassgrad {expected:.6g}"
        except Exception as error:  # Whatever a peer raises is its row's text.
            outcome[engine] = str(error).split("\n")[0][:80]
        step = None
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    return outcome, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--glassgrad", default=None, help="the program glassgrad; without it the peers alone are measured")
    parser.add_argument("--device", default="cuda:0", help="the device of Glassgrad")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(NETWORKS), help="a network, instead of all; may be repeated")
    parser.add_argument("--precision", action="append", choices=list(PRECISIONS), help="instead of both; may be repeated")
    options = parser.parse_args()
    report = lambda text: print(text, file=sys.stderr, flush=True)
    print("| network | precision | " + " | ".join(ENGINES) + " | PyTorch's peak memory |\n|---|---|" + "--:|" * 4, flush=True)
    for name in options.only or NETWORKS:
        for precision in options.precision or PRECISIONS:
            outcome, memory = measure(name, precision, options.glassgrad, options.device, options.rounds, report)
            cells = [gpu.shown(outcome.get(engine)) for engine in ENGINES]
            peaks = ", ".join(f"{bytes / 1e9:.1f}" for bytes in memory.values())
            print("| " + " | ".join([NETWORKS[name][0], precision, *cells, f"{peaks} GB"]) + " |", flush=True)
            for engine, reason in outcome.items():
                if isinstance(reason, str):
                    report(f"{name} {precision}: {engine}: {reason}")


if __name__ == "__main__":
    main()
