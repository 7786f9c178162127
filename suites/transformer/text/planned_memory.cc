#include "suites/transformer/text/planned_memory.h"

namespace mstrain {

PlannedMemory planned_memory(
    const CausalModel& model, Dtype dtype, const Types& inputs, const std::vector<bool>& donated,
    const std::function<Tensors(const Params&, std::span<const Tensor>)>& f) {
  Params form;
  Types types;
  for (const ParamSpec& spec : model.specs()) {
    form.set(spec.name, Tensor());
    types.push_back({dtype, spec.type.shape});
  }
  const size_t weights = types.size();
  types.insert(types.end(), inputs.begin(), inputs.end());
  Tensors captures;
  const GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> in) {
        return f(with_leaves(form, in.first(weights)), in.subspan(weights));
      },
      &captures);
  CompileOptions options;
  options.donated.assign(weights, false);
  options.donated.insert(options.donated.end(), donated.begin(), donated.end());
  options.donated.resize(graph->inputs().size(), false);
  const ProgramMemory memory = compile(*graph, options)->memory();
  return {graph->types(graph->outputs()), memory.outputs + memory.arena};
}

}  // namespace mstrain
