// The text of kernels on its way: lines, indented by depth.
#pragma once

#include <fmt/format.h>

#include "core/backends/cuda/text.h"

namespace mstrain::cuda {

class TextLines {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    result_.text += std::string(static_cast<size_t>(2 * depth_), ' ');
    result_.text += fmt::format(text, std::forward<Args>(args)...);
    result_.text += '\n';
  }
  template <class... Args>
  void open(fmt::format_string<Args...> text, Args&&... args) {
    line(text, std::forward<Args>(args)...);
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }

 protected:
  KernelText result_;

 private:
  int depth_ = 0;
};

}  // namespace mstrain::cuda
