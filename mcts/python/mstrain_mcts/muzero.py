"""Search over a learned model, many roots at once."""
import ctypes

import numpy as np

from . import _library as c
from .search import _numpy


class MuZero:
    """`settings` are the keys of the library's MuZeroConfig: players, discount, c1, c2, noise_fraction, noise_alpha, gumbel, action_size
    (sampled actions), chance_codes, seed, threads, ... There is no game: a node is a hidden state that the caller keeps, numbered 0 (root) to
    `simulations` for each root.

        search = MuZero(roots=256, actions=18, simulations=50)
        search.set_roots(logits, values)                    # [256, 18], [256]
        for number in range(1, 51):
            nodes, actions, vectors = search.gather()       # [256], [256], [256, action_size]
            ...                                             # hidden states (i, nodes[i]), actions[i] -> (i, number)
            search.scatter(rewards, values, logits)

    or run(). With chance_codes logits have actions + chance_codes columns, and gather() names a code of chance as `actions` + code.
    Values are seen by the player to move at their node, rewards by the player who moved."""

    def __init__(self, roots, actions, simulations, action_size=0, chance_codes=0, **settings):
        self.roots, self.actions, self.simulations, self.action_size = roots, actions, simulations, action_size
        self.width = actions + chance_codes
        self._handle = c.void_p()
        text = c.settings_text(
            dict(settings, roots=roots, actions=actions, simulations=simulations, action_size=action_size,
                 chance_codes=chance_codes))
        c.call("muzero_create", text, ctypes.byref(self._handle))

    def __del__(self):
        if getattr(self, "_handle", None):
            c.library.mst_mcts_muzero_destroy(self._handle)
            self._handle = None

    def _rows(self, array, name, *shape):
        out = np.ascontiguousarray(_numpy(array), np.float32)
        if out.shape != (self.roots,) + shape:
            raise c.SearchError(1, f"muzero: {name} of shape {out.shape}; {(self.roots,) + shape} expected")
        return out

    def _sampled(self, sampled):
        if self.action_size == 0:
            return None
        return self._rows(sampled, "sampled", self.actions, self.action_size)

    def set_roots(self, logits, values, sampled=None):
        """logits [roots, actions]: -inf for what is not legal. sampled [roots, actions, action_size]."""
        c.call("muzero_set_roots", self._handle, c.floats(self._rows(logits, "logits", self.actions)),
               c.floats(self._rows(values, "values")), c.floats(self._sampled(sampled)))

    def gather(self):
        nodes, actions = np.zeros(self.roots, np.uint32), np.zeros(self.roots, np.uint32)
        vectors = np.zeros((self.roots, self.action_size), np.float32)
        c.call("muzero_gather", self._handle, c.numbers(nodes), c.numbers(actions), c.floats(vectors))
        return nodes, actions, vectors

    def scatter(self, rewards, values, logits, sampled=None):
        c.call("muzero_scatter", self._handle, c.floats(self._rows(rewards, "rewards")),
               c.floats(self._rows(values, "values")), c.floats(self._rows(logits, "logits", self.width)),
               c.floats(self._sampled(sampled)))

    def run(self, root_hidden, recurrent):
        """All simulations. root_hidden [roots, ...]; recurrent(hidden, actions) (vectors [roots, action_size] where actions are
        sampled) -> hidden, rewards, values, logits(, sampled). NumPy arrays or PyTorch tensors."""
        stack = root_hidden.new_empty if hasattr(root_hidden, "new_empty") else (
            lambda shape: np.empty(shape, root_hidden.dtype))
        hidden = stack((self.simulations + 1,) + tuple(root_hidden.shape))
        hidden[0] = root_hidden
        rows = np.arange(self.roots)
        for number in range(1, self.simulations + 1):
            nodes, actions, vectors = self.gather()
            taken = vectors if self.action_size else actions.astype(np.int64)
            hidden[number], *answer = recurrent(hidden[nodes.astype(np.int64), rows], taken)
            self.scatter(*answer)
        return self

    def result(self):
        """visits [roots, actions], policy [roots, actions], value [roots], best_action [roots]."""
        visits, best = np.zeros((self.roots, self.actions), np.uint32), np.zeros(self.roots, np.uint32)
        policy, value = np.zeros((self.roots, self.actions), np.float32), np.zeros(self.roots, np.float32)
        c.call("muzero_result", self._handle, c.numbers(visits), c.floats(policy), c.floats(value), c.numbers(best))
        return {"visits": visits, "policy": policy, "value": value, "best_action": best}
