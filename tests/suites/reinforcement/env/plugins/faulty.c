/* An environment that does one thing wrong; which, says FAULT. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "suites/reinforcement/env/c_environment.h"

#define NONE 0
#define OTHER_VERSION 1
#define NO_FUNCTION 2
#define NO_ACTIONS 3
#define LEAVES_OUT 4
#define WRITES_TOO_MUCH 5
#define NAN_REWARD 6
#define FAILS 7
#define CRASHES 8
#define ABORTS 9
#define STATE_OF_NAN 10
#define GIVES_NULL 11

enum { kSeen = 3 };

static void* create(void) { return calloc(1, sizeof(double)); }
static int begin(void* env, mstrain_random* random) {
  *(double*)env = random->uniform(random);
  return 0;
}
static int step(void* env, const int64_t* discrete, const double* box, mstrain_random* random, double* reward,
                uint8_t* terminated) {
  (void)discrete;
  (void)random;
  *(double*)env += box[0] + box[1];
  *reward = *(double*)env;
  *terminated = 0;
  if (FAULT == NAN_REWARD) *reward = NAN;
  if (FAULT == CRASHES) *(volatile int*)8 = 1;
  if (FAULT == ABORTS) abort();
  return FAULT == FAILS ? 7 : 0;
}
static void observe(const void* env, float* out) {
  for (int i = 0; i < kSeen + (FAULT == WRITES_TOO_MUCH) - (FAULT == LEAVES_OUT); ++i) out[i] = (float)*(const double*)env;
}
static void get_state(const void* env, double* out) { *out = FAULT == STATE_OF_NAN ? NAN : *(const double*)env; }
static int set_state(void* env, const double* state) {
  *(double*)env = *state;
  return 0;
}
static const char* last_error(const void* env) {
  (void)env;
  return FAULT == FAILS ? "the wheel came off" : NULL;
}

const mstrain_environment_api* mstrain_environment(void) {
  static const double low[] = {-1, 0}, high[] = {1, 2};
  static mstrain_environment_api api;
  api.version = MSTRAIN_ENVIRONMENT_VERSION + (FAULT == OTHER_VERSION);
  api.size = sizeof api;
  api.name = "faulty";
  api.observation_size = kSeen;
  api.box_actions = FAULT == NO_ACTIONS ? 0 : 2;
  api.action_low = low;
  api.action_high = high;
  api.state_size = 1;
  api.reward_threshold = NAN;
  api.create = create;
  api.destroy = free;
  api.begin = begin;
  api.step = FAULT == NO_FUNCTION ? NULL : step;
  api.observe = observe;
  api.get_state = get_state;
  api.set_state = set_state;
  api.last_error = last_error;
  return FAULT == GIVES_NULL ? NULL : &api;
}
