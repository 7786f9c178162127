/* Tree search for programs in C and in whatever calls C. See example.c beside this file.
 *
 * Every function returns 0 or one of the codes below; mst_mcts_last_error() then holds one line for a person (of the calling
 * thread, until its next call). No C++ exception leaves the library. A search may be used by one thread at a time; its callbacks
 * may be called by several threads at once where its configuration asks for threads.
 */
#ifndef MSTRAIN_MCTS_C_API_MSTRAIN_MCTS_H_
#define MSTRAIN_MCTS_C_API_MSTRAIN_MCTS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MST_MCTS_ABI_VERSION 2

enum {
  MST_MCTS_OK = 0,
  MST_MCTS_USAGE = 1,     /* a wrong argument, name, size or order of calls */
  MST_MCTS_GAME = 2,      /* a game callback failed or broke its contract */
  MST_MCTS_EVALUATOR = 3, /* the evaluator failed or gave numbers that are not finite */
  MST_MCTS_MEMORY = 4,
  MST_MCTS_INTERNAL = 5
};

#define MST_MCTS_CHANCE (-1)
#define MST_MCTS_TERMINAL (-2)

/* Values mean one thing everywhere: those of a state, from returns, rewards, rollout or an evaluator, are [players], of player 0,
 * player 1, ... The one value of an edge or of a root is that of the player to move at the root. */

/* A game. States are `state_size` bytes that memcpy may copy. Callbacks marked optional may be null, and all that is not given is 0.
 * Those that return int return 0, or another number that ends the search with MST_MCTS_GAME. `context` is handed through. */
typedef struct mst_mcts_game {
  uint32_t abi_version; /* MST_MCTS_ABI_VERSION */
  uint32_t players;     /* 1 to 8 */
  uint32_t state_size;
  uint32_t max_actions;      /* every action is below it; at most 65535 in one state */
  uint32_t observation_size; /* floats; 0 without observe */
  void* context;
  int (*player)(void* context,
                const void* state); /* 0..players-1, MST_MCTS_CHANCE or MST_MCTS_TERMINAL */
  /* Writes the legal actions and their number; `out` has room for max_actions. */
  int (*legal)(void* context, const void* state, uint32_t* out, uint32_t* count);
  int (*apply)(void* context, void* state, uint32_t action);
  int (*returns)(void* context, const void* state, float* out); /* [players], in a terminal state */
  /* Optional. Outcomes of a chance state with probabilities that sum to 1. */
  int (*chance)(void* context, const void* state, uint32_t* actions, float* probabilities,
                uint32_t* count);
  /* Optional, [players]. What the last apply paid; results are then sums of rewards, plus returns at the end. */
  int (*rewards)(void* context, const void* state, float* out);
  /* Optional. Result of random play, drawn from `seed`. */
  int (*rollout)(void* context, const void* state, uint64_t seed, float* out);
  /* Optional. The network input seen by `player`. */
  int (*observe)(void* context, const void* state, int player, float* out);
  /* The range of returns: one outside ends the search. Equal (both 0): not known, and `solve` is refused. */
  float min_return;
  float max_return;
  int32_t
      zero_sum; /* not 0: returns of the two players sum to zero; the solver takes one's loss for the other's win */
  /* Optional. Equal for equal positions with the same player to move: the policy graph needs it. Null where earlier positions count
   * as well, as they do in go. */
  uint64_t (*hash)(void* context, const void* state);
  /* Optional. Takes back the last apply(action): where it is given, the search uses it instead of copying the state. */
  int (*undo)(void* context, void* state, uint32_t action);
  /* Optional, both or none: the policy information_set needs them. Replaces what `player` cannot know by a sample, drawn from
   * `seed`, that fits what it saw; and a number that is equal for states that `player` cannot tell apart. */
  int (*determinize)(void* context, void* state, int player, uint64_t seed);
  uint64_t (*information_key)(void* context, const void* state, int player);
  /* Optional, for sets of actions too large to list: one legal action, drawn from `seed`. The policy widening asks for them
   * one by one, and random play too; legal is then asked of no other than small states, or never. */
  int (*sample_action)(void* context, const void* state, uint64_t seed, uint32_t* action);
} mst_mcts_game;

/* Evaluates `count` leaves: values [count, players], by player number; priors [count, max_actions], by action, null where the search
 * wants none. `observations` [count, observation_size] by the player to move, null where the game has none. */
typedef int (*mst_mcts_evaluate)(void* context, uint32_t count, const void* const* states,
                                 const float* observations, float* values, float* priors);

typedef struct mst_mcts_budget {
  int64_t simulations; /* 0: no limit */
  double milliseconds; /* 0: no limit */
  int64_t stable;      /* stop when the leader has led for so many simulations; 0: no */
} mst_mcts_budget;

typedef struct mst_mcts_edge {
  uint32_t action;
  int32_t proven;
  uint64_t visits;
  double value; /* mean for the player to move at the root */
  double prior;
  double weight; /* share in the improved policy */
} mst_mcts_edge;

