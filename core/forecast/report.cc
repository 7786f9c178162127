#include "core/forecast/report.h"

#include <fmt/core.h>

#include "core/train/numbers.h"

namespace mstrain {
namespace {

std::vector<std::pair<const char*, double>> parts_of(const Breakdown& parts) {
  return {{"products", parts.products},
          {"attention", parts.attention},
          {"memory_bound", parts.memory_bound},
          {"tensor", parts.tensor},
          {"data", parts.data},
          {"pipeline_bubble", parts.pipeline_bubble},
          {"optimizer", parts.optimizer},
          {"exposed_communication", parts.exposed_communication}};
}

std::string gb(double bytes) { return gigabytes(static_cast<int64_t>(bytes)); }

std::string line_of(const Forecast& it, const std::string& unit, const std::string& why) {
  return fmt::format("  {:>9} {}s/s {:>8.4g} s {:>9}  {}{}\n", short_number(it.tokens_per_second),
                     unit, it.step_seconds, gb(it.peak_bytes()), it.layout.describe(),
                     why.empty() ? "" : ": " + why);
}

}  // namespace

OrderedJson to_json(const Forecast& forecast, const Cluster& cluster) {
  OrderedJson memory;
  for (const auto& [name, bytes] : forecast.largest().parts()) {
    memory[name] = static_cast<int64_t>(bytes);
  }
  OrderedJson breakdown;
  for (const auto& [name, seconds] : parts_of(forecast.breakdown)) {
    breakdown[name] = seconds;
  }
  return {{"fits", forecast.fits()},
          {"peak_bytes_per_rank", static_cast<int64_t>(forecast.peak_bytes())},
          {"memory", memory},
          {"step_seconds", forecast.step_seconds},
          {"tokens_per_second", forecast.tokens_per_second},
          {"tokens_per_second_per_device",
           forecast.tokens_per_second / static_cast<double>(cluster.ranks())},
          {"model_flops_utilization", forecast.utilization},
          {"breakdown", breakdown}};
}

std::string describe(const Forecast& forecast, const Cluster& cluster, const std::string& unit) {
  std::string out = fmt::format("{} x {}: {}\n", cluster.ranks(), cluster.device.name,
                                forecast.layout.describe());
  out += fmt::format(
      "  {:.4g} s a step of {} micro-batch{} a rank, {} {}s/s, {} a device, {:.1f} % "
      "of the peak\n",
      forecast.step_seconds, forecast.layout.micro_batches,
      forecast.layout.micro_batches == 1 ? "" : "es", short_number(forecast.tokens_per_second),
      unit, short_number(forecast.tokens_per_second / static_cast<double>(cluster.ranks())),
      100 * forecast.utilization);
  out += "time of a step\n";
  for (const auto& [name, seconds] : parts_of(forecast.breakdown)) {
    const std::string_view part(name);
    const bool is_hidden = part == "tensor" || part == "data";
    out += fmt::format("  {:<22}{:>10.4g} s {:>6.1f} %{}\n", name, seconds,
                       100 * seconds / forecast.step_seconds,
                       is_hidden && seconds > 0 ? "  of collectives, hidden or not" : "");
  }
  out += fmt::format("memory of {}, in bytes\n",
                     forecast.stages.size() > 1 ? "the rank that needs most" : "a rank");
  for (const auto& [name, bytes] : forecast.largest().parts()) {
    if (bytes > 0) {
      out += fmt::format("  {:<15}{:>20} {:>10}\n", name, grouped(static_cast<int64_t>(bytes)),
                         gb(bytes));
    }
  }
  out += fmt::format("  {:<15}{:>20} {:>10}  of {}\n", "total",
                     grouped(static_cast<int64_t>(forecast.peak_bytes())),
                     gb(forecast.peak_bytes()), gb(forecast.limit_bytes));
  if (forecast.stages.size() > 1) {
    out += "  by stage       ";
    for (const RankMemory& stage : forecast.stages) {
      out += fmt::format(" {:.1f}", stage.total() / 1e9);
    }
    out += " GB\n";
  }
  return out;
}

std::string describe(const SearchResult& result, const std::string& unit) {
  const Forecast* const best = result.best.empty() ? nullptr : result.best.data();
  std::string out = fmt::format("{} layouts were considered\n", grouped(result.considered));
  const auto list = [&](const char* title, const std::vector<Forecast>& forecasts) {
    if (!forecasts.empty()) {
      out += title;
    }
    for (const Forecast& it : forecasts) {
      out += line_of(it, unit, reason(it, best));
    }
  };
  list("best\n", result.best);
  list(best == nullptr ? "nearest to the memory that is there\n" : "faster, but they do not fit\n",
       result.too_large);
  list("others\n", result.slower);
  return out;
}

}  // namespace mstrain
