"""Tests of the installed module: python -m unittest test_mstrain_mcts."""
import contextlib
import sys
import types
import unittest
import unittest.mock

import numpy as np

from mstrain_mcts import (CHANCE, TERMINAL, Batch, Game, MuZero, OwnGame, Search, SearchError, TorchEvaluator, by_player,
                          self_play, shipped_games)


class Nim(OwnGame):
    """Take one, two or three; who takes the last one wins."""
    players, max_actions, observation_size = 2, 4, 1
    min_return, max_return, zero_sum = -1.0, 1.0, True
    dtype = [("stones", "i4"), ("mover", "i4")]

    def initial_state(self):
        return np.array((9, 0), self.dtype)

    def player(self, s):
        return TERMINAL if s["stones"] == 0 else s["mover"]

    def legal(self, s):
        return range(1, min(3, s["stones"]) + 1)

    def apply(self, s, action):
        s["stones"] -= action
        s["mover"] = 1 - s["mover"]

    def returns(self, s):
        return [1, -1] if s["mover"] == 1 else [-1, 1]

    def observe(self, s, player):
        return [s["stones"]]

    def hash(self, s):
        return 2**70 + 2 * int(s["stones"]) + int(s["mover"])  # any integer: 64 bits of it count


class ManyNims(OwnGame):
    """The same for arrays of states."""
    vectorised = True
    players, max_actions, observation_size = 2, 4, 1
    min_return, max_return, zero_sum = -1.0, 1.0, True
    dtype = Nim.dtype

    def __init__(self):
        super().__init__()
        self.observed, self.applied = [], []

    def initial_state(self):
        return np.array((9, 0), self.dtype)

    def player(self, s):
        return np.where(s["stones"] == 0, TERMINAL, s["mover"])

    def legal(self, s):
        actions = np.arange(4)
        return (actions > 0) & (actions <= s["stones"][:, None])

    def apply(self, s, actions):
        self.applied.append(len(s))
        s["stones"] -= actions
        s["mover"] = 1 - s["mover"]

    def returns(self, s):
        first = np.where(s["mover"] == 1, 1.0, -1.0)
        return np.stack([first, -first], 1)

    def observe(self, s, players):
        self.observed.append(len(s))
        return s["stones"][:, None]


class Walk(OwnGame):
    """One player; steps pay by a coin."""
    players, max_actions = 1, 2
    dtype = [("place", "i4"), ("paid", "f4"), ("tossing", "?")]

    def initial_state(self):
        return np.array((0, 0, False), self.dtype)

    def player(self, s):
        return TERMINAL if s["place"] == 4 else CHANCE if s["tossing"] else 0

    def legal(self, s):
        return [0, 1]

    def chance(self, s):
        return [0, 1], [0.5, 0.5]

    def apply(self, s, action):
        s["paid"] = 0
        if s["tossing"]:
            s["paid"], s["tossing"] = action, False
            s["place"] += 1
        elif action == 0:
            s["place"] += 1
        else:
            s["tossing"] = True

    def rewards(self, s):
        return [s["paid"]]

    def returns(self, s):
        return [0]


def uniform(leaves):
    return np.zeros((len(leaves), 2)), np.ones((len(leaves), 4))


