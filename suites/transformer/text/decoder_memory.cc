// What decoding takes in memory, by the plans of its programs.
#include <algorithm>

#include "core/tensor/jit.h"
#include "core/tensor/tree.h"
#include "suites/transformer/text/decoder.h"

namespace mstrain {

int64_t Decoder::bytes(int64_t sequences, int64_t prompt, int64_t capacity, Dtype dtype) const {
  const Context context = for_inference();
  const ContextScope scope(context);
  Params form;
  Types types;
  for (const ParamSpec& spec : model_->specs()) {
    form.set(spec.name, Tensor());
    types.push_back({dtype, spec.type.shape});
  }
  const size_t weights = types.size();
  const int64_t t = bucket(prompt, sequences);
  const int64_t room = bucket(std::max(prompt, capacity), sequences);
  const TensorType by_sequence{Dtype::kI32, {sequences}};
  const auto planned = [&](const Types& given, const std::vector<bool>& donated, const auto& f) {
    Types all = types;
    all.insert(all.end(), given.begin(), given.end());
    Tensors captures;
    const GraphPtr graph = trace_program(
        all,
        [&](std::span<const Tensor> in) {
          return flatten_tree(f(with_leaves(form, in.first(weights)), in.subspan(weights)));
        },
        &captures);
    CompileOptions options;
    options.donated.assign(weights, false);
    options.donated.insert(options.donated.end(), donated.begin(), donated.end());
    options.donated.resize(graph->inputs().size(), false);
    return std::pair(graph, compile(*graph, options)->memory());
  };
  const auto [graph, reading] = planned({{Dtype::kI32, {sequences, t}}, by_sequence, by_sequence},
                                        {}, [&](const Params& p, std::span<const Tensor> in) {
                                          return read(p, in[0], in[1], in[2], room);
                                        });
  const Types kept = graph->types(graph->outputs());  // logits, keys, values
  Types given(kept.begin() + 1, kept.end());
  const size_t tensors = given.size();
  given.insert(given.end(), 2, by_sequence);
  const auto [unused, writing] = planned(
      given, std::vector<bool>(tensors, true), [&](const Params& p, std::span<const Tensor> in) {
        const KeyValueCache cache{{in.begin(), in.begin() + static_cast<ptrdiff_t>(tensors / 2)},
                                  {in.begin() + static_cast<ptrdiff_t>(tensors / 2),
                                   in.begin() + static_cast<ptrdiff_t>(tensors)}};
        return write(p, cache, in[tensors], in[tensors + 1]);
      });
  return reading.outputs + reading.arena + writing.outputs + writing.arena;
}

}  // namespace mstrain
