"""Tests of the installed module: python -m unittest test_mstrain_mcts."""
import unittest

import numpy as np

from mstrain_mcts import Batch, Game, Search, SearchError


class SearchTest(unittest.TestCase):
    def setUp(self):
        self.game = Game("tic_tac_toe")

    def test_rollouts_open_in_the_centre(self):
        search = Search(self.game, seed=1)
        search.set_root(self.game.initial_state())
        search.run(simulations=5000)
        self.assertEqual(search.best_action, 4)
        self.assertEqual(int(search.edges()["visits"].sum()) + 1, 5000)
        self.assertAlmostEqual(float(search.policy().sum()), 1, places=5)

    def test_an_evaluator_sees_batches_and_its_errors_come_out(self):
        sizes = []

        def uniform(rows):
            sizes.append(len(rows))
            return np.zeros((len(rows), 2)), np.ones((len(rows), 9))

        search = Search(self.game, policy="puct", parallelism="deterministic", batch=8)
        search.set_root(self.game.initial_state())
        search.run(simulations=300, evaluator=uniform)
        self.assertEqual(max(sizes), 8)
        with self.assertRaisesRegex(SearchError, r"values of shape \(\d+, 3\)"):
            search.run(simulations=100, evaluator=lambda rows: np.zeros((len(rows), 3)))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            search.run(simulations=100, evaluator=lambda rows: 1 // 0)
        with self.assertRaises(SearchError):
            search.run(simulations=100, evaluator=lambda rows: np.full((len(rows), 2), np.nan))

    def test_values_by_mover_are_turned(self):
        winning = Search(self.game, policy="puct", by_mover=True)
        winning.set_root(self.game.initial_state())
        winning.run(simulations=2, evaluator=lambda rows: np.tile([1.0, -1.0], (len(rows), 1)))
        self.assertEqual(winning.summary()["value"], -1)  # the leaf's mover wins: the root's player loses

    def test_many_trees_share_a_batch(self):
        searches = [Search(self.game, policy="puct", seed=i) for i in range(5)]
        for search in searches:
            search.set_root(self.game.initial_state())
        batch = Batch(searches, leaves_each=2)
        for _ in range(50):
            rows = batch.gather()
            self.assertEqual(rows.shape[1], self.game.observation_size)
            with self.assertRaises(SearchError):
                batch.scatter(np.zeros((len(rows) + 1, 2)))
            batch.scatter(np.zeros((len(rows), 2)), np.ones((len(rows), 9)))
        self.assertGreater(min(s.summary()["simulations"] for s in searches), 50)

    def test_a_game_is_played_to_its_end(self):
        state = self.game.initial_state()
        search = Search(self.game, seed=3)
        search.set_root(state)
        while self.game.player(state) >= 0:
            search.run(simulations=500)
            action = search.best_action
            state = self.game.apply(state, action)
            if self.game.player(state) >= 0:
                search.advance(action)
        self.assertEqual(float(self.game.returns(state).sum()), 0)

    def test_every_policy_finds_the_winning_cell(self):
        state = self.game.initial_state()
        for action in (0, 3, 2, 4):  # x wins between its two stones
            state = self.game.apply(state, action)
        for policy in ("ucb1", "ucb1_tuned", "puct", "gumbel", "rave", "epsilon_greedy", "wu_uct", "widening"):
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
            self.game.apply(self.game.initial_state(), 77)


if __name__ == "__main__":
    unittest.main()
