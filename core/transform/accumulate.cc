#include "core/transform/accumulate.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/shape.h"

namespace mstrain {
Dtype sum_dtype(Dtype dtype) { return is_floating(dtype) ? accumulation_dtype(dtype) : dtype; }

namespace {

Types value_types(const Graph& program) {
  Types values;
  for (const Value& value : program.outputs()) {
    values.push_back(program.type(value));
    check(values.back().dtype != Dtype::kBool,
          "accumulate: the function returns {}, which has no sum", to_string(values.back()));
  }
  return values;
}

}  // namespace

Types micro_types(int64_t n, const Tensors& batch, const std::vector<std::string>& paths) {
  check(n >= 1, "accumulate: {} micro-batches", n);
  check(!batch.empty(), "accumulate: the batch holds no tensors");
  Types types;
  for (size_t i = 0; i < batch.size(); ++i) {
    TensorType type = batch[i].type();
    check(type.shape.rank() > 0 && type.shape[0] % n == 0,
          "accumulate: {} of the batch is {}, which does not divide into {} micro-batches",
          paths[i], to_string(type), n);
    type.shape[0] /= n;
    types.push_back(type);
  }
  return types;
}

SumRule plain_sums(bool in_own_type) {
  return {[=](std::span<const TensorType> values) {
            Tensors sums;
            for (const TensorType& type : values) {
              sums.push_back(full(type.shape, 0, in_own_type ? type.dtype : sum_dtype(type.dtype)));
            }
            return sums;
          },
          [](std::span<const Tensor> sums, std::span<const Tensor> values) {
            Tensors after;
            for (size_t i = 0; i < sums.size(); ++i) {
              after.push_back(sums[i] + cast(values[i], sums[i].dtype()));
            }
            return after;
          }};
}

Tensors accumulate_by(const SumRule& rule, int64_t n, const GraphPtr& program,
                      const Tensors& captures, const Tensors& batch) {
  const Tensors sums = rule.zeros(value_types(*program));
  Tensors micro;
  Types types = types_of(sums);
  for (const Tensor& capture : captures) {
    types.push_back(capture.type());
  }
  for (const Tensor& x : batch) {
    TensorType type = x.type();
    type.shape[0] /= n;
    types.push_back(type);
    micro.push_back(reshape(x, type.shape.with_inserted(0, n)));
  }
  Tensors none;
  const GraphPtr body = trace_program(
      types,
      [&](std::span<const Tensor> args) {
        const auto before = args.first(sums.size());
        const auto constants = args.subspan(sums.size(), captures.size());
        const auto slices = args.subspan(sums.size() + captures.size());
        Tensors given(slices.begin(), slices.end());
        given.insert(given.end(), constants.begin(), constants.end());
        return rule.add(before, replay(*program, given));
      },
      &none);
  return scan_program(body, sums, captures, micro, n, false);
}

Tensors accumulate_recorded(int64_t n, const GraphPtr& program, const Tensors& captures,
                            const Tensors& batch, bool in_own_type) {
  const Types values = value_types(*program);
  if (n == 1) {
    Tensors inputs = batch;
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    return replay(*program, inputs);
  }
  Tensors totals = accumulate_by(plain_sums(in_own_type), n, program, captures, batch);
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i] = cast(totals[i], values[i].dtype);
  }
  return totals;
}

}  // namespace mstrain
