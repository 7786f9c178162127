// state.bin, little-endian u64 unless said: "MSECSTA1", tables; per table rows, last step, tombstones, (id, step) each, length of the
// admission state, its bytes.
#include <cstring>

#include "core/base/error.h"
#include "embedding_cache/commit.h"

namespace mstrain::embedding_cache {
namespace {

constexpr std::string_view kMagic = "MSECSTA1";

void put(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string print_state(const std::vector<TableState>& tables) {
  std::string out(kMagic);
  put(out, tables.size());
  for (const TableState& table : tables) {
    put(out, table.rows);
    put(out, table.last_step);
    put(out, table.tombstones.size());
    for (const auto& [id, step] : table.tombstones) {
      put(out, id);
      put(out, step);
    }
    put(out, table.admission.size());
    out += table.admission;
  }
  return out;
}

std::vector<TableState> parse_state(std::string_view bytes, const std::string& name) {
  const auto require = [&](bool condition, const char* message) {
    if (!condition) {
      throw IoError(fmt::format("{}: {}", name, message));
    }
  };
  const auto take = [&] {
    require(bytes.size() >= 8, "cut short");
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), 8);
    bytes.remove_prefix(8);
    return value;
  };
  require(bytes.starts_with(kMagic), "not the state of an embedding cache");
  bytes.remove_prefix(kMagic.size());
  const uint64_t count = take();
  require(count <= 65535, "too many tables");
  std::vector<TableState> out(count);
  for (TableState& table : out) {
    table.rows = take();
    table.last_step = take();
    const uint64_t tombstones = take();
    require(tombstones <= bytes.size() / 16, "cut short");
    for (uint64_t i = 0; i < tombstones; ++i) {
      const Id id = take();
      const uint64_t step = take();
      require(i == 0 || id > table.tombstones.back().first, "tombstones do not ascend");
      table.tombstones.emplace_back(id, step);
    }
    const uint64_t length = take();
    require(length <= bytes.size(), "cut short");
    table.admission = bytes.substr(0, length);
    bytes.remove_prefix(length);
  }
  require(bytes.empty(), "longer than it says");
  return out;
}

}  // namespace mstrain::embedding_cache
