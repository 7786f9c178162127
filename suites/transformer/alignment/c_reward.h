/* A reward of your own in C, or in anything that speaks it, as a shared library:
 *
 *   objective: {type: grpo, grpo: {rewards: [{type: library, path: path/to/even.so}]}}
 *
 * The library has one function, mstrain_reward(). docs/alignment.md shows one whole.
 */
#ifndef MSTRAIN_C_REWARD_H_
#define MSTRAIN_C_REWARD_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSTRAIN_REWARD_VERSION 1

/* Bytes, mostly UTF-8; a zero follows the last one, which `size` does not count. */
typedef struct mstrain_text {
  const char* bytes;
  int64_t size;
} mstrain_text;

typedef struct mstrain_answer {
  mstrain_text prompt;
  mstrain_text text;     /* what the model wrote, without what ends it */
  mstrain_text expected; /* the line's `answer` */
  int64_t tokens;        /* of what it wrote, with what ends it */
  int32_t is_cut;        /* 1: it did not end within objective.grpo.answer_tokens */
} mstrain_answer;

/* All that is pointed to must live as long as the library does. The functions are called by one thread at a time. */
typedef struct mstrain_reward_api {
  uint32_t version; /* MSTRAIN_REWARD_VERSION */
  uint32_t size;    /* sizeof(mstrain_reward_api) */
  const char* name;

  /* Writes what each of `count` answers earns into rewards [count]: finite numbers. 0 for success; anything else ends the run with
   * what last_error() says. The same answers must earn the same, or a run that goes on differs from one that was not stopped. */
  int (*score)(const mstrain_answer* answers, int64_t count, double* rewards);
  const char* (*last_error)(void); /* or NULL */
} mstrain_reward_api;

const mstrain_reward_api* mstrain_reward(void);

#ifdef __cplusplus
}
#endif

#endif /* MSTRAIN_C_REWARD_H_ */
