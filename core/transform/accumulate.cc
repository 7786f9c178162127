#include "core/transform/accumulate.h"

#include "core/ir/replay.h"
#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/shape.h"

namespace mstrain {
Dtype sum_dtype(Dtype dtype) { return is_floating(dtype) ? accumulation_dtype(dtype) : dtype; }

namespace {

// Of what is summed up.
Types value_types(const Graph& program, size_t apart) {
  Types values;
  const size_t summed = program.outputs().size() - apart;
  for (const Value& value : std::span(program.outputs()).first(summed)) {
    values.push_back(program.type(value));
    check(values.back().dtype != Dtype::kBool,
          "accumulate: the function returns {}, which has no sum", to_string(values.back()));
  }
  return values;
}

// Applies nodes up to what follows on collectives: those that follow one another begin together.
void go_on(Replay& replay) {
  bool begun = false;
  while (const Node* const node = replay.next()) {
    const bool begins = node->op->kind == OpKind::kCollective;
    if (begun && !begins && node->op->kind != OpKind::kMovement) {
      return;
    }
    begun = begun || begins;
    replay.apply_next();
  }
}

}  // namespace

std::vector<Tensors> replay_in_turns(const Graph& program, const std::vector<Tensors>& inputs) {
  std::vector<Replay> replays;
  for (const Tensors& each : inputs) {
    replays.emplace_back(program, each);
  }
  while (replays.back().next() != nullptr) {
    for (Replay& replay : replays) {
      go_on(replay);
    }
  }
  std::vector<Tensors> outputs;
  for (const Replay& replay : replays) {
    outputs.push_back(replay.outputs());
  }
  return outputs;
}

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
                      const Tensors& captures, const Tensors& batch, int64_t side_by_side,
                      size_t apart, const Tensors& so_far) {
  check(n % side_by_side == 0, "accumulate: {} micro-batches, {} at a time", n, side_by_side);
  const int64_t turns = n / side_by_side;
  const Tensors sums = so_far.empty() ? rule.zeros(value_types(*program, apart)) : so_far;
  Tensors micro;
  Types types = types_of(sums);
  for (const Tensor& capture : captures) {
    types.push_back(capture.type());
  }
  for (const Tensor& x : batch) {
    TensorType type = x.type();
    type.shape[0] /= turns;
    types.push_back(type);
    micro.push_back(reshape(x, type.shape.with_inserted(0, turns)));
  }
  Tensors none;
  const GraphPtr body = trace_program(
      types,
      [&](std::span<const Tensor> args) {
        const auto constants = args.subspan(sums.size(), captures.size());
        const auto slices = args.subspan(sums.size() + captures.size());
        std::vector<Tensors> given;
        for (int64_t i = 0; i < side_by_side; ++i) {
          given.emplace_back();
          for (const Tensor& x : slices) {
            const int64_t rows = x.dim(0) / side_by_side;
            given.back().push_back(side_by_side == 1 ? x : slice(x, 0, i * rows, (i + 1) * rows));
          }
          given.back().insert(given.back().end(), constants.begin(), constants.end());
        }
        Tensors after(args.begin(), args.begin() + static_cast<int64_t>(sums.size()));
        std::vector<Tensors> of_samples(apart);
        for (Tensors& values : replay_in_turns(*program, given)) {
          const size_t summed = values.size() - apart;
          for (size_t i = 0; i < apart; ++i) {
            of_samples[i].push_back(values[summed + i]);
          }
          after = rule.add(after, std::span(values).first(summed));
        }
        for (const Tensors& parts : of_samples) {
          after.push_back(parts.size() == 1 ? parts[0] : concat(parts, 0));
        }
        return after;
      },
      &none);
  Tensors results = scan_program(body, sums, captures, micro, turns, false);
  for (size_t i = results.size() - apart; i < results.size(); ++i) {
    Shape shape = results[i].shape().without(0);
    shape[0] *= turns;
    results[i] = reshape(results[i], shape);
  }
  return results;
}

Tensors accumulate_recorded(int64_t n, const GraphPtr& program, const Tensors& captures,
                            const Tensors& batch, bool in_own_type, int64_t side_by_side,
                            size_t apart) {
  const Types values = value_types(*program, apart);
  if (n == 1) {
    Tensors inputs = batch;
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    return replay(*program, inputs);
  }
  Tensors totals =
      accumulate_by(plain_sums(in_own_type), n, program, captures, batch, side_by_side, apart);
  for (size_t i = 0; i < values.size(); ++i) {
    totals[i] = cast(totals[i], values[i].dtype);
  }
  return totals;
}

}  // namespace mstrain
