// From operations to programs of the tile machine: which operands are used where they lie, which tiles exist, how large
// they are.
#include <algorithm>
#include <map>

#include "core/backends/cpu/parallel.h"
#include "core/backends/cpu/tile_program.h"
#include "core/ops/elementwise.h"

namespace mstrain::cpu {
namespace {

using Kind = TileStep::Kind;
using Count = TileStep::Count;
using Walk = TileWindow::Walk;

constexpr int64_t kTileBytes = 24 * 1024;  // of all tiles of a thread: most of the first cache
constexpr int64_t kLeastTile = 256;
// Rows that are dense inside are used where they lie from this length on; of shorter ones several make a tile.
constexpr int64_t kLongRow = 256;

const ElementwiseLoop* find_loop(std::string_view name) {
  const ElementwiseLoops& table = *loops().elementwise;
  for (int i = 0; i < table.count; ++i) {
    if (name == table.rows[i].name) {
      return &table.rows[i];
    }
  }
  return nullptr;
}

TileLoop logical_loop(std::string_view name) {
  const ElementwiseLoops& table = *loops().elementwise;
  return name == "logical_and"   ? table.logical_and
         : name == "logical_or"  ? table.logical_or
         : name == "logical_not" ? table.logical_not
                                 : nullptr;
}

TileLoop loop_in(const ElementwiseLoop& loop, Lane lane) {
  return lane == Lane::kF32 ? loop.f32 : lane == Lane::kF64 ? loop.f64 : loop.i64;
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

// A value of the program.
struct Held {
  Dtype dtype = Dtype::kF32;
  Count count = Count::kFull;
  int input = -1;  // of the kernel, before it is first used
  Register tile = -1;
  Register numbers = -1;  // of bool: as integers
};

// Memory of a register, before its place is known.
struct Need {
  Register reg = 0;
  Count count = Count::kFull;
  int width = 0;
  bool once = false;          // lives throughout
  int first = -1, last = -1;  // steps
};

class Builder {
 public:
  Builder(const KernelRequest& request, FusedExtent extent, bool whole_rows)
      : request_(request), whole_rows_(whole_rows) {
    program_.rows = extent.rows;
    program_.n = extent.n;
    for (const ViewType& view : request.inputs) {
      const Shape strides[] = {view.strides};
      program_.views.push_back({make_nest(view.type.shape, strides), false});
    }
    if (!whole_rows) {
      find_rows();
    }
    by_rows_ = program_.n >= kLongRow &&
               std::any_of(program_.views.begin(), program_.views.end(),
                           [&](const TileView& view) { return is_rows(view.nest); });
  }

  int input(size_t i, Count count) {
    Held held{request_.inputs[i].type.dtype, count};
    held.input = static_cast<int>(i);
    program_.views[i].per_row = count == Count::kPerRow;
    values_.push_back(held);
    return static_cast<int>(values_.size()) - 1;
  }

  int constant(double value, Dtype dtype, Count count) {
    const int id = fresh(dtype, count);
    Held& held = values_[static_cast<size_t>(id)];
    held.tile = slot(count, width_of(tile_lane(dtype)), true);
    TileStep step{.kind = Kind::kFill, .count = count, .lane = tile_lane(dtype)};
    step.value = value;
    step.out[0] = held.tile;
    step.outputs = 1;
    program_.once.push_back(step);
    return id;
  }

  // `name`: of an elementwise operation. Returns the result.
  int map(std::string_view name, std::span<const int> operands, Dtype dtype, Count count) {
    if (name == "stop_gradient") {
      name = "identity";
    }
    const TileLoop logical = logical_loop(name);
    const auto dtype_of = [&](size_t i) { return values_[static_cast<size_t>(operands[i])].dtype; };
    // The lane of the operands whose type the operation works in.
    const Lane lane = lane_of(dtype_of(name == "where" ? 1 : 0));
    TileStep step{.count = count, .lane = lane};
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool condition = logical != nullptr || (name == "where" && i == 0);
      step.in[i] = condition ? tile(operands[i]) : numbers(operands[i]);
    }
    step.inputs = static_cast<int>(operands.size());
    if (name == "cast") {
      work_ += 1;
      return stored(step.in[0], lane, dtype, count);
    }
    const ElementwiseLoop* const row = find_loop(name);
    step.loop = logical != nullptr ? logical : loop_in(*row, lane);
    work_ += logical != nullptr ? 1 : row->weight;
    const bool bytes = logical != nullptr || (dtype == Dtype::kBool && is_comparison(name));
    const Lane made = bytes ? Lane::kU8 : lane;
    step.outputs = 1;
    if (bytes || is_lane_type(dtype)) {
      const int id = fresh(dtype, count);
      values_[static_cast<size_t>(id)].tile = step.out[0] = slot(count, width_of(made));
      push(step);
      return id;
    }
    step.out[0] = slot(count, width_of(made));
    push(step);
    return stored(step.out[0], made, dtype, count);
  }

  // One number a row becomes n of them.
  int spread(int value) {
    const Held held = values_[static_cast<size_t>(value)];
    const int id = fresh(held.dtype, Count::kFull);
    TileStep step{.kind = Kind::kSpread};
    step.size = width_of(tile_lane(held.dtype));
    take(step, {tile(value)});
    give(step, id, Count::kFull, step.size);
    push(step);
    work_ += 1;
    return id;
  }

  int fold_row(int value, TileStep::Fold fold, Dtype dtype) {
    const Lane lane = lane_of(values_[static_cast<size_t>(value)].dtype);
    TileStep step{.kind = Kind::kFoldRow, .lane = lane, .fold = fold};
    take(step, {tile(value)});
    work_ += 1;
    step.out[0] = slot(Count::kPerRow, width_of(lane));
    step.outputs = 1;
    push(step);
    return stored(step.out[0], lane, dtype, Count::kPerRow);
  }

  // A sum that only leaves the program, as kernel output `output`.
  void fold_out(int value, TileStep::Fold fold, bool columns, int output, Dtype dtype) {
    const Lane lane = lane_of(values_[static_cast<size_t>(value)].dtype);
    TileStep step{
        .kind = columns ? Kind::kFoldColumns : Kind::kFoldAll, .lane = lane, .fold = fold};
    take(step, {tile(value)});
    step.partial = partial(lane, columns, output, dtype);
    push(step);
    work_ += 1;
  }

  // An operation on rows; `sums` are the kernel outputs of its sums over rows (-1: not wanted).
  std::vector<int> row(TileStep::RowOp op, std::span<const int> operands, double eps,
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
    push(step);
    work_ += 8;
    std::vector<int> ids;
    for (size_t i = 0; i < tiles; ++i) {
      ids.push_back(
          stored(step.out[i], step.lane, results[i].dtype, i == 0 ? Count::kFull : Count::kPerRow));
    }
    return ids;
  }

  // `value` becomes kernel output `output`.
  void output(int value, int output) {
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
    push(step);
  }

  TileProgram finish() {
    find_lives();
    place();
    find_in_place();
    const int64_t tiles =
        (program_.rows + program_.rows_per_tile - 1) / program_.rows_per_tile *
        ((program_.n + program_.piece - 1) / std::max<int64_t>(program_.piece, 1));
    program_.threads = useful_threads(request_.threads, tiles, program_.rows * program_.n * work_);
    return std::move(program_);
  }

 private:
  static bool is_comparison(std::string_view name) {
    const ElementwiseOp* op = elementwise_op(*find_op(name));
    return op != nullptr && op->comparison;
  }

  // Where nothing needs whole rows, those of the strided operands are taken, if they agree.
  void find_rows() {
    int64_t inner = 0;
    for (const TileView& view : program_.views) {
      if (view.nest.dense(0) || view.nest.constant(0)) {
        continue;
      }
      if (inner != 0 && inner != view.nest.inner()) {
        return;
      }
      inner = view.nest.inner();
    }
    if (inner > 0) {
      program_.rows = program_.rows * program_.n / inner;
      program_.n = inner;
    }
  }

  bool is_rows(const Nest& nest) const {
    return !nest.dense(0) && nest.rank > 1 && nest.inner() == program_.n &&
           nest.inner_stride(0) == 1;
  }
  // Whether every row holds the same.
  bool repeats(const Nest& nest) const {
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

  int fresh(Dtype dtype, Count count) {
    values_.push_back({dtype, count});
    return static_cast<int>(values_.size()) - 1;
  }

  Register slot(Count count, int width, bool once = false) {
    const Register reg = registers_++;
    needs_[reg] = {reg, count, width, once};
    return reg;
  }
  Register window(Walk walk, bool output, int tensor, int size) {
    const Register reg = registers_++;
    TileWindow window{.reg = reg, .walk = walk, .output = output, .tensor = tensor, .size = size};
    if (!output) {
      window.nest = program_.views[static_cast<size_t>(tensor)].nest;
    }
    program_.windows.push_back(window);
    return reg;
  }

  void push(const TileStep& step) { program_.steps.push_back(step); }
  static void take(TileStep& step, std::initializer_list<Register> registers) {
    for (Register reg : registers) {
      step.in[static_cast<size_t>(step.inputs++)] = reg;
    }
  }
  void give(TileStep& step, int value, Count count, int width) {
    step.out[static_cast<size_t>(step.outputs++)] = values_[static_cast<size_t>(value)].tile =
        slot(count, width);
  }

  // An input as memory holds it.
  Register raw_input(const Held& held, bool& once) {
    const auto i = static_cast<size_t>(held.input);
    const Nest& nest = program_.views[i].nest;
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
    step.out[0] = slot(held.count, size, once);
    step.outputs = 1;
    (once ? program_.once : program_.steps).push_back(step);
    return step.out[0];
  }

  Register converted(Register from, ConvertLoop convert, Count count, int width, bool once) {
    TileStep step{.kind = Kind::kConvert, .count = count};
    step.convert = convert;
    take(step, {from});
    step.out[0] = slot(count, width, once);
    step.outputs = 1;
    (once ? program_.once : program_.steps).push_back(step);
    return step.out[0];
  }

  // The value as a tile.
  Register tile(int value) {
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

  // The same with bool as integers.
  Register numbers(int value) {
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

  // A result in `lane`, rounded to its type as if it had been in memory.
  int stored(Register reg, Lane lane, Dtype dtype, Count count) {
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
  // Whether a register is another value already.
  bool is_shared(Register reg) const {
    return std::any_of(values_.begin(), values_.end(),
                       [&](const Held& held) { return held.tile == reg || held.numbers == reg; });
  }

  // The register that holds the value as memory would.
  Register memory_form(int value) {
    const Held& held = values_[static_cast<size_t>(value)];
    if (is_tile(held.dtype) || !raw_.contains(value)) {
      const Register reg = tile(value);
      return is_tile(held.dtype) ? reg : raw_.at(value);
    }
    return raw_.at(value);
  }

  int partial(Lane lane, bool columns, int output, Dtype dtype) {
    program_.partials.push_back({columns, output, lane, 0, store_of(lane, dtype)});
    return static_cast<int>(program_.partials.size()) - 1;
  }

  void rename(Register from, Register to) {
    for (TileStep& step : program_.steps) {
      std::replace(step.in.begin(), step.in.begin() + step.inputs, from, to);
      std::replace(step.out.begin(), step.out.begin() + step.outputs, from, to);
    }
    needs_.erase(from);
  }

  void find_lives() {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const TileStep& step = program_.steps[s];
      const auto touch = [&](Register reg) {
        if (const auto need = needs_.find(reg); need != needs_.end()) {
          need->second.first = need->second.first < 0 ? static_cast<int>(s) : need->second.first;
          need->second.last = static_cast<int>(s);
        }
      };
      std::for_each_n(step.in.begin(), step.inputs, touch);
      std::for_each_n(step.out.begin(), step.outputs, touch);
    }
  }

  // A piece of a thread's memory that registers of one kind take in turns.
  struct Room {
    Count count;
    int width;
    int busy_until;  // step; a step may read and write it
    std::vector<Register> registers;
  };

  // Gives registers their rooms, in the order of their first steps.
  std::vector<Room> share() const {
    std::vector<Need> needs;
    for (const auto& [reg, need] : needs_) {
      needs.push_back(need);
    }
    std::stable_sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) {
      return std::pair(!a.once, a.first) < std::pair(!b.once, b.first);
    });
    std::vector<Room> rooms;
    for (const Need& need : needs) {
      const auto fits = [&](const Room& room) {
        return !need.once && room.count == need.count && room.width == need.width &&
               room.busy_until <= need.first && writes_over(need, room);
      };
      const auto room = std::find_if(rooms.begin(), rooms.end(), fits);
      if (room == rooms.end()) {
        rooms.push_back({need.count,
                         need.width,
                         need.once ? static_cast<int>(program_.steps.size()) + 1 : need.last,
                         {need.reg}});
      } else {
        room->busy_until = need.last;
        room->registers.push_back(need.reg);
      }
    }
    return rooms;
  }
  // Whether a register whose room is last read by the step that first writes it may lie there.
  bool writes_over(const Need& need, const Room& room) const {
    const Kind kind = program_.steps[static_cast<size_t>(need.first)].kind;
    return room.busy_until < need.first || kind == Kind::kLoop;
  }

  // The size of tiles, then where everything lies.
  void place() {
    const std::vector<Room> rooms = share();
    int64_t width = 0;
    for (const Room& room : rooms) {
      width += room.count == Count::kFull ? room.width : 0;
    }
    const int64_t most = width == 0 ? kTile : kTileBytes / width / 16 * 16;
    const int64_t tile = std::clamp<int64_t>(most, kLeastTile, kTile);
    if (whole_rows_ || program_.n <= tile) {
      program_.piece = std::max<int64_t>(program_.n, 1);
      program_.rows_per_tile = by_rows_ ? 1 : std::max<int64_t>(1, tile / program_.piece);
      program_.rows_per_tile =
          std::min(program_.rows_per_tile, std::max<int64_t>(program_.rows, 1));
    } else {
      program_.piece = tile;
      program_.rows_per_tile = 1;
    }
    int64_t bytes = 0;
    const auto reserve = [&](int64_t size) {
      const int64_t offset = bytes;
      bytes += (size + 63) / 64 * 64;
      return offset;
    };
    reserve(registers_ * static_cast<int64_t>(sizeof(void*)));
    for (const Room& room : rooms) {
      const int64_t elements = room.count == Count::kFull ? program_.rows_per_tile * program_.piece
                               : room.count == Count::kPerRow ? program_.rows_per_tile
                                                              : program_.n;
      const int64_t offset = reserve(elements * room.width);
      for (Register reg : room.registers) {
        program_.slots.push_back({reg, offset});
      }
    }
    for (TilePartial& partial : program_.partials) {
      const int size = partial.lane == Lane::kF64 ? 8 : 4;
      partial.offset = reserve(partial.columns ? 2 * program_.n * size : 8);
    }
    program_.thread_bytes = bytes;
  }

  // Whether one register alone shows a tensor.
  bool is_read_once(int tensor) const {
    const auto shows = [&](const TileWindow& window) {
      return !window.output && window.tensor == tensor;
    };
    const auto gathers = [&](const TileStep& step) {
      return step.kind == Kind::kGather && step.input == tensor;
    };
    return std::count_if(program_.windows.begin(), program_.windows.end(), shows) == 1 &&
           std::none_of(program_.once.begin(), program_.once.end(), gathers) &&
           std::none_of(program_.steps.begin(), program_.steps.end(), gathers);
  }

  // An output may lie over a dense input of its size that no later step reads.
  void find_in_place() {
    const auto steps_of = [&](Register reg, bool writes) {
      int found = -1;
      for (size_t s = 0; s < program_.steps.size(); ++s) {
        const TileStep& step = program_.steps[s];
        const auto begin = writes ? step.out.begin() : step.in.begin();
        if (std::find(begin, begin + (writes ? step.outputs : step.inputs), reg) !=
                begin + (writes ? step.outputs : step.inputs) &&
            (found < 0 || !writes)) {
          found = static_cast<int>(s);
        }
      }
      return found;
    };
    for (const TileWindow& to : program_.windows) {
      if (!to.output || to.walk != Walk::kDense) {
        continue;
      }
      const int written = steps_of(to.reg, true);
      for (const TileWindow& from : program_.windows) {
        if (from.output || from.walk != Walk::kDense || from.size != to.size ||
            !is_read_once(from.tensor)) {
          continue;
        }
        const int read = steps_of(from.reg, false);
        const Kind kind = program_.steps[static_cast<size_t>(written)].kind;
        const bool together = kind == Kind::kLoop || kind == Kind::kRow;
        if (read < written || (read == written && together)) {
          program_.in_place.emplace_back(to.tensor, from.tensor);
        }
      }
    }
  }

  const KernelRequest& request_;
  bool whole_rows_;
  bool by_rows_ = false;
  TileProgram program_;
  std::vector<Held> values_;
  std::map<int, Register> raw_;  // by value: as memory would hold it, where tiles do not
  std::map<Register, Need> needs_;
  Register registers_ = 0;
  int64_t work_ = 0;  // per element, relative to an addition
};

TileStep::Fold fold_of(std::string_view name) {
  return name == "reduce_max"    ? TileStep::Fold::kMax
         : name == "reduce_min"  ? TileStep::Fold::kMin
         : name == "sum_squares" ? TileStep::Fold::kSumSquares
                                 : TileStep::Fold::kSum;
}

TileStep::RowOp row_op_of(std::string_view name) {
  using Op = TileStep::RowOp;
  static const std::map<std::string_view, Op> kNames = {
      {"softmax", Op::kSoftmax},          {"log_softmax", Op::kLogSoftmax},
      {"softmax_grad", Op::kSoftmaxGrad}, {"log_softmax_grad", Op::kLogSoftmaxGrad},
      {"layer_norm", Op::kLayerNorm},     {"layer_norm_grad", Op::kLayerNormGrad},
      {"rms_norm", Op::kRmsNorm},         {"rms_norm_grad", Op::kRmsNormGrad}};
  return kNames.at(name);
}

// Goes through a body and gives each member its steps.
class BodyWalk {
 public:
  explicit BodyWalk(const KernelRequest& request)
      : request_(request),
        body_(*request.attrs.graph("body")),
        extent_{request.attrs.integer("rows"), request.attrs.integer("n")},
        roles_(body_.size()),
        values_(body_.size()),
        live_(body_.live()),
        builder_(request, extent_, find_roles()) {
    for (NodeId id = 0; id < body_.size(); ++id) {
      values_[id].assign(body_.node(id).outputs.size(), -1);
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      results_[body_.outputs()[i]] = static_cast<int>(i);
    }
  }

  TileProgram run() {
    for (NodeId id = 0; id < body_.size(); ++id) {
      if (live_[id] && body_.node(id).op != &kInputOp) {
        add(id);
      }
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const Value value = body_.outputs()[i];
      if (!is_sum(value)) {
        builder_.output(operand(value), static_cast<int>(i));
      }
    }
    return builder_.finish();
  }

 private:
  // Whether some member needs rows as a whole.
  bool find_roles() {
    bool whole = false;
    for (NodeId id = 0; id < body_.size(); ++id) {
      const Node& node = body_.node(id);
      if (!live_[id] || node.op == &kInputOp) {
        continue;
      }
      Types inputs;
      for (const Value& value : node.inputs) {
        inputs.push_back(body_.type(value));
      }
      roles_[id] = *fused_role(*node.op, node.attrs, inputs, node.outputs, extent_);
      whole = whole || roles_[id] == FusedRole::kSpread || roles_[id] == FusedRole::kFoldRow ||
              roles_[id] == FusedRole::kFoldColumns || roles_[id] == FusedRole::kRow;
    }
    return whole;
  }

  Count count_of(const Value& value) const {
    return body_.type(value).elements() == extent_.elements() ? Count::kFull : Count::kPerRow;
  }

  // A value that only leaves the program.
  bool is_sum(const Value& value) const {
    const Node& node = body_.node(value.node);
    return node.op != &kInputOp && (roles_[value.node] == FusedRole::kFoldColumns ||
                                    roles_[value.node] == FusedRole::kFoldAll ||
                                    is_fused_column_sum(*node.op, value.output));
  }

  int operand(const Value& value, bool parameter = false) {
    if (body_.node(value.node).op != &kInputOp) {
      return values_[value.node][value.output];
    }
    int& held = (parameter ? parameters_ : inputs_)[value.node];
    if (held == 0) {
      const auto& inputs = body_.inputs();
      const auto at =
          static_cast<size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
      held = builder_.input(at, parameter ? Count::kParameter : count_of(value)) + 1;
    }
    return held - 1;
  }

  int result_of(const Value& value) const {
    const auto found = results_.find(value);
    return found == results_.end() ? -1 : found->second;
  }

  void add(NodeId id) {
    const Node& node = body_.node(id);
    int& result = values_[id][0];
    const TensorType& type = node.outputs[0];
    switch (roles_[id]) {
      case FusedRole::kConstant:
        result = builder_.constant(node.attrs.number("value"), type.dtype, count_of({id, 0}));
        return;
      case FusedRole::kMove: result = operand(node.inputs[0]); return;
      case FusedRole::kSpread: result = builder_.spread(operand(node.inputs[0])); return;
      case FusedRole::kFoldRow:
        result = builder_.fold_row(operand(node.inputs[0]), fold_of(node.op->name), type.dtype);
        return;
      case FusedRole::kFoldColumns:
      case FusedRole::kFoldAll:
        builder_.fold_out(operand(node.inputs[0]), fold_of(node.op->name),
                          roles_[id] == FusedRole::kFoldColumns, result_of({id, 0}), type.dtype);
        return;
      case FusedRole::kMap: {
        std::vector<int> operands;
        for (const Value& value : node.inputs) {
          operands.push_back(operand(value));
        }
        result = builder_.map(node.op->name, operands, type.dtype, count_of({id, 0}));
        return;
      }
      case FusedRole::kRow: add_row(id); return;
    }
  }

  void add_row(NodeId id) {
    const Node& node = body_.node(id);
    std::vector<int> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(operand(node.inputs[i], is_fused_parameter(*node.op, i)));
    }
    std::vector<int> sums;
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      if (is_fused_column_sum(*node.op, i)) {
        sums.push_back(result_of({id, i}));
      }
    }
    const double eps = node.attrs.find("eps") == nullptr ? 0 : node.attrs.number("eps");
    const std::vector<int> made =
        builder_.row(row_op_of(node.op->name), operands, eps, node.outputs, sums);
    std::copy(made.begin(), made.end(), values_[id].begin());
  }

  const KernelRequest& request_;
  const Graph& body_;
  FusedExtent extent_;
  std::vector<FusedRole> roles_;
  std::vector<std::vector<int>> values_;  // by node, output
  std::vector<bool> live_;
  std::map<NodeId, int> inputs_, parameters_;  // plus one
  std::map<Value, int> results_;
  Builder builder_;
};

}  // namespace

bool has_tile_loop(std::string_view op, Dtype dtype) {
  if (op == "cast" || op == "stop_gradient" || logical_loop(op) != nullptr) {
    return true;
  }
  const ElementwiseLoop* row = find_loop(op);
  return row != nullptr && loop_in(*row, lane_of(dtype)) != nullptr;
}

TileProgram elementwise_program(const KernelRequest& request) {
  const TensorType& out = request.outputs[0].type;
  Builder builder(request, {1, out.elements()}, false);
  std::vector<int> operands;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    operands.push_back(builder.input(i, Count::kFull));
  }
  builder.output(builder.map(request.op.name, operands, out.dtype, Count::kFull), 0);
  return builder.finish();
}

TileProgram fused_program(const KernelRequest& request) { return BodyWalk(request).run(); }

}  // namespace mstrain::cpu
