#include "core/backends/cpu/tile_builder.h"

#include <algorithm>

#include "core/backends/cpu/parallel.h"
#include "core/ops/elementwise.h"

namespace mstrain::cpu {
namespace {

using Kind = TileStep::Kind;
using Count = TileStep::Count;
using Walk = TileWindow::Walk;

// Rows that are dense inside are used where they lie from this length on; of shorter ones several make a tile.
constexpr int64_t kLongRow = 256;

// An operation's loop on tiles of `lane`; null where it has none.
TileLoop loop_in(const OpDef& op, Lane lane, const Loops& loops) {
  const ElementwiseLoop& row = loops.elementwise->rows[elementwise_index(op)];
  switch (lane) {
    case Lane::kF32: return row.f32;
    case Lane::kF64: return row.f64;
    case Lane::kI64: return row.i64;
    case Lane::kU8: return row.u8;
  }
  return nullptr;
}

// Time per element relative to an addition, roughly: functions of many instructions are vectorised all alike.
int weight_of(const ElementwiseOp& row) {
  return row.traits.flops <= 3 ? static_cast<int>(row.traits.flops) : 8;
}

// What tiles of a type hold: bool stays bytes, as conditions want it.
Lane tile_lane(Dtype dtype) { return dtype == Dtype::kBool ? Lane::kU8 : lane_of(dtype); }
int width_of(Lane lane) { return lane == Lane::kU8 ? 1 : lane == Lane::kF32 ? 4 : 8; }
// Whether memory of `dtype` is a tile as it stands.
bool is_tile(Dtype dtype) { return dtype == Dtype::kBool || is_lane_type(dtype); }

ConvertLoop load_of(Dtype dtype) { return loops().elementwise->load[static_cast<int>(dtype)]; }
ConvertLoop store_of(Lane lane, Dtype dtype) {
  return loops().elementwise->store[static_cast<int>(lane)][static_cast<int>(dtype)];
}

void take(TileStep& step, std::initializer_list<Register> registers) {
  for (Register reg : registers) {
    step.in[static_cast<size_t>(step.inputs++)] = reg;
  }
}

}  // namespace

TileBuilder::TileBuilder(const KernelRequest& request, FusedExtent extent, bool whole_rows)
    : request_(request), whole_rows_(whole_rows) {
  program_.rows = extent.rows;
  program_.n = extent.n;
  for (const ViewType& view : request.inputs) {
    const Shape strides[] = {view.strides};
    program_.views.push_back(make_nest(view.type.shape, strides));
  }
  if (!whole_rows) {
    find_rows();
  }
  by_rows_ = program_.n >= kLongRow && std::any_of(program_.views.begin(), program_.views.end(),
                                                   [&](const Nest& view) { return is_rows(view); });
}

int TileBuilder::input(size_t i, Count count) {
  Held held{request_.inputs[i].type.dtype, count};
  held.input = static_cast<int>(i);
  values_.push_back(held);
  return static_cast<int>(values_.size()) - 1;
}

int TileBuilder::constant(double value, Dtype dtype, Count count) {
  const int id = fresh(dtype, count);
  TileStep step{.kind = Kind::kFill, .count = count, .lane = tile_lane(dtype)};
  step.value = value;
  values_[static_cast<size_t>(id)].tile = push(step, width_of(step.lane), true);
  return id;
}

int TileBuilder::map(const OpDef& op, std::span<const int> operands, Dtype dtype, Count count) {
  using OpKind = ElementwiseOp::Kind;
  const ElementwiseOp& row = *elementwise_op(op);
  const auto dtype_of = [&](size_t i) { return values_[static_cast<size_t>(operands[i])].dtype; };
  // The lane of the operands whose type the operation works in.
  const bool logical = row.kind == OpKind::kCondition;
  const Lane lane = logical ? Lane::kU8 : lane_of(dtype_of(row.worked_input()));
  TileStep step{.count = count, .lane = lane};
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool condition = logical || (row.kind == OpKind::kSelection && i == 0);
    step.in[i] = condition ? tile(operands[i]) : numbers(operands[i]);
  }
  step.inputs = static_cast<int>(operands.size());
  work_ += weight_of(row);
  if (row.kind == OpKind::kConversion) {
    return stored(step.in[0], lane, dtype, count);
  }
  step.loop = loop_in(op, lane, loops());
  const bool bytes = logical || row.kind == OpKind::kComparison;
  const Lane made = bytes ? Lane::kU8 : lane;
  const Register result = push(step, width_of(made));
  if (bytes || is_lane_type(dtype)) {
    const int id = fresh(dtype, count);
    values_[static_cast<size_t>(id)].tile = result;
    return id;
  }
  return stored(result, made, dtype, count);
}

int TileBuilder::spread(int value) {
  const Held held = values_[static_cast<size_t>(value)];
  const int id = fresh(held.dtype, Count::kFull);
  TileStep step{.kind = Kind::kSpread};
  step.size = width_of(tile_lane(held.dtype));
  take(step, {tile(value)});
  values_[static_cast<size_t>(id)].tile = push(step, step.size);
  work_ += 1;
  return id;
}

