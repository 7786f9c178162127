/* The embedding cache for other languages: ten functions, plain types. Library: libmstrain_embedding_cache_c.
 *
 * Functions that return int give 0, or -1 after an error whose text ec_describe(NULL, "error", ...) gives to the thread that made the call.
 * Handles are used by one thread at a time, except that several threads may ec_gather one ticket. */
#ifndef MSTRAIN_EMBEDDING_CACHE_C_API_H_
#define MSTRAIN_EMBEDDING_CACHE_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ec_cache ec_cache;
typedef struct ec_ticket ec_ticket;

/* `options`: YAML as in a configuration file. `commit`: 0 for the newest, else to resume from exactly that one. NULL after an error. */
ec_cache* ec_open(const char* options, uint64_t commit);
void ec_close(ec_cache* cache); /* after its tickets; NULL is allowed */

/* Starts to bring the rows of ids[count] into memory. `training`: 1 to learn, 0 to read. NULL after an error. */
ec_ticket* ec_prefetch(ec_cache* cache, const char* table, const uint64_t* ids, size_t count,
                       uint64_t step, int training);
int ec_wait(ec_cache* cache, ec_ticket* ticket);
/* Weights of each position to out[count * stride]; `stride` in floats, at least the width of a row. */
int ec_gather(ec_cache* cache, const ec_ticket* ticket, float* out, size_t stride);
/* gradients[count * width], learned with the optimizers of the options, learning rates times `lr_scale`. */
int ec_update(ec_cache* cache, ec_ticket* ticket, const float* gradients, size_t floats,
              float lr_scale);
int ec_release(ec_cache* cache, ec_ticket* ticket); /* the ticket is gone, whatever is returned */

/* Commits everything learned up to `step` with `blob`; the id goes to *commit unless that is NULL. */
int ec_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
              uint64_t* commit);
/* What changed after commit `since` (0: everything) to a file; `weights_only`: without optimizer state. */
int ec_export_delta(ec_cache* cache, uint64_t since, const char* path, int weights_only);
/* Text about the cache: "stats" (JSON), "digest", "blob" (of the commit resumed from), "commit" and "step" (numbers), "options" (YAML),
 * "width NAME" (floats of a row of a table); and "error" with cache NULL. Copies at most `capacity` bytes with an ending zero byte to
 * `out`; returns the length without it, or -1. */
int64_t ec_describe(ec_cache* cache, const char* what, char* out, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
