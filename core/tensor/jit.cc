#include "core/tensor/jit.h"

#include "core/base/log.h"

namespace mstrain {
namespace {

ProgramCompiler installed_compiler = nullptr;

}  // namespace

void install_compiler(ProgramCompiler compiler) { installed_compiler = compiler; }

std::unique_ptr<Program> compile(const Graph& graph, const CompileOptions& options) {
  check(installed_compiler != nullptr, "no compiler is linked into this program");
  return installed_compiler(graph, options);
}

std::string JitCache::reason_for(const Key& key) const {
  if (entries_.empty()) {
    return "first call";
  }
  const Key& last = entries_.back().first;
  if (last.paths != key.paths) {
    return fmt::format("the arguments hold {} tensors under other names than before ({})",
                       key.paths.size(), last.paths.size());
  }
  for (size_t i = 0; i < key.types.size(); ++i) {
    if (!(last.types[i] == key.types[i])) {
      return fmt::format("argument {} is {}, was {}", key.paths[i], to_string(key.types[i]),
                         to_string(last.types[i]));
    }
  }
  return "the context changed (training, backend or threads)";
}

JitCache::Entry& JitCache::find(
    std::span<const Tensor> leaves, const std::vector<std::string>& paths,
    const std::vector<bool>& donated,
    const std::function<Tensors(std::span<const Tensor>, std::shared_ptr<void>&)>& f) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    check(static_cast<bool>(leaves[i]), "{}: argument {} is an empty tensor", options_.name,
          paths[i]);
    check(leaves[i].concrete(),
          "{}: argument {} of type {} was computed inside a traced function that has ended; return "
          "it from that function "
          "instead of keeping it in a variable outside",
          options_.name, paths[i], to_string(leaves[i].type()));
  }
  const Context& context = current_context();
  const auto matches = [&](const Key& key) {
    return key.training == context.training && key.backend == context.backend &&
           key.threads == context.num_threads() && key.paths == paths &&
           std::equal(
               key.types.begin(), key.types.end(), leaves.begin(), leaves.end(),
               [](const TensorType& type, const Tensor& leaf) { return type == leaf.type(); });
  };
  for (auto& [key, entry] : entries_) {
    if (matches(key)) {
      return entry;
    }
  }
  Key key{paths, {}, context.training, context.backend, context.num_threads()};
  for (const Tensor& leaf : leaves) {
    key.types.push_back(leaf.type());
  }
  last_reason_ = reason_for(key);
  if (!entries_.empty()) {
    log_info("{} is compiled again: {}", options_.name, last_reason_);
  }
  Entry entry;
  const GraphPtr graph = trace_program(
      key.types, [&](std::span<const Tensor> traced) { return f(traced, entry.form); },
      &entry.captures);
  CompileOptions options{options_.level, options_.rules_off, false, donated, options_.loss_chunks};
  options.donated.resize(graph->inputs().size(), false);
  entry.program = compile(*graph, options);
  ++compile_count_;
  entries_.emplace_back(std::move(key), std::move(entry));
  return entries_.back().second;
}

}  // namespace mstrain
