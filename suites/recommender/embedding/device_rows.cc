#include "suites/recommender/embedding/device_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/table_rows.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"

namespace mstrain::recommender {

using embedding_cache::HotRows;
using embedding_cache::kHeaderBytes;
using embedding_cache::kNoSlot;
using embedding_cache::LeavingRows;
using embedding_cache::OptimizerKind;
using embedding_cache::OptimizerOptions;
using embedding_cache::RowLayout;
using embedding_cache::Slot;

struct DeviceRows::Learning {
  Tensors gradients;  // of each segment: [bags, width]
  Tensors bags;       // likewise: the bag of each position, in the order of what learns
  Tensors scales;     // likewise, what it counts; none: 1
  Tensor parts;
  std::optional<Tensor> ids;
  Tensor slots, learns;
  Tensors rates;

  template <class V>
  void fields(V& v) {
    v("gradients", gradients);
    v("bags", bags);
    v("scales", scales);
    v("parts", parts);
    v("ids", ids);
    v("slots", slots);
    v("learns", learns);
    v("rates", rates);
  }
};

namespace {

constexpr int64_t kLeast = 64;
constexpr int64_t kHomeBytes = int64_t{64} << 20;  // of rows that come home at once

// The number of rows of a program for `count`: powers of two, and from thousands on four for each of them.
int64_t padded(int64_t count) {
  const int64_t power = std::max(
      kLeast,
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1)))));
  const int64_t step = power <= 4096 ? power : power / 8;
  return (count + step - 1) / step * step;
}

template <class To, class From>
Tensor filled_up(const std::vector<From>& values, int64_t size, To rest) {
  HostWrite write(TensorType{DtypeOf<To>::value, {size}});
  const std::span<To> out = write.values<To>();
  const auto end = std::transform(values.begin(), values.end(), out.begin(),
                                  [](From value) { return static_cast<To>(value); });
  std::fill(end, out.end(), rest);
  return write.finish();
}

// Offsets of as many more bags as fill it up, which are empty.
Tensor offsets_of(const std::vector<int32_t>& offsets, int64_t bags) {
  return filled_up<int32_t>(offsets, bags + 1, offsets.back());
}

row_rules::Rule rule_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return row_rules::Rule::kSgd;
    case OptimizerKind::kAdagrad: return row_rules::Rule::kAdagrad;
    case OptimizerKind::kRowwiseAdagrad: return row_rules::Rule::kRowwiseAdagrad;
    case OptimizerKind::kFtrl: return row_rules::Rule::kFtrl;
    case OptimizerKind::kLazyAdam: return row_rules::Rule::kLazyAdam;
  }
  fail("embedding_cache: unknown optimizer {}", static_cast<int>(kind));
}

Tensors put_in(const Tensors& parts, const Tensor& slots, const Tensor& rows) {
  Tensors out;
  int64_t first = 0;
  for (const Tensor& part : parts) {
    const int64_t end = first + part.dim(1);
    out.push_back(first == end ? part : scatter_set(part, slots, slice(rows, 1, first, end)));
    first = end;
  }
  return out;
}

Tensor take_out(const Tensors& parts, const Tensor& slots) {
  Tensors out;
  for (const Tensor& part : parts) {
    if (part.dim(1) > 0) {
      out.push_back(gather(part, slots));
    }
  }
  return out.size() == 1 ? out[0] : concat(out, 1);
}

Tensor pool(const Tensor& rows, const Tensor& slots, const Tensor& inverse,
            const std::optional<Tensor>& weights, const std::optional<Tensor>& offsets,
            int64_t beside) {
  const Tensor ids = gather(slots, inverse);
  const int64_t positions = ids.dim(0);
  const Tensor bags = !weights && !offsets
                          ? gather(rows, ids)
                          : bag_sum(rows, ids, weights ? *weights : full({positions}, 1),
                                    offsets ? *offsets : iota({positions + 1}, 0));
  return beside == 0 ? reshape(bags, {bags.dim(0)})
                     : reshape(bags, {bags.dim(0) / beside, beside, bags.dim(1)});
}

}  // namespace

uint64_t device_bytes(const embedding_cache::TableOptions& table, uint64_t rows) {
  return rows == 0 ? 0 : (rows + 2) * (RowLayout(table).record_bytes() - kHeaderBytes);
}

