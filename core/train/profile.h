// Where the time of training steps went, kernel by kernel: a trace for people to look at, and totals for the report.
// Format: Trace Event Format (Google), the JSON object form with complete events; chrome://tracing and
// https://ui.perfetto.dev open it. The totals are its `otherData`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/schedule/timeline.h"
#include "core/tensor/jit.h"
#include "core/train/machine_limits.h"
#include "core/train/pipeline.h"

namespace mstrain {

inline constexpr const char* kProfileFile = "profile.json";

struct ProfiledStep {
  int64_t step = 0;
  int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  size_t kernels = 0;          // of all recorded kernels, those up to this one's end
};

// Of an operation, a layer or a part of the step, for a mean step.
struct ProfileTotal {
  std::string name;
  double calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

// What a rank recorded; on rank 0 what all of them did.
struct RankRecord {
  std::vector<ProfiledStep> steps;
  std::vector<KernelTime> kernels;
  std::vector<ActionTime> actions;    // in a pipeline
  std::vector<CopyTime> copies;       // between the host and a device with memory of its own
  std::shared_ptr<const Json> texts;  // that kernels name, where it came from elsewhere
};

// Where a rank spent a mean step, in seconds.
struct RankTotal {
  double products = 0;   // kernels of products and attention, with what is fused to them
  double others = 0;     // other kernels
  double exchanges = 0;  // it waited, or worked, for exchanges that all ranks had come to
  double waiting = 0;    // it waited for ranks that had not
  double bubbles = 0;    // it waited for other stages of the pipeline to do their work
  double hidden = 0;     // exchanges went on under its kernels: no part of the step
};

struct ProfileSummary {
  int64_t first_step = 0;
  int64_t steps = 0;
  int64_t threads = 0;
  double step_seconds = 0;  // with what is outside kernels: taking a batch, dispatch
  MachineLimits limits;
  // Each sorted by time, longest first; the calls of each list are all kernels of a step.
  std::vector<ProfileTotal> parts;       // forward, backward, optimizer, other
  std::vector<ProfileTotal> operations;  // dot_general, layer_norm, …
  std::vector<ProfileTotal> layers;      // scopes, with `*` for numbers: transformer.h.*.mlp.c_fc
  std::vector<RankTotal> ranks;          // by rank, where there are several
  // Of these, what they do in a step: as the plan has it, where there is one, and in the step of median length.
  std::optional<Timeline> planned, measured;
};

// "forward", "backward" or "optimizer"; "other" for kernels of the forward part outside every scope.
std::string_view part_of(const KernelTime& kernel);
// The layer's scope and the operation: "transformer.h.3.mlp.c_fc dot_general".
std::string display_name(const KernelTime& kernel);

// `steps` lie one after the other, `kernels` in the order in which they ran, all within the steps.
ProfileSummary summarise(std::span<const ProfiledStep> steps, std::span<const KernelTime> kernels,
                         int64_t threads, const MachineLimits& limits);

OrderedJson to_json(const ProfileSummary& summary);

// The whole file: one event a line, times in microseconds from the first event's begin. A rank is a process in it.
std::string trace_text(std::string_view run, const ProfileSummary& summary,
                       std::span<const RankRecord> ranks);

// The totals in the profile at `path`; nothing where there is none. Of a file that is damaged or that another program
// wrote, it logs a warning and takes nothing.
std::optional<ProfileSummary> read_profile(FileSystem& files, const std::string& path);

}  // namespace mstrain