class ShippedGameTest(unittest.TestCase):
    def setUp(self):
        self.game = Game("tic_tac_toe")

    def uniform(self, leaves):
        return np.zeros((len(leaves), 2)), np.ones((len(leaves), 9))

    def test_all_games_are_searched(self):
        self.assertEqual(len(shipped_games()), 18)
        for name in shipped_games():
            game = Game(name)
            state = game.initial_state()
            while game.player_of(state) == CHANCE:
                state = game.after(state, game.chance_outcomes(state)[0][0])
            search = Search(game, seed=1)
            search.set_root(state)
            search.run(simulations=50)
            self.assertIn(search.best_action, game.legal_actions(state), name)

    def test_rollouts_open_in_the_centre(self):
        search = Search(self.game, seed=1)
        search.set_root(self.game.initial_state())
        search.run(simulations=5000)
        self.assertEqual(search.best_action, 4)
        self.assertEqual(int(search.edges()["visits"].sum()) + 1, 5000)
        self.assertAlmostEqual(float(search.policy().sum()), 1, places=5)

    def test_an_evaluator_sees_batches_and_its_errors_come_out(self):
        for settings in ({"parallelism": "deterministic"}, {"parallelism": "tree", "threads": 2}):
            sizes = []

            def counted(leaves):
                sizes.append(len(leaves))
                return self.uniform(leaves)

            search = Search(self.game, policy="puct", batch=8, **settings)
            search.set_root(self.game.initial_state())
            search.run(simulations=300, evaluator=counted)
            self.assertGreater(max(sizes), 4)
            self.assertLessEqual(max(sizes), 8)
        with self.assertRaisesRegex(SearchError, r"values of shape \(\d+, 3\)"):
            search.run(simulations=100, evaluator=lambda leaves: np.zeros((len(leaves), 3)))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            search.run(simulations=100, evaluator=lambda leaves: 1 // 0)
        with self.assertRaises(SearchError):
            search.run(simulations=100, evaluator=lambda leaves: np.full((len(leaves), 2), np.nan))

    def test_values_belong_to_players_by_number(self):
        search = Search(self.game, policy="puct")
        search.set_root(self.game.initial_state())
        search.run(simulations=2, evaluator=lambda leaves: np.tile([1.0, -1.0], (len(leaves), 1)))
        self.assertEqual(search.summary()["value"], 1)  # player 0 wins, who is at the root
        search.set_root(self.game.initial_state())
        search.run(simulations=2, evaluator=lambda leaves: by_player(np.tile([1.0, -1.0], (len(leaves), 1)), leaves.movers))
        self.assertEqual(search.summary()["value"], -1)  # the leaf's mover wins: the root's player loses
        self.assertEqual(by_player([[1, 2, 3]], [2]).tolist(), [[2, 3, 1]])

    def test_many_trees_share_a_batch_and_keep_their_budgets(self):
        searches = [Search(self.game, policy="puct", seed=i) for i in range(5)]
        for search in searches:
            search.set_root(self.game.initial_state())
        batch, kept = Batch(searches, leaves_each=2, simulations=60), []
        while len(leaves := batch.gather()):
            kept.append((leaves.observations, leaves.observations.copy()))
            with self.assertRaises(SearchError):
                batch.scatter(np.zeros((len(leaves) + 1, 2)))
            batch.scatter(*self.uniform(leaves))
        self.assertEqual({s.summary()["simulations"] for s in searches}, {60})
        for mine, then in kept:  # nothing writes into arrays that were handed out
            np.testing.assert_array_equal(mine, then)
        for search in searches:
            search.advance(search.best_action)
        self.assertGreater(len(batch.gather()), 0)  # the next move is a run of its own

    def test_every_policy_finds_the_winning_cell(self):
        state = self.game.initial_state()
        for action in (0, 3, 2, 4):  # x wins between its two stones
            state = self.game.after(state, action)
        for policy in ("ucb1", "ucb1_tuned", "puct", "gumbel", "rave", "epsilon_greedy", "wu_uct", "widening", "graph"):
            search = Search(self.game, policy=policy, seed=3, uct_c=1, widening_k=9)
            search.set_root(state)
            search.run(simulations=3000)
            self.assertEqual(search.best_action, 1, policy)

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(SearchError, "did you mean tic_tac_toe"):
            Game("tic_tac_to")
        with self.assertRaisesRegex(SearchError, "did you mean puct"):
            Search(self.game, policy="puctt")
        with self.assertRaisesRegex(SearchError, "did you mean seed"):
            Search(self.game, sed=1)
        with self.assertRaisesRegex(SearchError, "not a legal action"):
            self.game.after(self.game.initial_state(), 77)
        searches = [Search(Game(name)) for name in ("connect_four", "tic_tac_toe")]
        for search in searches:
            search.set_root(search.game.initial_state())
        with self.assertRaisesRegex(SearchError, "search 1 is of another game"):
            Batch(searches, simulations=10).gather()
        with self.assertRaisesRegex(SearchError, "no searches"):
            Batch([], simulations=10)
        with self.assertRaisesRegex(SearchError, r"advance\(-1\)"):
            searches[0].advance(-1)
        with self.assertRaisesRegex(SearchError, r"advance\(4294967299\)"):  # 3, in 32 bits
            searches[0].advance(2**32 + 3)
        with self.assertRaisesRegex(SearchError, "simulations is -3"):
            searches[0].run(simulations=-3)
        with self.assertRaisesRegex(SearchError, "graph is searched by run"):
            search = Search(self.game, "graph")
            search.set_root(self.game.initial_state())
            Batch([search], simulations=10).gather()

    def test_only_players_observe(self):
        poker, state = Game("kuhn_poker"), self.game.initial_state()
        for action in (0, 3, 1, 4, 2):
            state = self.game.after(state, action)
        self.assertEqual(self.game.observation(state, 1).shape, (18,))
        for game, s, player in ((self.game, state, None), (self.game, state, 2), (self.game, state, -1),
                                (poker, poker.initial_state(), None)):
            with self.assertRaisesRegex(SearchError, "observation of player -?[12]; expected 0 to 1"):
                game.observation(s, player)

    def test_one_value_of_a_torch_module_is_the_only_players(self):
        class Tensor(np.ndarray):  # as much of PyTorch as an evaluator asks for
            def to(self, device):
                return self

            float = cpu = lambda self: self

            def numpy(self):
                return np.asarray(self)

        torch = types.ModuleType("torch")
        torch.inference_mode = contextlib.nullcontext
        torch.from_numpy = lambda array: array.view(Tensor)
        torch.softmax = lambda logits, axis: (np.exp(logits) / np.exp(logits).sum(axis, keepdims=True)).view(Tensor)

        class Module:
            def __init__(self, game):
                self.game = game

            def to(self, device):
                return self

            def __call__(self, observations):
                return [np.full((len(observations), n), 0.5, np.float32).view(Tensor) for n in (1, self.game.max_actions)]

        with unittest.mock.patch.dict(sys.modules, {"torch": torch}):
            for name in ("peg_solitaire", "connect_four"):
                search = Search(Game(name), policy="puct", seed=1)
                search.set_root(search.game.initial_state())
                search.run(simulations=20, evaluator=TorchEvaluator(Module(search.game)))
                self.assertEqual(search.summary()["simulations"], 20)

    def test_a_torch_module_is_an_evaluator(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")

        class Network(torch.nn.Module):
            def forward(self, observations):
                return torch.zeros(len(observations), 1), torch.zeros(len(observations), 9)

        search = Search(self.game, policy="puct", seed=1)
        search.set_root(self.game.initial_state())
        search.run(simulations=50, evaluator=TorchEvaluator(Network()))
        self.assertAlmostEqual(float(search.edges()["prior"].sum()), 1, places=2)


class OwnGameTest(unittest.TestCase):
    def test_a_class_is_searched_and_solved(self):
        for game in (Nim(), ManyNims()):
            search = Search(game, seed=1, solve=True, uct_c=1)
            search.set_root(game.initial_state())
            search.run(simulations=2000)
            self.assertEqual(search.best_action, 1)
            self.assertTrue(search.summary()["proven"])
            self.assertEqual(search.summary()["value"], 1)

    def test_one_state_and_many_are_searched_alike(self):
        tables = []
        for game in (Nim(), ManyNims()):
            search = Search(game, policy="puct", seed=4, parallelism="deterministic", batch=8)
            search.set_root(game.initial_state())
            search.run(simulations=200, evaluator=uniform)
            tables.append(search.edges()["visits"].tolist())
        self.assertEqual(tables[0], tables[1])
        self.assertGreater(max(game.observed), 1)  # a whole batch at once

    def test_a_graph_needs_a_hash(self):
        search = Search(Nim(), "graph", seed=1)
        search.set_root(Nim().initial_state())
        search.run(simulations=500)
        self.assertLessEqual(search.summary()["nodes"], 20)
        with self.assertRaisesRegex(SearchError, "hash"):
            Search(ManyNims(), "graph")

    def test_rewards_and_chance(self):
        game = Walk()
        search = Search(game, seed=1, uct_c=1)
        search.set_root(game.initial_state())
        search.run(simulations=2000)
        self.assertEqual(search.best_action, 1)
        self.assertAlmostEqual(search.summary()["value"], 2, delta=0.3)

    def test_what_a_game_raises_comes_out(self):
        class Broken(Nim):
            def apply(self, s, action):
                if s["stones"] < 5:
                    raise KeyError("apply broke")
                super().apply(s, action)

        game = Broken()
        search = Search(game, seed=1)
        search.set_root(game.initial_state())
        with self.assertRaisesRegex(KeyError, "apply broke"):
            search.run(simulations=100)
        with self.assertRaisesRegex(SearchError, "min_return"):
            Search(Walk(), solve=True)

    def test_self_play(self):
        for game in (Nim(), ManyNims()):
            played = sorted(self_play(game, uniform, games=6, simulations=20, at_once=4, seed=1), key=lambda g: g.number)
            self.assertEqual([g.number for g in played], list(range(6)))
            for each in played:
                self.assertTrue(each.finished)
                self.assertEqual(abs(each.returns[0]), 1)
                self.assertEqual(sum(each.actions), 9)
                self.assertAlmostEqual(float(each.policies[0].sum()), 1, places=5)
        self.assertGreater(max(game.applied), 1)  # all games of a move at once
        walk = Walk()
        for each in self_play(walk, lambda leaves: np.zeros((len(leaves), 1)), games=3, simulations=20, policy="uct", seed=1):
            self.assertAlmostEqual(each.returns[0], float(np.sum(each.rewards)))
        with self.assertRaises(ValueError):
            next(self_play(walk, uniform, games=1, simulations=0))

    def test_games_may_be_over_where_they_begin(self):
        game = Nim()
        over = {0, 3, 5}

        def start(number):
            return np.array((0 if number in over else 9, 0), game.dtype)

        played = sorted(self_play(game, uniform, games=6, simulations=20, at_once=2, start=start), key=lambda g: g.number)
        self.assertEqual([g.number for g in played], list(range(6)))
        for each in played:
            self.assertTrue(each.finished)
            self.assertEqual(len(each.actions) == 0, each.number in over)
            self.assertEqual(abs(each.returns[0]), 1)

    def test_games_that_share_a_board_differ(self):
        game = Game("connect_four")

        def played(seed):
            games = self_play(game, lambda leaves: (np.zeros((len(leaves), 2)), np.ones((len(leaves), 7))), games=16,
                              simulations=16, policy="gumbel", at_once=2, seed=seed)
            return [tuple(each.actions) for each in sorted(games, key=lambda g: g.number)]

        self.assertGreater(len(set(played(1))), 12)
        self.assertEqual(played(1), played(1))
        self.assertNotEqual(played(1), played(2))


class MuZeroTest(unittest.TestCase):
    def test_a_bandit(self):
        for gumbel in (False, True):
            search = MuZero(roots=3, actions=4, simulations=60, discount=0.9, gumbel=gumbel, seed=1)
            search.set_roots(np.zeros((3, 4)), np.zeros(3))
            search.run(np.zeros((3, 2)), lambda hidden, actions: (hidden, actions == 2, np.zeros(3), np.zeros((3, 4))))
            result = search.result()
            self.assertEqual(result["best_action"].tolist(), [2, 2, 2])
            self.assertEqual(result["visits"].sum(1).tolist(), [60, 60, 60])
            np.testing.assert_allclose(result["policy"].sum(1), 1, rtol=1e-5)
        with self.assertRaisesRegex(SearchError, "did you mean roots"):
            MuZero(roots=1, actions=2, simulations=3, root=4)
        with self.assertRaisesRegex(SearchError, "logits of shape"):
            search.set_roots(np.zeros((3, 5)), np.zeros(3))

    def test_chance_behind_actions(self):
        # Hidden states count steps: even ones are for actions, odd ones for codes, the second of which comes nine times in ten and pays.
        def recurrent(hidden, actions):
            is_code = hidden[:, 0] % 2 == 1
            self.assertEqual((actions >= 2).tolist(), is_code.tolist())
            logits = np.tile(np.log([[0.5, 0.5, 0.1, 0.9]]), (len(hidden), 1))
            return hidden + 1, is_code * (actions == 3), np.zeros(len(hidden)), logits

        search = MuZero(roots=2, actions=2, simulations=200, chance_codes=2, discount=0.5)
        search.set_roots(np.zeros((2, 2)), np.zeros(2))
        result = search.run(np.zeros((2, 1)), recurrent).result()
        self.assertEqual(result["visits"].sum(1).tolist(), [200, 200])
        self.assertTrue((abs(result["value"] - 1.8) < 0.3).all(), result["value"])


if __name__ == "__main__":
    unittest.main()
