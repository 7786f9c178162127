#!/usr/bin/env python3
"""Races steps of a GPT on two ranks of one thread each against PyTorch's DistributedDataParallel and FullyShardedDataParallel
on gloo, and against one rank of two threads.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch numpy
    .venv-bench/bin/python benchmarks/ranks_vs_pytorch.py --step build/benchmarks/ranks_step

The model, its batch and the optimizer are those of gpt_vs_pytorch.py; each rank takes half of the batch, on a processor of its own. Contenders
and rounds are those of race.py. `ddp` and
`ddp compiled` meet parallel.zero.stage 1, with parallel.reduction exact and fast; `fsdp` meets stage 3.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time

from gpt_vs_pytorch import SIZES, gpt
from race import Contender, add_step_options, environment, median_ratio, torch_settings

RANKS = 2


def torch_rank(rank, kind, spec, rendezvous):
    """One of PyTorch's ranks; the first reads how many steps to make."""
    import torch
    import torch.distributed as dist
    from torch import nn

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch_settings(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    layers, heads, width, seq, batch, vocab = map(int, spec)
    start = time.perf_counter()
    model = gpt(layers, heads, width, seq, vocab)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=0.02)
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        run_model = model
    else:
        run_model = nn.parallel.DistributedDataParallel(model)
        if kind == "ddp compiled":
            run_model = torch.compile(run_model)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}], lr=3e-4, fused=True)
    torch.manual_seed(99 + rank)
    ids = torch.randint(vocab, (batch // RANKS, seq + 1))
    tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def run(count):
        for _ in range(count):
            loss = run_model(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def say(what, seconds, loss):
        if rank == 0:
            print(json.dumps({what: seconds, "loss": loss}), flush=True)

    loss = run(1)
    say("first_step_seconds", time.perf_counter() - start, loss)
    while True:
        line = sys.stdin.readline() if rank == 0 else ""
        count = torch.tensor([int(line or 0)])
        dist.broadcast(count, 0)
        if count.item() == 0:
            break
        start = time.perf_counter()
        loss = run(count.item())
        say("step_seconds", (time.perf_counter() - start) / count.item(), loss)
    dist.destroy_process_group()


def torch_contender(kind, spec):
    import torch.multiprocessing as processes

    rendezvous = os.path.join(tempfile.mkdtemp(), "rendezvous")
    other = processes.get_context("spawn").Process(target=torch_rank, args=(1, kind, spec, rendezvous))
    other.start()
    torch_rank(0, kind, spec, rendezvous)
    other.join()


def mpirun():
    return ["mpirun", "--allow-run-as-root", "--bind-to", "core", "-n", str(RANKS),
            "--mca", "plm", "isolated", "--mca", "pml", "ob1", "--mca", "btl", "self,vader"]


def race(name, options):
    *spec, steps = SIZES[name]
    words = [str(x) for x in spec]
    ours = [options.step, *words, "optimizer.clip_grad=1", "parallel.timeout_s=3600"]
    of_torch = [sys.executable, __file__]
    commands = {
        "one rank, 2 threads": [*ours, f"run.threads={RANKS}"],
        "zero 1": [*mpirun(), *ours, "run.threads=1"],
        "zero 1, fast": [*mpirun(), *ours, "run.threads=1", "parallel.reduction=fast"],
        "zero 3": [*mpirun(), *ours, "run.threads=1", "parallel.zero.stage=3"],
        "ddp": [*of_torch, "--contender", "ddp", *words],
        "fsdp": [*of_torch, "--contender", "fsdp", *words],
    }
    if not options.no_compile:
        commands["ddp compiled"] = [*of_torch, "--contender", "ddp compiled", *words]
    one = environment(1, options.isa)
    racers = {}
    for kind, command in commands.items():
        racers[kind] = Contender(command, environment(RANKS, options.isa) if kind.startswith("one") else one)
        racers[kind].round(steps, measure_memory=False)
    for _ in range(options.rounds):
        for racer in racers.values():
            racer.seconds.append(racer.round(steps, measure_memory=False))
    for racer in racers.values():
        racer.close()
    seconds = {kind: racer.seconds for kind, racer in racers.items()}
    pairs = [("one rank, 2 threads", mine) for mine in ("zero 1", "zero 1, fast", "zero 3")]
    pairs += [("ddp", "zero 1"), ("ddp", "zero 1, fast"), ("fsdp", "zero 3")]
    if "ddp compiled" in seconds:
        pairs += [("ddp compiled", "zero 1"), ("ddp compiled", "zero 1, fast")]
    return {"size": name, "rounds": options.rounds, "step_seconds": {k: statistics.median(v) for k, v in seconds.items()},
            "ratios": {f"{mine} over {peer}": median_ratio(seconds[peer], seconds[mine]) for peer, mine in pairs}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_step_options(parser, "ranks_step")
    parser.add_argument("--sizes", default="tiny,baby", help="of " + ", ".join(SIZES))
    parser.add_argument("spec", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        return torch_contender(options.contender, options.spec)
    for name in options.sizes.split(","):
        print(json.dumps(race(name, options), indent=2), flush=True)


if __name__ == "__main__":
    main()
