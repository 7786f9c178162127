"""Training as PyTorch does it, which runs of mstrain with these settings follow."""
import torch


def adamw_steps(model, loss_of, decays=lambda name, p: p.dim() > 1, steps=5):
    """Losses before each of some steps of AdamW with clipped gradients; they change the model. decays: which parameters."""
    groups = {0.1: [], 0.0: []}
    for name, p in model.named_parameters():
        groups[0.1 if decays(name, p) else 0.0].append(p)
    optimizer = torch.optim.AdamW([{"params": group, "weight_decay": decay} for decay, group in groups.items()],
                                  lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses
