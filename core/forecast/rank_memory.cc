#include "core/forecast/rank_memory.h"

#include <algorithm>

namespace mstrain {
namespace {

double saved(const LaidModel& model, Region region) {
  return model.profile.regions[static_cast<size_t>(region)].saved.local(model.share.tensor,
                                                                        model.share.by_tokens) /
         model.share.context;
}

double most_beside(const LaidModel& model, Region region) {
  double most = 0;
  for (const DividedBytes& bytes : model.profile.regions[static_cast<size_t>(region)].beside) {
    most = std::max(most, bytes.local(model.share.tensor, model.share.by_tokens));
  }
  return most / model.share.context;
}

// What is put together of weights in parts: a block's, and those of what is next to it.
double gathered_layers(const LaidModel& model, int64_t rank) {
  const auto elements = [&](Region region) {
    return model.profile.regions[static_cast<size_t>(region)].parameters.local(model.share.tensor,
                                                                               false);
  };
  const double block = elements(Region::kBlock);
  double next = block;
  for (int64_t c : model.chunks_of_rank(rank)) {
    if (c == 0) {
      next = std::max(next, elements(Region::kFirst));
    }
    if (c == model.layout.chunks() - 1) {
      next = std::max(next, elements(Region::kLast));
    }
  }
  const HeldBytes& held = model.beside.held;
  return (block + next) * model.profile.parameter_bytes +
         static_cast<double>(held.largest_gathered) +
         static_cast<double>(held.gathered) / static_cast<double>(model.input.model.layers);
}

// Micro-batches times chunks that a rank keeps something for. Chunks of a rank are about equal.
double in_flight(const LaidModel& model, int64_t rank) {
  const RunLayout& layout = model.layout;
  const int passes =
      layout.pipeline == 1 ? 1
      : layout.own != nullptr
          ? model.own.in_flight[static_cast<size_t>(rank)]
          : most_in_flight(layout.schedule, static_cast<int>(layout.pipeline),
                           static_cast<int>(layout.virtual_pipeline),
                           static_cast<int>(layout.micro_batches), static_cast<int>(rank));
  return static_cast<double>(passes) / static_cast<double>(model.chunks_of_rank(rank).size());
}

void add_activations(const LaidModel& model, int64_t rank, RankMemory& out) {
  double mine = 0;  // saved by one micro-batch in all chunks of the rank
  const auto add = [&](Region region, double times) {
    mine += times * saved(model, region);
    out.transient = std::max(out.transient, most_beside(model, region));
  };
  for (int64_t c : model.chunks_of_rank(rank)) {
    add(Region::kBlock, model.blocks_of_chunk(c));
    if (c == 0) {
      add(Region::kFirst, 1);
    }
    if (c == model.layout.chunks() - 1) {
      add(Region::kLast, 1);
    }
  }
  out.activations = in_flight(model, rank) * mine * static_cast<double>(model.layout.copies);
}

// Where the state is reckoned already. `gathered`: what is put together of layers in parts, for a pass.
void add_besides(const LaidModel& model, int64_t rank, double gathered, RankMemory& out) {
  const auto& [held, evaluation] = model.beside;
  out.frozen = static_cast<double>(held.frozen);
  out.evaluation = evaluation > 0 ? evaluation + gathered : 0;
  out.weights = static_cast<double>(held.whole);
  if (held.whole_of_stages) {
    out.weights += model.parameters_beside(rank) * model.profile.parameter_bytes;
  }
  out.outside = static_cast<double>(held.outside);
  out.snapshot = held.copies ? out.parameters + out.optimizer : 0;
}

}  // namespace

std::vector<std::pair<const char*, double>> RankMemory::parts() const {
  return {{"parameters", parameters},
          {"frozen", frozen},
          {"gradients", gradients},
          {"optimizer", optimizer},
          {"activations", activations},
          {"transient", transient},
          {"communication", communication},
          {"batch", batch},
          {"evaluation", evaluation},
          {"weights", weights},
          {"outside", outside},
          {"snapshot", snapshot},
          {"reserved", reserved}};
}

double RankMemory::total() const {
  double sum = 0;
  for (const auto& [name, bytes] : parts()) {
    sum += bytes;
  }
  return sum;
}

RankMemory memory_of_rank(const LaidModel& model, int64_t rank, bool gathers_again) {
  const RunLayout& layout = model.layout;
  const Profile& profile = model.profile;
  const double elements = model.parameters_of_rank(rank);
  const double gradient = model.gradient_bytes();
  const auto ranks = static_cast<double>(layout.zero_ranks());
  const auto kept = [&](int64_t stage) { return layout.zero >= stage ? 1 / ranks : 1.0; };
  RankMemory out;
  out.parameters = elements * profile.parameter_bytes * kept(3);
  out.optimizer = elements * (profile.optimizer_bytes / profile.parameters) * kept(1);
  // Sums that ranks carry on in every turn are in parts, and whole for an update that is not.
  out.gradients = elements * gradient * kept(layout.reduction == ReductionOrder::kExact ? 1 : 2);
  add_activations(model, rank, out);
  const double gathered = layout.zero == 3 && layout.data > 1 ? gathered_layers(model, rank) : 0;
  if (layout.data * layout.context > 1) {
    out.communication += std::min(elements * gradient, 2 * layout.bucket_bytes);
  }
  if (gathered > 0) {
    out.communication += gathers_again ? gathered
                                       : elements * profile.parameter_bytes +
                                             static_cast<double>(model.beside.held.gathered);
  }
  if (layout.pipeline > 1) {
    out.communication += 4 * profile.boundary_bytes / model.share.context;
  }
  out.batch = profile.batch_bytes * static_cast<double>(layout.micro * layout.micro_batches) /
              model.share.context;
  add_besides(model, rank, gathered, out);
  out.reserved = model.input.cluster.device.reserved_gb * 1e9;
  return out;
}

bool gathers_again(const LaidModel& model) {
  if (model.layout.pipeline > 1 || model.layout.regather != Regather::kAuto) {
    return model.layout.pipeline > 1 || model.layout.regather == Regather::kAlways;
  }
  return memory_of_rank(model, 0, false).total() > model.input.limit_bytes;
}

}  // namespace mstrain
