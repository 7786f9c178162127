/* A corridor with its goal at the right end, as a shared library: build-examples/libcorridor.so */
#include "suites/reinforcement/env/c_environment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLength = 7 };

typedef struct {
  int64_t place;
  char error[64];
} Corridor;

static void* create(void) { return calloc(1, sizeof(Corridor)); }

static int begin(void* env, mstrain_random* random) {
  ((Corridor*)env)->place = random->uniform(random) < 0.5 ? 0 : 1;
  return 0;
}

static int step(void* env, const int64_t* discrete, const double* box, mstrain_random* random, double* reward,
                uint8_t* terminated) {
  Corridor* corridor = env;
  (void)box;
  (void)random;
  corridor->place += *discrete == 1 ? 1 : corridor->place > 0 ? -1 : 0;
  *terminated = corridor->place == kLength - 1;
  *reward = *terminated ? 1 : -0.1;
  return 0;
}

static void observe(const void* env, float* out) {
  out[0] = (float)((const Corridor*)env)->place / (kLength - 1);
}

static void get_state(const void* env, double* out) { out[0] = (double)((const Corridor*)env)->place; }

static int set_state(void* env, const double* state) {
  Corridor* corridor = env;
  if (!(state[0] >= 0 && state[0] < kLength) || state[0] != floor(state[0])) {
    snprintf(corridor->error, sizeof corridor->error, "place %g: expected 0 to %d", state[0], kLength - 1);
    return 1;
  }
  corridor->place = (int64_t)state[0];
  return 0;
}

static const char* last_error(const void* env) { return ((const Corridor*)env)->error; }

const mstrain_environment_api* mstrain_environment(void) {
  static const double low[] = {0}, high[] = {1};
  static mstrain_environment_api api = {
      .version = MSTRAIN_ENVIRONMENT_VERSION,
      .size = sizeof(mstrain_environment_api),
      .name = "corridor_in_c",
      .about = "a corridor with its goal at the right end",
      .observation_size = 1,
      .observation_low = low,
      .observation_high = high,
      .discrete_actions = 2,
      .state_size = 1,
      .time_limit = 50,
      .create = create,
      .destroy = free,
      .begin = begin,
      .step = step,
      .observe = observe,
      .get_state = get_state,
      .set_state = set_state,
      .last_error = last_error,
  };
  api.reward_threshold = 0.4;
  return &api;
}
