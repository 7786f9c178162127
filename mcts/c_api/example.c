/* A game of one's own in C: take one, two or three stones; who takes the last one wins. The search finds the move that leaves a
 * multiple of four, first by random play, then guided by an evaluator that is called with batches. */
#include <stdio.h>

#include "mcts/c_api/mstrain_mcts.h"

typedef struct {
  uint32_t stones;
  uint32_t mover;
} nim;

static int player(void* context, const void* state) {
  const nim* s = state;
  (void)context;
  return s->stones == 0 ? MST_MCTS_TERMINAL : (int)s->mover;
}

static int legal(void* context, const void* state, uint32_t* out, uint32_t* count) {
  const nim* s = state;
  (void)context;
  for (*count = 0; *count < 3 && *count < s->stones; ++*count) {
    out[*count] = *count + 1;
  }
  return 0;
}

static int apply(void* context, void* state, uint32_t action) {
  nim* s = state;
  (void)context;
  if (action < 1 || action > 3 || action > s->stones) {
    return 1;
  }
  s->stones -= action;
  s->mover = 1 - s->mover;
  return 0;
}

static int returns(void* context, const void* state, float* out) {
  const nim* s = state;
  (void)context;
  out[1 - s->mover] = 1;
  out[s->mover] = -1;
  return 0;
}

static int evaluate(void* context, uint32_t count, const void* const* states, const float* observations, float* values,
                    float* priors) {
  (void)context;
  (void)observations;
  for (uint32_t i = 0; i < count; ++i) {
    const nim* s = states[i];
    const float mine = s->stones % 4 == 0 ? -1.0F : 1.0F;
    values[2 * i + s->mover] = mine;
    values[2 * i + 1 - s->mover] = -mine;
    for (uint32_t a = 0; a < 4; ++a) {
      priors[4 * i + a] = a == 0 ? 0.0F : 1.0F;
    }
  }
  return 0;
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, mst_mcts_last_error());
  return 1;
}

static int solve(const mst_mcts_game* game, const char* policy, mst_mcts_evaluate evaluator) {
  mst_mcts_search* search = NULL;
  const nim start = {10, 0};
  const mst_mcts_budget budget = {2000, 0, 0};
  mst_mcts_summary summary;
  if (mst_mcts_create(game, policy, "{seed: 1, uct_c: 1.0}", &search) != MST_MCTS_OK) {
    return failed("create");
  }
  if (mst_mcts_set_root(search, &start) != MST_MCTS_OK ||
      mst_mcts_run(search, &budget, evaluator, NULL, 1) != MST_MCTS_OK ||
      mst_mcts_result(search, &summary) != MST_MCTS_OK) {
    mst_mcts_destroy(search);
    return failed(policy);
  }
  printf("%s: of 10 stones take %d (value %.2f after %llu simulations)\n", policy, (int)summary.best_action,
         summary.value, (unsigned long long)summary.simulations);
  mst_mcts_destroy(search);
  return summary.best_action == 2 ? 0 : 1;
}

int main(void) {
  mst_mcts_game game = {0};
  game.abi_version = MST_MCTS_ABI_VERSION;
  game.players = 2;
  game.state_size = sizeof(nim);
  game.max_actions = 4;
  game.player = player;
  game.legal = legal;
  game.apply = apply;
  game.returns = returns;
  return solve(&game, "uct", NULL) + solve(&game, "puct", evaluate);
}
