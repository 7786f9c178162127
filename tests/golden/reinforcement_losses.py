#!/usr/bin/env python3
"""Losses of tests/golden/reinforcement_losses.h, written by hand in double precision from the papers' formulas."""
import math

B = 5
LOGITS = [[0.3, -0.2, 0.9], [1.1, 0.0, -0.7], [-0.4, 0.5, 0.2], [0.0, 0.0, 0.0], [2.0, -1.0, 0.3]]
ACTIONS = [2, 0, 1, 1, 2]
VALUES = [0.5, -0.3, 1.2, 0.1, -0.8]
OLD_LOG_PROBS = [-0.9, -0.4, -1.5, -1.1, -1.2]
OLD_VALUES = [0.1, -0.2, 1.9, 0.0, -0.1]
ADVANTAGES = [1.0, -0.5, 0.7, -1.3, 0.4]
TARGETS = [1.0, 0.2, 0.9, -0.6, 0.3]
CLIP, VALUE_CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT, KL_WEIGHT = 0.2, 0.3, 0.5, 0.01, 1.5


def log_softmax(row):
    top = max(row)
    total = math.log(sum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


log_probs = [log_softmax(row) for row in LOGITS]
chosen = [row[a] for row, a in zip(log_probs, ACTIONS)]
entropy = sum(-sum(math.exp(l) * l for l in row) for row in log_probs) / B
ratios = [math.exp(now - old) for now, old in zip(chosen, OLD_LOG_PROBS)]
policy = -sum(min(r * a, min(max(r, 1 - CLIP), 1 + CLIP) * a) for r, a in zip(ratios, ADVANTAGES)) / B
errors = [(v - t) ** 2 for v, t in zip(VALUES, TARGETS)]
moved = [o + min(max(v - o, -VALUE_CLIP), VALUE_CLIP) for v, o in zip(VALUES, OLD_VALUES)]
clipped = [max(e, (m - t) ** 2) for e, m, t in zip(errors, moved, TARGETS)]
kl = sum(r - 1 - math.log(r) for r in ratios) / B
ppo_value = 0.5 * sum(clipped) / B
a2c_policy = -sum(l * a for l, a in zip(chosen, ADVANTAGES)) / B
a2c_value = 0.5 * sum(errors) / B

numbers = {
    "kPpoPolicyLoss": policy,
    "kPpoValueLoss": ppo_value,
    "kEntropy": entropy,
    "kKl": kl,
    "kClipFraction": sum(abs(r - 1) > CLIP for r in ratios) / B,
    "kPpoLoss": policy + VALUE_WEIGHT * ppo_value - ENTROPY_WEIGHT * entropy + KL_WEIGHT * kl,
    "kA2cLoss": a2c_policy + VALUE_WEIGHT * a2c_value - ENTROPY_WEIGHT * entropy,
}

# A squashed normal: density of tanh(u) by the change of variables.
MEAN, LOG_STD, NOISE = [0.3, -1.2], [-0.5, 0.4], [0.8, -2.5]
u = [m + math.exp(s) * n for m, s, n in zip(MEAN, LOG_STD, NOISE)]
numbers["kSquashedLogProb"] = sum(
    -0.5 * n * n - s - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(x) ** 2)
    for n, s, x in zip(NOISE, LOG_STD, u))
numbers["kSquashedAction"] = math.tanh(u[0])

print("// Written by reinforcement_losses.py, which says of what.\n#pragma once\n\nnamespace mstrain::golden {\n")
for name, value in numbers.items():
    print(f"inline constexpr double {name} = {value!r};")
print("\n}  // namespace mstrain::golden")
