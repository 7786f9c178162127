"""What races share: contenders that are processes of their own, the limits on their instructions, and PyTorch's side of a race
of training steps.

A contender prints a JSON line when it is ready; then, for every line on its input, one with its answer. Rounds are
interleaved and a ratio is the median of the rounds' ratios, so that a drifting machine hits all contenders alike."""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import time

# What limits PyTorch, oneDNN and MKL below it as MSTRAIN_ISA limits mstrain.
LIMITS = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
}


def environment(threads, isa=None):
    """Of contenders with so many threads and, where a key of LIMITS is given, these instructions alone."""
    return dict(os.environ, OMP_NUM_THREADS=str(threads), **(dict(LIMITS[isa], MSTRAIN_ISA=isa) if isa else {}))


def resident_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next((int(s.split()[1]) * 1024 for s in status if s.startswith("RssAnon")), 0)


class Contender:
    def __init__(self, command, env, **pipes):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, **pipes)
        self.first = self.read()
        self.seconds, self.peak = [], 0

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended early with status {self.process.wait()}")
        return json.loads(line)

    def write(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.write(line)
        return self.read()

    def round(self, steps, measure_memory=True):
        """Runs steps; peak is the highest anonymous resident memory, sampled every 5 ms while they run."""
        self.write(steps)
        while not select.select([self.process.stdout], [], [], 0.005)[0]:
            if measure_memory:
                self.peak = max(self.peak, resident_bytes(self.process.pid))
        return self.read()["step_seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def torch_kinds(options):
    """Of PyTorch's contenders."""
    return ["eager"] if options.no_compile else ["eager", "compiled"]


def add_race_options(parser, rounds=7):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--isa", choices=LIMITS, help="limit all contenders to these instructions (default: the machine's best)")
    parser.add_argument("--no-compile", action="store_true", help="race eager PyTorch only")
    parser.add_argument("--contender", help=argparse.SUPPRESS)  # PyTorch's process


def add_step_options(parser, program):
    parser.add_argument("--step", default=f"build/benchmarks/{program}", help=f"the {program} program")
    add_race_options(parser)


def median_ratio(theirs, ours):
    return statistics.median(a / b for a, b in zip(theirs, ours))


def torch_settings(threads):
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1234)


def train_with_torch(model, compiled, loss_of):
    """PyTorch's contender: AdamW of what is trained, on the loss that loss_of(model) gives."""
    import torch

    trained = [p for p in model.parameters() if p.requires_grad]
    decay = [p for p in trained if p.dim() >= 2]
    rest = [p for p in trained if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=3e-4, fused=True)
    step_model = torch.compile(model) if compiled else model

    def run(count):
        for _ in range(count):
            loss = loss_of(step_model)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    start = time.perf_counter()
    loss = run(1)
    print(json.dumps({"first_step_seconds": time.perf_counter() - start, "loss": loss}), flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        loss = run(count)
        print(json.dumps({"step_seconds": (time.perf_counter() - start) / count, "loss": loss}), flush=True)