int TileBuilder::fold_row(int value, Fold fold, Dtype dtype) {
  const Lane lane = lane_of(values_[static_cast<size_t>(value)].dtype);
  TileStep step{.kind = Kind::kFoldRow, .count = Count::kPerRow, .lane = lane, .fold = fold};
  take(step, {tile(value)});
  work_ += 1;
  return stored(push(step, width_of(lane)), lane, dtype, Count::kPerRow);
}

void TileBuilder::fold_out(int value, Fold fold, bool columns, int output, Dtype dtype) {
  const Lane lane = lane_of(values_[static_cast<size_t>(value)].dtype);
  TileStep step{.kind = columns ? Kind::kFoldColumns : Kind::kFoldAll, .lane = lane, .fold = fold};
  take(step, {tile(value)});
  step.partial = partial(lane, columns, output, dtype);
  program_.steps.push_back(step);
  work_ += 1;
}

std::vector<int> TileBuilder::row(TileStep::RowOp op, std::span<const int> operands, double eps,
                                  std::span<const TensorType> results, std::span<const int> sums) {
  TileStep step{.kind = Kind::kRow, .lane = lane_of(results[0].dtype), .row_op = op};
  step.value = eps;
  for (int operand : operands) {
    step.in[static_cast<size_t>(step.inputs++)] = tile(operand);
  }
  const size_t tiles = results.size() - sums.size();
  for (size_t i = 0; i < sums.size(); ++i) {
    const int index = partial(step.lane, true, sums[i], results[tiles + i].dtype);
    step.partial = i == 0 ? index : step.partial;
  }
  for (size_t i = 0; i < tiles; ++i) {
    const Count count = i == 0 ? Count::kFull : Count::kPerRow;
    step.out[i] = slot(count, width_of(step.lane));
  }
  step.outputs = static_cast<int>(tiles);
  program_.steps.push_back(step);
  work_ += 8;
  std::vector<int> ids;
  for (size_t i = 0; i < tiles; ++i) {
    ids.push_back(
        stored(step.out[i], step.lane, results[i].dtype, i == 0 ? Count::kFull : Count::kPerRow));
  }
  return ids;
}

void TileBuilder::output(int value, int output) {
  const Register from = memory_form(value);
  const Held& held = values_[static_cast<size_t>(value)];
  const Register to = window(held.count == Count::kPerRow ? Walk::kPerRow : Walk::kDense, true,
                             output, size_of(held.dtype));
  // What makes the value writes it there; where that is memory already, it is copied.
  if (needs_.contains(from) && !needs_.at(from).once) {
    rename(from, to);
    for (Held& other : values_) {
      other.tile = other.tile == from ? to : other.tile;
    }
    for (auto& [id, reg] : raw_) {
      reg = reg == from ? to : reg;
    }
    return;
  }
  TileStep step{.kind = Kind::kCopy, .count = held.count};
  step.size = size_of(held.dtype);
  take(step, {from});
  step.out[0] = to;
  step.outputs = 1;
  program_.steps.push_back(step);
}

TileProgram TileBuilder::finish() {
  lay_out(program_, needs_, registers_, whole_rows_, by_rows_);
  const int64_t tiles = (program_.rows + program_.rows_per_tile - 1) / program_.rows_per_tile *
                        ((program_.n + program_.piece - 1) / std::max<int64_t>(program_.piece, 1));
  program_.threads = useful_threads(request_.threads, tiles, program_.rows * program_.n * work_);
  return std::move(program_);
}

void TileBuilder::find_rows() {
  int64_t inner = 0;
  for (const Nest& view : program_.views) {
    if (view.dense(0) || view.constant(0)) {
      continue;
    }
    if (inner != 0 && inner != view.inner()) {
      return;
    }
    inner = view.inner();
  }
  if (inner > 0) {
    program_.rows = program_.rows * program_.n / inner;
    program_.n = inner;
  }
}

bool TileBuilder::is_rows(const Nest& nest) const {
  return !nest.dense(0) && nest.rank > 1 && nest.inner() == program_.n && nest.inner_stride(0) == 1;
}

bool TileBuilder::repeats(const Nest& nest) const {
  if (nest.constant(0)) {
    return true;
  }
  for (int d = 0; d < nest.rank - 1; ++d) {
    if (nest.strides[0][static_cast<size_t>(d)] != 0) {
      return false;
    }
  }
  return nest.rank > 1 && nest.inner() == program_.n && program_.n < kLongRow;
}

int TileBuilder::fresh(Dtype dtype, Count count) {
  values_.push_back({dtype, count});
  return static_cast<int>(values_.size()) - 1;
}

Register TileBuilder::slot(Count count, int width, bool once) {
  const Register reg = registers_++;
  needs_[reg] = {reg, count, width, once};
  return reg;
}

Register TileBuilder::window(Walk walk, bool output, int tensor, int size) {
  const Register reg = registers_++;
  TileWindow window{.reg = reg, .walk = walk, .output = output, .tensor = tensor, .size = size};
  if (!output) {
    window.nest = program_.views[static_cast<size_t>(tensor)];
  }
  program_.windows.push_back(window);
  return reg;
}

