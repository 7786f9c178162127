// What of the text of a group adds up: sums of columns and of everything, by blocks, which a second kernel adds.
#pragma once

#include "core/backends/cuda/group_printer.h"

namespace mstrain::cuda {

class GroupSums : public GroupPrinter {
 public:
  using GroupPrinter::GroupPrinter;

 protected:
  // In the kernel of the group: of several teams, memory for their sums of columns, one after another; sums that are nothing yet; a
  // block's sums, to where the second kernel finds them, or to the results where there is but one block.
  void declare_shared_sums();
  void print_accumulators();
  void print_sums();
  // The second kernel: a block for each total, and for every 32 columns of each sum of columns. With its workspace.
  void print_finish();

 private:
  const std::string& sum_type(const Sink& sink) const {
    static const std::string kDouble = "double";
    return sink.kind == Sink::Kind::kSumAll ? kDouble : term(sink.term).type;
  }

  int64_t bytes_of_sum(const Sink& sink) const {
    return (sink.kind == Sink::Kind::kSumAll ? 1 : terms_.extent.n) *
           (sum_type(sink) == "float" ? 4 : 8);
  }
  // Gives each sum its place in the workspace, block after block.
  template <class F>
  void for_sums(F f) const {
    int64_t offset = 0;
    for (const Sink& sink : terms_.sinks) {
      if (sink.kind != Sink::Kind::kStore) {
        f(sink, offset);
        offset += ceil_div(it_.blocks * bytes_of_sum(sink), 64) * 64;
      }
    }
  }
  std::string workspace(const Sink& sink, int64_t offset) const {
    return fmt::format("global<{}>(static_cast<char*>({}) + {})", sum_type(sink),
                       pointer_text(terms_.inputs.size() + terms_.outputs.size()), offset);
  }
  static std::string stored(const Sink& sink, const std::string& value) {
    const bool narrow = sink.kind == Sink::Kind::kSumAll && sink.format != "F64";
    return fmt::format("{}::store({}{})", sink.format, narrow ? "(float)" : "", value);
  }
};

}  // namespace mstrain::cuda
