#include "suites/run/preflight.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/train/numbers.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

constexpr double kHopeless = 1000;   // times the memory that is there
constexpr double kMostBytes = 1e16;  // whatever is said to be there

std::string amount(double bytes) {
  return bytes < 1e15 ? gigabytes(static_cast<int64_t>(bytes))
                      : fmt::format("{:.2g} PB", bytes / 1e15);
}

}  // namespace

void refuse_absurd(const ModelRun& run, int64_t limit) {
  const double most = std::min(kHopeless * static_cast<double>(limit), kMostBytes);
  const std::string there = amount(static_cast<double>(limit));
  const LeastSize least = run.least_size();
  const double weights = least.parameters * sizeof(float);
  if (weights > most) {
    throw PlanError(
        fmt::format("the plan is impossible: {:.3g} parameters take {} before anything else, but "
                    "{} are there (memory.limit_gb); see {}",
                    least.parameters, amount(weights), there, least.model_keys));
  }
  if (least.sample_bytes > most) {
    throw PlanError(
        fmt::format("the plan is impossible: {} take {} before anything else, but {} "
                    "are there (memory.limit_gb); see batch.global",
                    least.samples, amount(least.sample_bytes), there));
  }
}

std::optional<int64_t> look_ahead(FileSystem& files, ModelRun& run, const YamlNode& tree,
                                  Findings& findings) {
  const std::shared_ptr<const Network> network = run.network();
  std::optional<int64_t> ids;
  // False where `what` failed, and a plan can be made without it.
  const auto opens = [&](const auto& what) {
    try {
      what();
      return true;
    } catch (const ConfigError&) {
      throw;
    } catch (const Error& error) {
      if (!network->ids() && !ids) {
        throw;
      }
      findings.emplace_back(error.what());
      return false;
    }
  };
  if (opens([&] { ids = run.known_ids(files, tree); })) {
    opens([&] {
      run.open_data(files, tree, {});
      ids = run.data_ids();
    });
  }
  if (const auto from = begins_with(tree)) {
    try {
      check_initial_params(files, open_model(files, *from));
    } catch (const Error& error) {
      findings.push_back(
          fmt::format("{}: {}", config_where(tree, "model.init.from"), error.what()));
    }
  }
  find_unwritable_output(files, run.train, tree, findings);
  return ids;
}

}  // namespace mstrain