Register TileBuilder::push(TileStep step, int width, bool once) {
  step.out[0] = slot(step.count, width, once);
  step.outputs = 1;
  (once ? program_.once : program_.steps).push_back(step);
  return step.out[0];
}

Register TileBuilder::raw_input(const Held& held, bool& once) {
  const auto i = static_cast<size_t>(held.input);
  const Nest& nest = program_.views[i];
  const int size = size_of(held.dtype);
  if (held.count == Count::kParameter) {
    once = true;
    if (nest.dense(0)) {
      return window(Walk::kFixed, false, held.input, size);
    }
  } else if (nest.dense(0)) {
    return window(held.count == Count::kPerRow ? Walk::kPerRow : Walk::kDense, false, held.input,
                  size);
  } else if (held.count == Count::kFull && by_rows_ && is_rows(nest)) {
    return window(Walk::kRows, false, held.input, size);
  } else {
    once = nest.constant(0) || (held.count == Count::kFull && repeats(nest));
  }
  TileStep step{.kind = Kind::kGather, .count = held.count};
  step.input = held.input;
  step.size = size;
  return push(step, size, once);
}

Register TileBuilder::converted(Register from, ConvertLoop convert, Count count, int width,
                                bool once) {
  TileStep step{.kind = Kind::kConvert, .count = count};
  step.convert = convert;
  take(step, {from});
  return push(step, width, once);
}

Register TileBuilder::tile(int value) {
  Held& held = values_[static_cast<size_t>(value)];
  if (held.tile >= 0) {
    return held.tile;
  }
  bool once = false;
  Register reg = raw_.contains(value) ? raw_.at(value) : raw_input(held, once);
  if (!is_tile(held.dtype)) {
    raw_[value] = reg;
    reg = converted(reg, load_of(held.dtype), held.count, width_of(lane_of(held.dtype)), once);
    work_ += 1;
  }
  return held.tile = reg;
}

Register TileBuilder::numbers(int value) {
  const Register reg = tile(value);
  Held& held = values_[static_cast<size_t>(value)];
  if (held.dtype != Dtype::kBool) {
    return reg;
  }
  if (held.numbers < 0) {
    const auto need = needs_.find(reg);
    const bool once = need != needs_.end() && need->second.once;
    held.numbers = converted(reg, load_of(Dtype::kBool), held.count, 8, once);
  }
  return held.numbers;
}

int TileBuilder::stored(Register reg, Lane lane, Dtype dtype, Count count) {
  const int id = fresh(dtype, count);
  const bool same = is_lane_type(dtype) && lane_of(dtype) == lane;
  if (same && needs_.contains(reg) && !needs_.at(reg).once && !is_shared(reg)) {
    values_[static_cast<size_t>(id)].tile = reg;
    return id;
  }
  const Register raw = converted(reg, store_of(lane, dtype), count, size_of(dtype), false);
  if (is_tile(dtype)) {
    values_[static_cast<size_t>(id)].tile = raw;
  } else {
    raw_[id] = raw;
  }
  return id;
}

bool TileBuilder::is_shared(Register reg) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Held& held) { return held.tile == reg || held.numbers == reg; });
}

Register TileBuilder::memory_form(int value) {
  const Held& held = values_[static_cast<size_t>(value)];
  if (is_tile(held.dtype) || !raw_.contains(value)) {
    const Register reg = tile(value);
    return is_tile(held.dtype) ? reg : raw_.at(value);
  }
  return raw_.at(value);
}

int TileBuilder::partial(Lane lane, bool columns, int output, Dtype dtype) {
  program_.partials.push_back({columns, output, lane, 0, store_of(lane, dtype)});
  return static_cast<int>(program_.partials.size()) - 1;
}

void TileBuilder::rename(Register from, Register to) {
  for (TileStep& step : program_.steps) {
    std::replace(step.in.begin(), step.in.begin() + step.inputs, from, to);
    std::replace(step.out.begin(), step.out.begin() + step.outputs, from, to);
  }
  needs_.erase(from);
}

bool has_tile_loop(const OpDef& op, Dtype dtype) {
  // The same in every set. Kernels are registered before anybody could be told that the processor will not do.
  const Loops& baseline = *loops_for(Isa::kBaseline);
  const ElementwiseOp& row = *elementwise_op(op);
  return row.kind == ElementwiseOp::Kind::kConversion ||
         row.kind == ElementwiseOp::Kind::kCondition ||
         loop_in(op, lane_of(dtype), baseline) != nullptr;
}

TileProgram elementwise_program(const KernelRequest& request) {
  const TensorType& out = request.outputs[0].type;
  TileBuilder builder(request, {1, out.elements()}, false);
  std::vector<int> operands;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    operands.push_back(builder.input(i, Count::kFull));
  }
  builder.output(builder.map(request.op, operands, out.dtype, Count::kFull), 0);
  return builder.finish();
}

}  // namespace mstrain::cpu
