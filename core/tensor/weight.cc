#include "core/tensor/weight.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/thread_pool.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

constexpr int64_t kNumbersAtOnce = 64 * 1024;
constexpr int64_t kRowsAtOnce = 16;  // neighbours, where rows are columns of what is read

// Dims of `shape`: the first `count` of them, or those after.
Shape first_dims(const Shape& shape, int count) {
  return Shape(std::span(shape.begin(), shape.begin() + count));
}
Shape last_dims(const Shape& shape, int from) {
  return Shape(std::span(shape.begin() + from, shape.end()));
}

Shape in_of(const Shape& shape, const MatrixForm& form) {
  return form.out_first ? last_dims(shape, shape.rank() - form.in_dims)
                        : first_dims(shape, form.in_dims);
}
Shape out_of(const Shape& shape, const MatrixForm& form) {
  return form.out_first ? first_dims(shape, shape.rank() - form.in_dims)
                        : last_dims(shape, form.in_dims);
}

}  // namespace

Shape Weight::in() const { return in_of(shape, form); }
Shape Weight::out() const { return out_of(shape, form); }

std::string coded_name(const std::string& name, WeightCode code) {
  return fmt::format("{}.{}", name, name_of(code));
}

Tensor encode_weight(WeightCode code, const std::string& name, const Shape& shape,
                     const MatrixForm& form, const NumberReader& read) {
  const int64_t width = in_of(shape, form).elements();
  const int64_t rows = out_of(shape, form).elements();
  const int64_t bytes = code_row_bytes(code, width);
  HostWrite result({Dtype::kU8, {rows, bytes}});
  uint8_t* const to = result.values<uint8_t>().data();
  const int64_t at_once = std::max<int64_t>(1, kNumbersAtOnce / width / kRowsAtOnce) * kRowsAtOnce;
  ThreadPool pool(current_context().num_threads() - 1);
  pool.parallel_for(rows, at_once, [&](int64_t begin, int64_t end) {
    std::vector<float> numbers(static_cast<size_t>((end - begin) * width));
    if (form.out_first) {
      read(begin * width, (end - begin) * width, numbers.data());
    } else {
      std::vector<float> column(static_cast<size_t>(end - begin));
      for (int64_t i = 0; i < width; ++i) {
        read(i * rows + begin, end - begin, column.data());
        for (int64_t j = 0; j < end - begin; ++j) {
          numbers[static_cast<size_t>(j * width + i)] = column[static_cast<size_t>(j)];
        }
      }
    }
    for (int64_t j = begin; j < end; ++j) {
      check(encode_row(code, numbers.data() + (j - begin) * width, width, to + j * bytes),
            "{}: holds a number that {} cannot hold: infinite, NaN, or beyond {}", name,
            name_of(code), kLargestCoded);
    }
  });
  return result.finish();
}

}  // namespace mstrain
