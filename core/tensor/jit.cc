#include "core/tensor/jit.h"

#include "core/base/log.h"

namespace mstrain {
namespace {

ProgramCompiler installed_compiler = nullptr;

// Of text whose lines all end.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos;) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

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
  if (last.form.type != key.form.type) {
    return "the arguments are of other C++ types";
  }
  if (last.form.paths != key.form.paths) {
    return fmt::format("the arguments hold {} tensors under other names than before ({})",
                       key.types.size(), last.types.size());
  }
  if (last.form.statics != key.form.statics) {
    const std::vector<std::string> now = lines_of(key.form.statics);
    const std::vector<std::string> before = lines_of(last.form.statics);
    const auto [is, was] = std::mismatch(now.begin(), now.end(), before.begin(), before.end());
    return fmt::format("argument {} (was: {}); numbers are part of the program, tensors are not",
                       is == now.end() ? "list is shorter" : *is,
                       was == before.end() ? "absent" : *was);
  }
  for (size_t i = 0; i < key.types.size(); ++i) {
    if (!(last.types[i] == key.types[i])) {
      return fmt::format("argument {} is {}, was {}", lines_of(key.form.paths)[i],
                         to_string(key.types[i]), to_string(last.types[i]));
    }
  }
  return "the context changed (training, backend, threads, device or ranks)";
}

void JitCache::check_donated(int arguments) const {
  for (const int position : options_.donate) {
    check(position >= 0 && position < arguments,
          "{}: donate names argument {}, the call has {}, counted from 0", options_.name, position,
          arguments);
  }
}

JitCache::Entry& JitCache::find(
    std::span<const Tensor> leaves, const Form& form, const std::vector<bool>& donated,
    const std::function<Tensors(std::span<const Tensor>, std::shared_ptr<void>&)>& f) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined()) {
      fail("{}: argument {} is an empty tensor", options_.name, lines_of(form.paths)[i]);
    }
    if (!leaves[i].concrete()) {
      fail(
          "{}: argument {} of type {} was computed inside a traced function that has ended; return "
          "it from that function "
          "instead of keeping it in a variable outside",
          options_.name, lines_of(form.paths)[i], to_string(leaves[i].type()));
    }
  }
  const std::lock_guard lock(finding_);
  const Context& context = current_context();
  const auto matches = [&](const Key& key) {
    return key.training == context.training && key.batch_invariant == context.batch_invariant &&
           key.backend == context.backend && key.threads == context.num_threads() &&
           key.device == &context.device() && key.ranks == context.ranks.get() &&
           key.form == form &&
           std::equal(
               key.types.begin(), key.types.end(), leaves.begin(), leaves.end(),
               [](const TensorType& type, const Tensor& leaf) { return type == leaf.type(); });
  };
  for (auto& [key, entry] : entries_) {
    if (matches(key)) {
      return entry;
    }
  }
  Key key{form,
          {},
          context.training,
          context.batch_invariant,
          context.backend,
          context.num_threads(),
          &context.device(),
          context.ranks.get()};
  for (const Tensor& leaf : leaves) {
    key.types.push_back(leaf.type());
  }
  last_reason_ = reason_for(key);
  if (!entries_.empty() && options_.tells) {
    log_info("{} is compiled again: {}", options_.name, last_reason_);
  }
  std::shared_ptr<void> results;
  Tensors captures;
  const GraphPtr graph = trace_program(
      key.types, [&](std::span<const Tensor> traced) { return f(traced, results); }, &captures);
  CompileOptions options{options_.level, options_.rules_off, false, donated, options_.loss_chunks};
  options.donated.resize(graph->inputs().size(), false);
  options.keeps_results = options_.keeps_results;
  std::unique_ptr<Program> program = compile(*graph, options);
  ++compile_count_;
  Entry& entry = entries_
                     .emplace_back(std::piecewise_construct, std::forward_as_tuple(std::move(key)),
                                   std::tuple<>())
                     .second;
  entry.program_ = std::move(program);
  entry.captures_ = std::move(captures);
  entry.form_ = std::move(results);
  return entry;
}

Tensors JitCache::Entry::run(Tensors leaves) {
  leaves.insert(leaves.end(), captures_.begin(), captures_.end());
  const std::lock_guard lock(running_);
  return program_->run(std::move(leaves));
}

int64_t JitCache::compile_count() const {
  const std::lock_guard lock(finding_);
  return compile_count_;
}

std::string JitCache::last_reason() const {
  const std::lock_guard lock(finding_);
  return last_reason_;
}

}  // namespace mstrain
