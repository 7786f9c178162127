/* A reward that does one thing wrong; which, says FAULT. */
#include <math.h>
#include <stdlib.h>

#include "suites/transformer/alignment/c_reward.h"

#define OTHER_VERSION 1
#define NO_FUNCTION 2
#define NO_NAME 3
#define GIVES_NULL 4
#define GIVES_NAN 5
#define LEAVES_OUT 6
#define FAILS 7
#define ABORTS 8
#define WRITES_TOO_MUCH 9
#define SAYS_NOTHING 10
#define EXITS 11
#define COUNTS 12 /* no fault: each answer earns how often it was asked */

static int score(const mstrain_answer* answers, int64_t count, double* rewards) {
  static int calls = 0;
  (void)answers;
  ++calls;
  if (FAULT == FAILS || FAULT == SAYS_NOTHING) {
    return 3;
  }
  if (FAULT == ABORTS) {
    abort();
  }
  if (FAULT == EXITS) {
    exit(0);
  }
  for (int64_t i = 0; i + (FAULT == LEAVES_OUT) < count + (FAULT == WRITES_TOO_MUCH); ++i) {
    rewards[i] = FAULT == GIVES_NAN ? NAN : FAULT == COUNTS ? calls : 1;
  }
  return 0;
}

static const char* last_error(void) { return "the judge is asleep"; }

const mstrain_reward_api* mstrain_reward(void) {
  static mstrain_reward_api api = {MSTRAIN_REWARD_VERSION, sizeof(mstrain_reward_api), "faulty", score, last_error};
  if (FAULT == OTHER_VERSION) {
    api.version = 7;
  } else if (FAULT == NO_FUNCTION) {
    api.score = 0;
  } else if (FAULT == NO_NAME) {
    api.name = "";
  } else if (FAULT == SAYS_NOTHING) {
    api.last_error = 0;
  }
  return FAULT == GIVES_NULL ? 0 : &api;
}