DeviceRows::DeviceRows(embedding_cache::Cache& cache, uint32_t table, uint64_t rows)
    : layout_(cache.layout(table)),
      name_(cache.options().tables[table].name),
      hot_(cache, table, rows),
      put_in_(jit(put_in, {.donate = {0}, .name = "rows.put_in", .tells = false})),
      take_out_(jit(take_out, {.name = "rows.take_out", .tells = false})),
      pool_(jit(pool, {.name = "rows.pool", .tells = false})) {
  // Rows that are not finite stay as they were, as Cache::update has it.
  const auto learn = [segments = layout_.parts()](const Tensors& parts, const Learning& given) {
    const auto added_up = [&](size_t i) {
      const Tensor scales = given.scales.empty() ? full(given.bags[i].shape(), 1) : given.scales[i];
      const Tensor sums = bag_sum(given.gradients[i], given.bags[i], scales, given.parts);
      return !given.ids ? sums
                        : bag_sum(sums, iota({sums.dim(0)}, 0), full({sums.dim(0)}, 1), *given.ids);
    };
    Tensors sums;
    Tensor learns = given.learns;
    for (size_t i = 0; i < segments.size(); ++i) {
      sums.push_back(added_up(i));
      learns = logical_and(learns, all(isfinite(sums.back()), {1}));
    }
    Tensors out = parts;
    for (size_t i = 0; i < segments.size(); ++i) {
      const OptimizerOptions& o = segments[i].options.optimizer;
      const LearnedRows learned =
          learn_rows(parts[i], parts[segments.size() + i], given.slots, sums[i], learns,
                     given.rates[i], rule_of(o.kind), {o.lr, o.beta1, o.beta2, o.eps, o.l1, o.l2});
      out[i] = learned.weights;
      out[segments.size() + i] = learned.state;
    }
    out.push_back(count_nonzero(logical_and(given.learns, logical_not(learns))));
    return out;
  };
  learn_ = jit(learn, {.donate = {0}, .name = "rows.learn", .tells = false});
  const auto add_part = [&](int64_t width) {
    parts_.push_back(dense(zeros({Dtype::kF32, {static_cast<int64_t>(rows) + 2, width}})));
  };
  for (const RowLayout::Part& part : layout_.parts()) {
    add_part(part.width);
  }
  for (const RowLayout::Part& part : layout_.parts()) {
    add_part(part.state_width);
  }
}

void DeviceRows::check_finite() {
  if (const std::optional<Learned> learned = std::exchange(learned_, std::nullopt)) {
    const auto bad = static_cast<int64_t>(item(learned->bad));
    check(
        bad == 0,
        "embedding_cache: update of step {}: the gradients of {} of the {} ids of table \"{}\" are "
        "not finite; those rows are as they were, the others have learned",
        learned->step, bad, learned->ids, name_);
  }
}

// What the step before last has computed.
void DeviceRows::settle() {
  if (leaving_) {
    hot_.give_back(leaving_->rows, HostRead(leaving_->values).values<float>());
    leaving_.reset();
  }
}

DeviceRows::Leaving DeviceRows::copy_out(LeavingRows rows) const {
  const auto nobodys = static_cast<int32_t>(hot_.capacity() + 1);
  const Tensor slots = filled_up<int32_t>(rows.slots, padded(std::ssize(rows.slots)), nobodys);
  return {std::move(rows), take_out_(parts_, slots)};
}

void DeviceRows::copy_in(const HotRows::Batch& batch) {
  const auto nobodys = static_cast<int32_t>(hot_.capacity() + 1);
  const int64_t count = padded(std::ssize(batch.coming));
  const size_t bytes = layout_.record_bytes() - kHeaderBytes;
  HostWrite rows(TensorType{Dtype::kF32, {count, static_cast<int64_t>(bytes / sizeof(float))}});
  std::byte* const out = rows.bytes().data();
  for (size_t i = 0; i < batch.records.size(); ++i) {
    std::memcpy(out + i * bytes, batch.records[i] + kHeaderBytes, bytes);
  }
  std::memset(out + batch.records.size() * bytes, 0,
              rows.bytes().size() - batch.records.size() * bytes);
  parts_ =
      put_in_(std::move(parts_), filled_up<int32_t>(batch.coming, count, nobodys), rows.finish());
}

void DeviceRows::hold(const DeviceBatch& batch, uint64_t step) {
  settle();
  held_ = hot_.hold(batch.distinct.unique, batch.distinct.inverse, step);
  if (!held_->leaving.slots.empty()) {
    leaving_ = copy_out(std::move(held_->leaving));
  }
  if (!held_->coming.empty()) {
    copy_in(*held_);
  }
  const auto zeros = static_cast<Slot>(hot_.capacity());
  std::vector<Slot> slots(held_->slots.size());
  std::vector<uint8_t> learns(slots.size());
  for (size_t u = 0; u < slots.size(); ++u) {
    learns[u] = held_->slots[u] == kNoSlot ? 0 : 1;
    slots[u] = held_->slots[u] == kNoSlot ? zeros : held_->slots[u];
  }
  const int64_t count = padded(std::ssize(slots));
  slots_ = filled_up<int32_t>(slots, count, static_cast<int32_t>(zeros));
  HostWrite write(TensorType{Dtype::kBool, {count}});
  std::memset(write.bytes().data(), 0, write.bytes().size());
  std::copy(learns.begin(), learns.end(), reinterpret_cast<uint8_t*>(write.bytes().data()));
  learns_ = write.finish();
}

