// state.bin, little-endian u64 unless said: "MSECSTA2", tables; per table rows, last step, tombstones, (id, step) each, length of the
// admission state, its bytes. Where rows learn at every step "MSECSTA3": behind these the past steps, (u32 step, f32 lr_scale) each.
#include <algorithm>
#include <cmath>

#include "embedding_cache/bytes.h"
#include "embedding_cache/commit.h"

namespace mstrain::embedding_cache {
namespace {

constexpr std::string_view kStateMagic = "MSECSTA2";
constexpr std::string_view kMagicWithPast = "MSECSTA3";

}  // namespace

std::string print_state(const std::vector<TableState>& tables) {
  const bool has_past = std::any_of(tables.begin(), tables.end(),
                                    [](const TableState& table) { return !table.past.empty(); });
  std::string out(has_past ? kMagicWithPast : kStateMagic);
  put(out, uint64_t{tables.size()});
  for (const TableState& table : tables) {
    put(out, table.rows);
    put(out, table.last_step);
    put(out, uint64_t{table.tombstones.size()});
    for (const auto& [id, step] : table.tombstones) {
      put(out, id);
      put(out, step);
    }
    put(out, uint64_t{table.admission.size()});
    out += table.admission;
    if (has_past) {
      put(out, uint64_t{table.past.size()});
      for (const PastStep& step : table.past) {
        put(out, step.step);
        put(out, step.lr_scale);
      }
    }
  }
  return out;
}

std::vector<TableState> parse_state(std::string_view bytes, const std::string& name) {
  ByteReader in(bytes, name);
  in.require(!bytes.starts_with("MSECSTA1"),
             "written in form 1 by an earlier version, this one reads form 2; `ec_tool export` of "
             "that version writes a file that `ec_tool import` of this one takes into a new "
             "directory");
  const bool has_past = bytes.starts_with(kMagicWithPast);
  in.require(has_past || bytes.starts_with(kStateMagic), "not the state of an embedding cache");
  in.take_bytes(kStateMagic.size());
  const auto count = in.take<uint64_t>();
  in.require(count <= 65535, "too many tables");
  std::vector<TableState> out(count);
  for (TableState& table : out) {
    table.rows = in.take<uint64_t>();
    table.last_step = in.take<uint64_t>();
    const uint64_t tombstones = in.take_count(16);
    for (uint64_t i = 0; i < tombstones; ++i) {
      const auto id = in.take<Id>();
      const auto step = in.take<uint64_t>();
      in.require(i == 0 || id > table.tombstones.back().first, "tombstones do not ascend");
      table.tombstones.emplace_back(id, step);
    }
    table.admission = in.take_text(in.take_count(1));
    const uint64_t past = has_past ? in.take_count(8) : 0;
    for (uint64_t i = 0; i < past; ++i) {
      const auto step = in.take<uint32_t>();
      in.require(step > (i == 0 ? 0 : table.past.back().step), "past steps do not ascend");
      table.past.push_back({step, in.take<float>()});
      in.require(std::isfinite(table.past.back().lr_scale), "a past step without a learning rate");
    }
  }
  in.require(in.left() == 0, "longer than it says");
  return out;
}

}  // namespace mstrain::embedding_cache
