#include "suites/reinforcement/env/rollout.h"

#include <fmt/ranges.h>

#include <cstring>

#include "core/base/error.h"
#include "core/io/safetensors.h"

namespace mstrain::reinforcement {
namespace {

struct Expected {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;     // -1: any number but 0
  std::vector<std::string> dims;  // how errors call them: "n", "4"
};

// Throws unless the file has the tensor; gives its shape.
std::vector<int64_t> checked(const SafetensorsFile& file, const Expected& expected) {
  const std::string wanted =
      fmt::format("{} [{}]", safetensors_name(expected.dtype), fmt::join(expected.dims, ", "));
  check(file.contains(expected.name), "{}: has no tensor {}; expected {}", file.name(),
        expected.name, wanted);
  const TensorEntry& entry = file.at(expected.name);
  bool fits = entry.dtype == expected.dtype && entry.shape.size() == expected.shape.size();
  for (size_t i = 0; fits && i < entry.shape.size(); ++i) {
    fits = expected.shape[i] < 0 ? entry.shape[i] > 0 : entry.shape[i] == expected.shape[i];
  }
  check(fits, "{}: {} is {} [{}], expected {}", file.name(), expected.name, entry.dtype_name,
        fmt::join(entry.shape, ", "), wanted);
  return entry.shape;
}

template <class T>
std::vector<T> read_all(const SafetensorsFile& file, const std::string& name) {
  const std::span<const std::byte> bytes = file.data(name);
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

template <class T>
void append(SafetensorsWriter& writer, const std::string& name, const std::vector<T>& values) {
  writer.append(name, std::as_bytes(std::span(values)));
}

void check_known(const SafetensorsFile& file) {
  const std::vector<std::string> known = {"state", "actions"};
  for (const TensorEntry& entry : file.entries()) {
    check(std::find(known.begin(), known.end(), entry.name) != known.end(),
          "{}: rollout takes no tensor {}{}; it takes state and actions", file.name(), entry.name,
          did_you_mean(entry.name, known));
  }
}

}  // namespace

void rollout(FileSystem& files, const RolloutRequest& request) {
  EnvConfig config;
  config.name = request.environment.name;
  config.library = request.environment.library;
  config.models = request.environment.models;
  config.time_limit = request.environment.time_limit;
  config.reset = ResetMode::kDisabled;
  const EnvSpec spec = make_env(config, 1)->spec();
  check(spec.state_size > 0, "{}: its states are no lists of numbers, which rollout begins with",
        spec.name);

  const SafetensorsFile file(files, request.input);
  check_known(file);
  const int64_t n = checked(
      file,
      {"state", Dtype::kF64, {-1, spec.state_size}, {"n", std::to_string(spec.state_size)}})[0];
  Expected actions{"actions",
                   spec.action.is_discrete() ? Dtype::kI64 : Dtype::kF64,
                   {-1, n},
                   {"t", std::to_string(n)}};
  const auto add_dim = [&](int64_t size) {
    actions.shape.push_back(size);
    actions.dims.push_back(std::to_string(size));
  };
  if (spec.agents > 1) {
    add_dim(spec.agents);
  }
  if (!spec.action.is_discrete()) {
    add_dim(spec.action.size());
  }
  const int64_t steps = checked(file, actions)[0];

  const auto state = read_all<double>(file, "state");
  std::vector<int64_t> discrete;
  std::vector<double> box;
  if (spec.action.is_discrete()) {
    discrete = read_all<int64_t>(file, "actions");
  } else {
    box = read_all<double>(file, "actions");
  }

  const int64_t agents = spec.agents, seen = spec.observation.size(), taken = spec.action.size();
  std::vector<float> observations(static_cast<size_t>(steps * n * agents * seen));
  std::vector<float> rewards(static_cast<size_t>(steps * n * agents));
  std::vector<uint8_t> terminated(static_cast<size_t>(steps * n));
  std::vector<uint8_t> truncated(static_cast<size_t>(steps * n));
  const std::unique_ptr<VectorEnv> env = make_env(config, n);
  try {
    env->set_states(state.data());
    for (int64_t t = 0; t < steps; ++t) {
      env->step({.discrete = discrete.empty() ? nullptr : discrete.data() + t * n * agents,
                 .box = box.empty() ? nullptr : box.data() + t * n * agents * taken},
                {.observations = observations.data() + t * n * agents * seen,
                 .rewards = rewards.data() + t * n * agents,
                 .terminated = terminated.data() + t * n,
                 .truncated = truncated.data() + t * n});
    }
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", file.name(), error.what()));
  }

  std::vector<int64_t> shape = {steps, n};
  if (agents > 1) {
    shape.push_back(agents);
  }
  std::vector<int64_t> wide = shape;
  wide.push_back(seen);
  SafetensorsWriter writer(files, request.output,
                           {{"observations", Dtype::kF32, wide},
                            {"rewards", Dtype::kF32, shape},
                            {"terminated", Dtype::kU8, {steps, n}},
                            {"truncated", Dtype::kU8, {steps, n}}});
  for (const TensorEntry& entry : writer.entries()) {
    if (entry.name == "observations") {
      append(writer, entry.name, observations);
    } else if (entry.name == "rewards") {
      append(writer, entry.name, rewards);
    } else {
      append(writer, entry.name, entry.name == "terminated" ? terminated : truncated);
    }
  }
  writer.finish();
}

}  // namespace mstrain::reinforcement