Tensor DeviceRows::look_up(const DeviceBatch& batch, const embedding_cache::Bags& bags,
                           int64_t beside) {
  const auto& inverse = batch.distinct.inverse;
  // Where each position is a bag, there are as many in every batch.
  const int64_t positions =
      bags.offsets.empty() ? std::ssize(inverse) : padded(std::ssize(inverse));
  std::optional<Tensor> weights, offsets;
  if (!bags.weights.empty()) {
    weights = filled_up<float>(std::vector<float>(bags.weights.begin(), bags.weights.end()),
                               positions, 0.0F);
  }
  if (!bags.offsets.empty()) {
    offsets = filled_up<int32_t>(std::vector<uint32_t>(bags.offsets.begin(), bags.offsets.end()),
                                 std::ssize(bags.offsets), 0);
  }
  return pool_(parts_[*bags.segment], slots_, filled_up<int32_t>(inverse, positions, 0),
               std::move(weights), std::move(offsets), beside);
}

std::vector<float> DeviceRows::weights() {
  const Tensors weights(parts_.begin(), parts_.begin() + std::ssize(layout_.parts()));
  const HostRead read(take_out_(weights, slots_));
  const auto all = read.values<float>();
  return {all.begin(),
          all.begin() + std::ssize(held_->slots) * static_cast<int64_t>(layout_.width())};
}

void DeviceRows::learn(const DeviceBatch& batch, const Tensors& gradients, float lr_scale) {
  const int64_t positions = padded(std::ssize(batch.order));
  Learning given;
  for (const Tensor& gradient : gradients) {
    const bool of_vectors = gradient.rank() == 3;
    const std::vector<int32_t>& of = of_vectors ? batch.vectors : batch.weights;
    given.bags.push_back(filled_up<int32_t>(of.empty() ? batch.order : of, positions, 0));
    const int64_t width = of_vectors ? gradient.dim(2) : 1;
    given.gradients.push_back(reshape(gradient, {gradient.elements() / width, width}));
    if (!batch.scales.empty()) {
      given.scales.push_back(of_vectors && !batch.scales_vectors
                                 ? dense(full({positions}, 1))
                                 : filled_up<float>(batch.scales, positions, 0.0F));
    }
  }
  learn(batch, std::move(given), lr_scale);
}

void DeviceRows::learn(const DeviceBatch& batch, std::span<const float> gradients, float lr_scale) {
  const auto width = static_cast<int64_t>(layout_.width());
  const int64_t positions = padded(std::ssize(batch.order));
  const Tensor order = filled_up<int32_t>(batch.order, positions, 0);
  Learning given{.bags = Tensors(layout_.parts().size(), order)};
  for (const RowLayout::Part& part : layout_.parts()) {
    HostWrite write(TensorType{Dtype::kF32, {positions, part.width}});
    float* const out = write.values<float>().data();
    std::fill_n(out, positions * part.width, 0.0F);
    for (int64_t i = 0; i < std::ssize(batch.order); ++i) {
      std::copy_n(gradients.data() + i * width + part.weights, part.width, out + i * part.width);
    }
    given.gradients.push_back(write.finish());
  }
  learn(batch, std::move(given), lr_scale);
}

void DeviceRows::learn(const DeviceBatch& batch, Learning given, float lr_scale) {
  check_finite();
  const int64_t ids = slots_.dim(0);
  given.slots = slots_;
  given.learns = learns_;
  if (batch.ids.empty()) {
    given.parts = offsets_of(batch.parts, ids);
  } else {
    given.parts = offsets_of(batch.parts, padded(std::ssize(batch.parts) - 1));
    given.ids = offsets_of(batch.ids, ids);
  }
  for (const RowLayout::Part& part : layout_.parts()) {
    given.rates.push_back(
        scalar(rate_of(part.options.optimizer, held_->step, lr_scale), Dtype::kF32));
  }
  Tensors out = learn_(std::move(parts_), std::move(given));
  learned_ = Learned{held_->step, batch.distinct.unique.size(), out.back()};
  out.pop_back();
  parts_ = std::move(out);
  hot_.learned(std::move(*held_));
  held_.reset();
}

void DeviceRows::drop() {
  if (held_) {
    hot_.dropped(std::move(*held_));
    held_.reset();
  }
}

void DeviceRows::bring_home() {
  check_finite();
  settle();
  const auto most = static_cast<size_t>(
      std::max<int64_t>(kLeast, kHomeBytes / static_cast<int64_t>(layout_.record_bytes())));
  for (LeavingRows rows; !(rows = hot_.changed(most)).slots.empty();) {
    leaving_ = copy_out(std::move(rows));
    settle();
  }
}

void DeviceRows::forget() { hot_.forget(); }

}  // namespace mstrain::recommender
