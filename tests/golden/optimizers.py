"""Writes optimizers.h: parameters after five updates, by PyTorch in double precision.

Usage: python tests/golden/optimizers.py | clang-format > tests/golden/optimizers.h   (torch 2.15.0 wrote the file that is kept)
LAMB is not in PyTorch; its numbers follow the formulas of You et al. 2020 (arXiv 1904.00962, algorithm 2) in numpy. PyTorch's Muon
makes matrices orthogonal in bfloat16; its formulas are followed in numpy too, and PyTorch's own numbers must be near.
"""
import numpy
import torch

STEPS = 5
WEIGHT = numpy.array([0.5, -1.0, 2.0, -0.25, 1.5, -0.75])  # decayed
BIAS = numpy.array([0.125, -0.5, 1.0])  # not decayed


def gradient(step, count, offset):
    return numpy.array([((i * 7 + step * 5 + offset) % 11 - 5) / 8 for i in range(count)])


def rate(step):
    return 0.1 / (step + 1)


def by_torch(make):
    weight, bias = (torch.nn.Parameter(torch.tensor(p)) for p in (WEIGHT, BIAS))
    optimizer = make(weight, bias)
    for step in range(STEPS):
        weight.grad = torch.tensor(gradient(step, 6, 0))
        bias.grad = torch.tensor(gradient(step, 3, 3))
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
    return [*weight.tolist(), *bias.tolist()]


def groups(weight, bias, decay):
    return [{"params": [weight], "weight_decay": decay}, {"params": [bias], "weight_decay": 0.0}]


def torch_rule(kind, decay, **options):
    return lambda weight, bias: kind(groups(weight, bias, decay), lr=0.1, foreach=False, **options)


def lamb(beta1, beta2, eps, decay):
    result = []
    for start, offset, decayed in ((WEIGHT, 0, True), (BIAS, 3, False)):
        p, m, v = start.copy(), 0 * start, 0 * start
        for step in range(STEPS):
            g = gradient(step, len(p), offset)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            u = m / (1 - beta1 ** (step + 1)) / (numpy.sqrt(v / (1 - beta2 ** (step + 1))) + eps)
            if decayed:
                u = u + decay * p
                u = u * numpy.linalg.norm(p) / numpy.linalg.norm(u)
            p = p - rate(step) * u
        result += p.tolist()
    return result


def orthogonalised(x):
    y = x / (numpy.linalg.norm(x) + 1e-7)
    for _ in range(5):
        gram = y @ y.T
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return y


def muon(momentum, decay):
    """WEIGHT is a matrix of 2 by 3; the bias takes the steps of AdamW."""
    p, velocity = WEIGHT.reshape(2, 3).copy(), numpy.zeros((2, 3))
    theirs = torch.nn.Parameter(torch.tensor(p))
    optimizer = torch.optim.Muon([theirs], lr=0.1, momentum=momentum, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    for step in range(STEPS):
        g = gradient(step, 6, 0).reshape(2, 3)
        velocity = momentum * velocity + g
        turned = 0.2 * 3 ** 0.5 * orthogonalised(g + momentum * velocity)
        p = p - rate(step) * (turned + decay * p)
        theirs.grad = torch.tensor(g)
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.step()
    assert numpy.abs(theirs.detach().numpy() - p).max() < 5e-3, (theirs, p)
    adamw = by_torch(torch_rule(torch.optim.AdamW, decay, betas=(0.9, 0.99), eps=1e-6))
    return [*p.flatten().tolist(), *adamw[6:]]


optim = torch.optim
CASES = {
    "kSgd": by_torch(torch_rule(optim.SGD, 0.1)),
    "kMomentum": by_torch(torch_rule(optim.SGD, 0.1, momentum=0.9)),
    "kNesterov": by_torch(torch_rule(optim.SGD, 0.1, momentum=0.9, nesterov=True)),
    "kAdam": by_torch(torch_rule(optim.Adam, 0.1, betas=(0.9, 0.99), eps=1e-6)),
    "kAdamW": by_torch(torch_rule(optim.AdamW, 0.1, betas=(0.9, 0.99), eps=1e-6)),
    "kAdagrad": by_torch(torch_rule(optim.Adagrad, 0.1, eps=1e-6)),
    "kRmsProp": by_torch(torch_rule(optim.RMSprop, 0.1, alpha=0.95, eps=1e-6)),
    "kRmsPropMomentum": by_torch(torch_rule(optim.RMSprop, 0.1, alpha=0.95, eps=1e-6, momentum=0.9)),
    "kLamb": lamb(0.9, 0.99, 1e-6, 0.1),
    "kMuon": muon(0.95, 0.1),
}

print("// Six elements of a decayed weight and three of a bias after five updates. Written by optimizers.py.")
print("#pragma once\n\n#include <array>\n\nnamespace mstrain::golden {\n")
print("using Updated = std::array<double, 9>;\n")
for name, values in CASES.items():
    rows = [", ".join(f"{x:.17g}" for x in values[i : i + 3]) for i in range(0, 9, 3)]
    print(f"inline constexpr Updated {name}{{\n    " + ",\n    ".join(rows) + "};")
print("\n}  // namespace mstrain::golden")
