#include "core/forecast/step_work.h"

#include <algorithm>

namespace mstrain {
namespace {

// Of a pass's collectives over copies, the share that the first one is.
constexpr double kUncovered = 0.15;
// Of the work beside an exchange: while both go on, they share memory and processors.
constexpr double kHideable = 0.8;

}  // namespace

StepWork::StepWork(const LaidModel& model, bool gathers_again)
    : model_(model),
      layout_(model.layout),
      profile_(model.profile),
      share_(model.share),
      cluster_(model.input.cluster),
      crowding_(static_cast<double>(cluster_.crowding())),
      along_tensor_(group_of(cluster_, layout_.tensor, 1)),
      along_context_(group_of(cluster_, layout_.context, layout_.tensor)),
      along_data_(group_of(cluster_, layout_.data * layout_.context, layout_.tensor)),
      along_zero_(group_of(cluster_, layout_.zero_ranks(), layout_.tensor * layout_.context)),
      along_replicas_(group_of(cluster_, layout_.zero_replicas(),
                               layout_.tensor * layout_.context * layout_.zero_ranks())),
      of_ranks_(static_cast<size_t>(layout_.pipeline)) {
  for (const WorkItem& item : profile_.items) {
    const Pass pass = !item.backward ? kF : item.weights ? kW : kB;
    add(regions_[static_cast<size_t>(item.region)][pass], item);
  }
  for (ChunkWork& region : regions_) {
    for (PassTimes& pass : region) {
      pass.exposed = exposed(pass);
    }
  }
  for (int64_t c = 0; c < layout_.chunks(); ++c) {
    chunks_.push_back(work_of_chunk(c, gathers_again));
    for (const PassTimes& pass : chunks_.back()) {
      of_ranks_[static_cast<size_t>(model.rank_of_chunk(c))] +=
          static_cast<double>(layout_.micro_batches) * pass;
    }
  }
  slowest_ =
      std::max_element(of_ranks_.begin(), of_ranks_.end(),
                       [](const PassTimes& a, const PassTimes& b) { return a.all() < b.all(); }) -
      of_ranks_.begin();
}

void StepWork::add(PassTimes& pass, const WorkItem& item) const {
  const double count = item.count * static_cast<double>(layout_.copies);
  switch (item.kind) {
    case WorkKind::kProduct:
      pass.products += count * seconds_of(cluster_.device, item, share_);
      return;
    case WorkKind::kAttention:
      pass.attention += count * seconds_of(cluster_.device, item, share_);
      // Keys and values of the other ranks pass by: half of what attention reads and writes.
      if (layout_.context > 1) {
        pass.tensor +=
            count * all_gather_seconds(cluster_, along_context_, item.bytes / 2 / share_.tensor);
      }
      return;
    case WorkKind::kMemory:
      pass.memory += count * seconds_of(cluster_.device, item, share_);
      return;
    case WorkKind::kReduce:
      if (layout_.tensor > 1) {
        pass.tensor +=
            count * all_reduce_seconds(cluster_, along_tensor_, item.bytes / share_.context);
      }
      return;
    case WorkKind::kGather:
      if (layout_.tensor > 1 && share_.by_tokens) {
        pass.tensor +=
            count * all_gather_seconds(cluster_, along_tensor_, item.bytes / share_.context);
      }
      return;
  }
}

// Copies hide their collectives under each other's work, but for the first of a pass, which has nothing to hide under. A product
// that is cut hides its own.
double StepWork::exposed(const PassTimes& pass) const {
  if (layout_.copies > 1) {
    return std::max(pass.tensor / static_cast<double>(layout_.copies) * kUncovered,
                    pass.tensor - pass.work());
  }
  if (layout_.overlap.tensor) {
    return std::max(pass.tensor / std::max(2.0, share_.tensor), pass.tensor - pass.products);
  }
  return pass.tensor;
}

StepWork::ChunkWork StepWork::work_of_chunk(int64_t c, bool gathers_again) const {
  ChunkWork out;
  for (size_t pass = 0; pass < kPasses; ++pass) {
    out[pass] = model_.blocks_of_chunk(c) * regions_[static_cast<size_t>(Region::kBlock)][pass];
    if (c == 0) {
      out[pass] += regions_[static_cast<size_t>(Region::kFirst)][pass];
    }
    if (c == layout_.chunks() - 1) {
      out[pass] += regions_[static_cast<size_t>(Region::kLast)][pass];
    }
    if (layout_.zero == 3 && layout_.data > 1) {
      // Parameters are gathered while the layer before is computed.
      const double gather =
          pass == kF || (pass == kB && gathers_again)
              ? all_gather_seconds(cluster_, along_zero_,
                                   model_.parameters_of_chunk(c) * profile_.parameter_bytes)
              : 0;
      const double hidden = layout_.overlap.parameters ? out[pass].all() * kHideable : 0;
      out[pass].data += gather;
      // The first layer's hide under nothing.
      const double layers = model_.blocks_of_chunk(c);
      const double first = gather / std::max(1.0, layers);
      out[pass].exposed += std::max(first, gather - hidden);
    }
  }
  return out;
}

std::vector<ChunkTimes> StepWork::chunk_times() const {
  const double bytes = profile_.boundary_bytes * static_cast<double>(layout_.copies) /
                       share_.context / (share_.by_tokens ? share_.tensor : 1);
  const double send =
      send_seconds(cluster_, layout_.tensor * layout_.context * layout_.data, bytes);
  std::vector<ChunkTimes> out;
  for (const ChunkWork& chunk : chunks_) {
    out.push_back({chunk[kF].all(), chunk[kB].all(), chunk[kW].all(), send, send});
  }
  return out;
}

std::pair<double, double> StepWork::data_seconds(int64_t r) const {
  if (layout_.data * layout_.context == 1) {
    return {0, 0};
  }
  const double elements = model_.parameters_of_rank(r);
  const double gradients = elements * model_.gradient_bytes();
  const double scatter = reduce_scatter_seconds(cluster_, along_data_, gradients);
  // What is kept in parts is exchanged after every micro-batch, and what is added up in their order.
  const bool every_turn = layout_.zero >= 2 || layout_.reduction == ReductionOrder::kExact;
  const double times = every_turn ? static_cast<double>(layout_.micro_batches) : 1;
  const double parameters =
      layout_.zero == 0 ? scatter
      : layout_.zero == 3
          ? 0
          : all_gather_seconds(cluster_, along_zero_, elements * profile_.parameter_bytes);
  double backward = 0;
  double forward = 0;
  for (int64_t c : model_.chunks_of_rank(r)) {
    const ChunkWork& chunk = chunks_[static_cast<size_t>(c)];
    backward += chunk[kB].work() + chunk[kW].work();
    forward += chunk[kF].work();
  }
  const double last = std::min(1.0, layout_.bucket_bytes / gradients) * scatter;
  double exposed = 0;
  if (layout_.overlap.gradients) {
    const double hidden = backward * kHideable;
    const double whole = layout_.zero == 0 ? parameters : 0;  // sums, after the last turn
    exposed +=
        (times - 1) * std::max(last, scatter - hidden) + std::max(last, scatter + whole - hidden);
  } else {
    exposed += times * scatter + (layout_.zero == 0 ? parameters : 0);
  }
  if (layout_.zero == 1 || layout_.zero == 2) {
    exposed +=
        layout_.overlap.parameters ? std::max(last, parameters - forward * kHideable) : parameters;
  }
  // What each replica added up of the gradients' parts, once all is added up.
  const double shares =
      layout_.zero == 0 ? 0
                        : all_gather_seconds(cluster_, along_replicas_,
                                             gradients / static_cast<double>(layout_.zero_ranks()));
  return {times * scatter + parameters + shares, exposed + shares};
}

double StepWork::optimizer_seconds(int64_t r) const {
  const double ranks = layout_.zero >= 1 ? static_cast<double>(layout_.zero_ranks()) : 1;
  const double share = model_.parameters_of_rank(r) / profile_.parameters / ranks;
  return crowding_ * (profile_.update_bytes * share /
                          (cluster_.device.memory_gbps * 1e9 * cluster_.device.achieved.memory) +
                      profile_.update_kernels * cluster_.device.launch_us * 1e-6 /
                          static_cast<double>(layout_.pipeline));
}

}  // namespace mstrain
