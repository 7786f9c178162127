/* An environment of your own in C, or in anything that speaks it, as a shared library:
 *
 *   environment: {library: path/to/corridor.so}
 *
 * The library has one function, mstrain_environment(). docs/adding_an_environment.md shows one whole.
 */
#ifndef MSTRAIN_C_ENVIRONMENT_H_
#define MSTRAIN_C_ENVIRONMENT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSTRAIN_ENVIRONMENT_VERSION 1

/* Random numbers of one environment in one episode: the same for the same seed. Only to be used during the call that got it. */
typedef struct mstrain_random {
  double (*uniform)(struct mstrain_random* self); /* in [0, 1) */
  void* reserved;
} mstrain_random;

/* Lists have the lengths that stand beside them; all that is pointed to must live as long as the library does. Functions of
 * different environments may be called by different threads at once, those of one never. Functions that give an int say 0 for
 * success; anything else ends the run with what last_error() says. */
typedef struct mstrain_environment_api {
  uint32_t version; /* MSTRAIN_ENVIRONMENT_VERSION */
  uint32_t size;    /* sizeof(mstrain_environment_api) */

  const char* name;
  const char* about;             /* a line, or NULL */
  int64_t observation_size;      /* numbers of an observation */
  const double* observation_low; /* [observation_size], or NULL: unbounded */
  const double* observation_high;
  int64_t discrete_actions; /* so many, 0 ... n - 1; 0: actions are numbers in a box */
  int64_t box_actions;      /* so many numbers; 0 where actions are discrete */
  const double* action_low; /* [box_actions] */
  const double* action_high;
  int64_t state_size;      /* numbers that are the whole state, at least 1 */
  int64_t time_limit;      /* steps of an episode at most; 0: no limit */
  double reward_threshold; /* mean return that counts as solved; NAN: none */

  void* (*create)(void); /* one environment; NULL: failure */
  void (*destroy)(void* env);
  int (*begin)(void* env, mstrain_random* random); /* an episode, whatever was before */
  /* One of `discrete` (one number) and `box` [box_actions] is not NULL. *terminated: 1 where the episode has come to its end; time
   * limits are not its business. */
  int (*step)(void* env, const int64_t* discrete, const double* box, mstrain_random* random,
              double* reward, uint8_t* terminated);
  void (*observe)(const void* env, float* out /* [observation_size] */);
  void (*get_state)(const void* env, double* out /* [state_size] */);
  int (*set_state)(void* env, const double* state /* [state_size] */);
  const char* (*last_error)(const void* env); /* of the function that failed; or NULL */
} mstrain_environment_api;

const mstrain_environment_api* mstrain_environment(void);

#ifdef __cplusplus
}
#endif

#endif /* MSTRAIN_C_ENVIRONMENT_H_ */