typedef struct mst_mcts_summary {
  int64_t best_action; /* -1: no simulation yet, or chance moves */
  double value;        /* for the player to move at the root */
  int32_t proven;
  uint32_t edges;
  uint64_t simulations;
  uint64_t evaluations;
  uint64_t collisions;
  uint64_t nodes;
  uint64_t tree_bytes;
  double seconds;
} mst_mcts_summary;

typedef struct mst_mcts_search mst_mcts_search;

uint32_t mst_mcts_abi_version(void);
const char* mst_mcts_version(void);
const char* mst_mcts_last_error(void);

/* Names of the games that come with the library, from number 0 on; null behind the last. */
const char* mst_mcts_game_name(uint32_t number);
/* One of them. Never to be freed. */
int mst_mcts_find_game(const char* name, const mst_mcts_game** game);
/* Writes the first state of a game of mst_mcts_find_game(). */
int mst_mcts_initial_state(const mst_mcts_game* game, void* state);

/* policy: uct (or ucb1), uct_tuned (or ucb1_tuned), puct, gumbel, rave, epsilon_greedy, wu_uct, widening, graph, information_set
 * or open_loop (the last three by run alone). config: YAML such as "{seed: 7, uct_c: 1.4, threads: 2, parallelism: tree}", or
 * null; its keys are those of SearchConfig. `game` is copied; its context must outlive the search. */
int mst_mcts_create(const mst_mcts_game* game, const char* policy, const char* config,
                    mst_mcts_search** search);
void mst_mcts_destroy(mst_mcts_search* search);

int mst_mcts_set_root(mst_mcts_search* search, const void* state);
int mst_mcts_advance(mst_mcts_search* search, uint32_t action);

/* evaluate null: random rollouts. with_priors: 0 where it fills values alone. */
int mst_mcts_run(mst_mcts_search* search, const mst_mcts_budget* budget, mst_mcts_evaluate evaluate,
                 void* context, int with_priors);

/* A run in steps, for hosts that own the loop: up to `max_leaves` leaves of each of `searches` in one batch. `observations`
 * [capacity, observation_size] and `states` [capacity] may be null; states point into the searches until
 * scatter. counts[i] leaves belong to searches[i]: 0 where its run is over, until it gets another root or a larger budget.
 * A run begins with the first gather after set_root or advance; `budget` is that of each search, from there on.
 * capacity >= searches * max_leaves. All searches are of the same game. */
int mst_mcts_gather(mst_mcts_search* const* searches, uint32_t search_count,
                    const mst_mcts_budget* budget, uint32_t max_leaves, uint32_t capacity,
                    const void** states, float* observations, uint32_t* counts);
/* values [total, players], priors [total, max_actions] or null, in the order of the gather; total must be the sum of counts. */
int mst_mcts_scatter(mst_mcts_search* const* searches, uint32_t search_count, uint32_t total,
                     const float* values, const float* priors);

int mst_mcts_result(const mst_mcts_search* search, mst_mcts_summary* summary);
/* Writes up to `capacity` root edges and their full number. */
int mst_mcts_edges(const mst_mcts_search* search, mst_mcts_edge* edges, uint32_t capacity,
                   uint32_t* count);
int mst_mcts_principal_variation(const mst_mcts_search* search, uint32_t* actions,
                                 uint32_t capacity, uint32_t* count);

/* Search over a learned model, many roots at once; mcts/search/muzero.h says what happens. config: YAML with the keys of
 * MuZeroConfig: "{roots: 256, actions: 18, simulations: 50}". Arrays are row by row; `sampled` and `vectors` are null where actions
 * are not sampled (action_size 0). Values are seen by the player to move at their node, rewards by the player who moved. */
typedef struct mst_mcts_muzero mst_mcts_muzero;
int mst_mcts_muzero_create(const char* config, mst_mcts_muzero** search);
void mst_mcts_muzero_destroy(mst_mcts_muzero* search);
/* logits [roots, actions] (minus infinity: not legal), values [roots], sampled [roots, actions, action_size]. */
int mst_mcts_muzero_set_roots(mst_mcts_muzero* search, const float* logits, const float* values,
                              const float* sampled);
/* The node to go on from, 0 being the root, and the action to take there, or, from `actions` on, the chance code: [roots] each,
 * vectors [roots, action_size]. The answer belongs to a new node, numbered 1, 2, ... in turn, with logits
 * [roots, actions + chance_codes]. */
int mst_mcts_muzero_gather(mst_mcts_muzero* search, uint32_t* nodes, uint32_t* actions,
                           float* vectors);
int mst_mcts_muzero_scatter(mst_mcts_muzero* search, const float* rewards, const float* values,
                            const float* logits, const float* sampled);
/* visits and policy [roots, actions], values and best_actions [roots]; any may be null. */
int mst_mcts_muzero_result(const mst_mcts_muzero* search, uint32_t* visits, float* policy,
                           float* values, uint32_t* best_actions);

#ifdef __cplusplus
}
#endif

#endif /* MSTRAIN_MCTS_C_API_MSTRAIN_MCTS_H_ */
