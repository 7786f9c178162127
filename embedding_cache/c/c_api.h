/* The embedding cache for other languages: plain types. Library: libmstrain_embedding_cache_c, which exports these functions alone.
 *
 * Functions that return int give 0, or -1 after an error whose text ec_describe(NULL, "error", ...) gives to the thread that made the call.
 * Caches and readers may be used by several threads at once; a ticket by one at a time, except that several may ec_gather it. Ids are any 64
 * bits: a caller with signed ones passes them as they are. */
#ifndef MSTRAIN_EMBEDDING_CACHE_C_API_H_
#define MSTRAIN_EMBEDDING_CACHE_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ec_cache ec_cache;
typedef struct ec_ticket ec_ticket;
typedef struct ec_reader ec_reader;

/* `options`: YAML as in a configuration file. `commit`: 0 for the newest, else to resume from exactly that one. NULL after an error. */
ec_cache* ec_open(const char* options, uint64_t commit);
void ec_close(ec_cache* cache); /* after its tickets; NULL is allowed */

/* Tells a batch that will be prefetched later, in the order of the prefetches. */
int ec_announce(ec_cache* cache, const char* table, const uint64_t* ids, size_t count);
/* Starts to bring the rows of ids[count] into memory. `training`: 1 to learn, 0 to read. NULL after an error. */
ec_ticket* ec_prefetch(ec_cache* cache, const char* table, const uint64_t* ids, size_t count,
                       uint64_t step, int training);
int ec_wait(ec_cache* cache, ec_ticket* ticket);
/* Weights of each position to out[count * stride]; `stride` in floats, at least the width of a row. */
int ec_gather(ec_cache* cache, const ec_ticket* ticket, float* out, size_t stride);
/* gradients[count * width], learned with the optimizers of the options, learning rates but FTRL's times `lr_scale`. */
int ec_update(ec_cache* cache, ec_ticket* ticket, const float* gradients, size_t floats,
              float lr_scale);
/* The same of bags of positions: bag b is positions offsets[b] to offsets[b + 1], of bags + 1 offsets. `pooling`: 0 sums, 1 means, 2 maxima.
 * weights[positions] of sums; NULL: 1. */
int ec_gather_bags(ec_cache* cache, const ec_ticket* ticket, const uint64_t* offsets, size_t bags,
                   int pooling, const float* weights, float* out, size_t stride);
int ec_update_bags(ec_cache* cache, ec_ticket* ticket, const uint64_t* offsets, size_t bags,
                   int pooling, const float* weights, const float* gradients, size_t floats,
                   float lr_scale);
/* The ticket is gone, whatever is returned. One of training without an update gives its batch back: a trainer that stops releases those that it fetched
 * ahead, and commits the step that has learned last. */
int ec_release(ec_cache* cache, ec_ticket* ticket);

/* Commits everything learned up to `step` with `blob`; the id goes to *commit unless that is NULL. */
int ec_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
              uint64_t* commit);
/* The same in parts: started, it is written while training goes on; durable when ec_wait_commit has returned; confirmed, older ones go (which
 * waits likewise). */
int ec_start_commit(ec_cache* cache, uint64_t step, const void* blob, size_t blob_bytes,
                    uint64_t* commit);
int ec_wait_commit(ec_cache* cache, uint64_t commit);
int ec_confirm_commit(ec_cache* cache, uint64_t commit);

/* Forgets rows that no update has touched for their table's ttl_steps; how many, unless `rows` is NULL. */
int ec_evict(ec_cache* cache, uint64_t step, uint64_t* rows);
/* What changed after commit `since` (0: everything) to a file; `weights_only`: without optimizer state. */
int ec_export_delta(ec_cache* cache, uint64_t since, const char* path, int weights_only);
/* Takes over such a file with optimizer state, one of everything in place of all rows. */
int ec_import_delta(ec_cache* cache, const char* path);

/* Text about the cache: "stats" (JSON), "digest", "blob" (of the commit resumed from), "commit" and "step" (numbers), "options" (YAML),
 * "width NAME" (floats of a row of a table); and "error" with cache NULL. Copies at most `capacity` bytes with an ending zero byte to
 * `out`; returns the length without it, or -1. */
int64_t ec_describe(ec_cache* cache, const char* what, char* out, size_t capacity);

/* Serves the weights of a commit, while another process trains if need be. `commit`: 0 for the newest; `host_rows` of each table are kept in
 * memory. NULL after an error. */
ec_reader* ec_reader_open(const char* directory, uint64_t commit, uint64_t host_rows,
                          int read_threads);
void ec_reader_close(ec_reader* reader); /* NULL is allowed */
/* Weights of ids[i] to out[i * stride]; found[i], unless `found` is NULL, is 1 where there is a row. */
int ec_reader_lookup(ec_reader* reader, const char* table, const uint64_t* ids, size_t count,
                     float* out, size_t stride, uint8_t* found);
int ec_reader_apply_delta(ec_reader* reader, const char* path);
/* To a commit, or with 0 to the newest where that is of a later step. *moved, unless NULL: whether it did. */
int ec_reader_move_to(ec_reader* reader, uint64_t commit, int* moved);
/* "stats" (JSON), "commit", "step", "width NAME"; as ec_describe. */
int64_t ec_reader_describe(ec_reader* reader, const char* what, char* out, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
