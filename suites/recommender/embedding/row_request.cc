#include "suites/recommender/embedding/row_request.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace mstrain::recommender {
namespace {

using embedding_cache::Batch;
using embedding_cache::Id;

// Bags to be pooled, where they, their ids and their vectors are fewer numbers than the rows of their ids.
FieldBags bags_of(const Batch& batch, const TableKeys& keys, size_t field, size_t fields,
                  size_t width) {
  FieldBags out{.offsets = {0}, .ids = {}};
  for (size_t bag = field; bag + 1 < keys.field_offsets.size(); bag += fields) {
    const auto first = batch.inverse.begin();
    out.ids.insert(out.ids.end(), first + keys.field_offsets[bag],
                   first + keys.field_offsets[bag + 1]);
    out.offsets.push_back(static_cast<uint32_t>(out.ids.size()));
  }
  std::vector<uint32_t> distinct = out.ids;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const size_t bags = out.offsets.size() - 1;
  const bool is_less = bags * (width + 1) + out.ids.size() < distinct.size() * width;
  return is_less ? out : FieldBags();
}

}  // namespace

RowRequest request_of(const Placement& placement, size_t table, const TableSpec& spec, size_t width,
                      const TableKeys& keys, int64_t micro_batches) {
  const size_t samples = keys.sample_offsets.size() - 1;
  const size_t each = samples / static_cast<size_t>(micro_batches);
  const auto turns = static_cast<size_t>(micro_batches);
  struct Found {
    Id id;
    size_t group;  // owner, turn
  };
  RowRequest out;
  std::vector<Found> found;  // turn by turn, in the order of first occurrences
  out.batch.inverse.reserve(keys.ids.size());
  out.counts.assign(static_cast<size_t>(placement.ranks()) * turns, 0);
  embedding_cache::Dedup dedup;
  Batch of_turn;
  for (size_t turn = 0; turn < turns; ++turn) {
    const size_t begin = keys.sample_offsets[turn * each];
    const size_t end = keys.sample_offsets[(turn + 1) * each];
    dedup.run(std::span(keys.ids).subspan(begin, end - begin), of_turn);
    const auto before = static_cast<uint32_t>(found.size());
    for (const Id id : of_turn.unique) {
      const size_t group = static_cast<size_t>(placement.owner(table, id)) * turns + turn;
      found.push_back({id, group});
      ++out.counts[group];
    }
    for (const uint32_t u : of_turn.inverse) {
      out.batch.inverse.push_back(before + u);
    }
  }
  std::vector<size_t> next(out.counts.size());
  std::exclusive_scan(out.counts.begin(), out.counts.end(), next.begin(), size_t{0});
  std::vector<uint32_t> place(found.size());
  out.batch.unique.resize(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t to = next[found[i].group]++;
    out.batch.unique[to] = found[i].id;
    place[i] = static_cast<uint32_t>(to);
  }
  for (uint32_t& u : out.batch.inverse) {
    u = place[u];
  }
  out.samples = samples;
  for (const Placement::Whole& whole : placement.wholes(table)) {
    out.bags.push_back(bags_of(out.batch, keys, whole.field, spec.fields.size(), width));
  }
  return out;
}

}  // namespace mstrain::recommender
