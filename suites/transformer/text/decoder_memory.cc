// What decoding takes in memory, by the plans of its programs.
#include <algorithm>

#include "suites/transformer/text/decoder.h"
#include "suites/transformer/text/planned_memory.h"

namespace mstrain {

int64_t Decoder::bytes(int64_t sequences, int64_t prompt, int64_t capacity, Dtype dtype) const {
  const Context context = for_inference();
  const ContextScope scope(context);
  const int64_t t = bucket(prompt, sequences);
  const int64_t room = bucket(std::max(prompt, capacity), sequences);
  const TensorType by_sequence{Dtype::kI32, {sequences}};
  const PlannedMemory reading =
      planned_memory(*model_, dtype, {{Dtype::kI32, {sequences, t}}, by_sequence, by_sequence}, {},
                     [&](const Params& p, std::span<const Tensor> in) {
                       return flatten_tree(read(p, in[0], in[1], in[2], room));
                     });
  // Logits, then keys, then values.
  Types given(reading.results.begin() + 1, reading.results.end());
  const auto half = static_cast<ptrdiff_t>(given.size() / 2);
  const std::vector<bool> donated(given.size(), true);
  given.insert(given.end(), 3, by_sequence);
  const PlannedMemory writing = planned_memory(
      *model_, dtype, given, donated, [&](const Params& p, std::span<const Tensor> in) {
        const KeyValueCache cache{{in.begin(), in.begin() + half},
                                  {in.begin() + half, in.begin() + 2 * half}};
        return flatten_tree(write(p, cache, in[in.size() - 3], in[in.size() - 2], in.back()));
      });
  return reading.bytes + writing.bytes;
}

}  // namespace mstrain
