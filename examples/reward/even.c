/* A reward of one's own for objective.grpo.rewards: 1 for an even number, and what is missing to a length of 3 costs a tenth each.
 *   cc -shared -fPIC -I INCLUDE/mstrain -o even.so even.c */
#include "suites/transformer/alignment/c_reward.h"

static double earned(const mstrain_answer* answer) {
  const int64_t size = answer->text.size;
  if (size == 0) {
    return 0;
  }
  const char last = answer->text.bytes[size - 1];
  const double even = last >= '0' && last <= '9' && (last - '0') % 2 == 0;
  return even - (size < 3 ? 0.1 * (double)(3 - size) : 0);
}

static int score(const mstrain_answer* answers, int64_t count, double* rewards) {
  for (int64_t i = 0; i < count; ++i) {
    rewards[i] = earned(&answers[i]);
  }
  return 0;
}

static const char* last_error(void) { return 0; }

const mstrain_reward_api* mstrain_reward(void) {
  static const mstrain_reward_api api = {MSTRAIN_REWARD_VERSION, sizeof(mstrain_reward_api), "even", score, last_error};
  return &api;
}
