// Elementwise operations as a small tile machine: operands are brought into tiles that stay in the first cache (or used
// where they lie), one vector loop runs, and the result is stored.
#include <cstring>
#include <string_view>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/loops.h"
#include "core/backends/cpu/nest.h"
#include "core/backends/cpu/parallel.h"
#include "core/ops/elementwise.h"

namespace mstrain::cpu {
namespace {

constexpr int kMaxInputs = 3;
// From here on rows are walked one by one; shorter ones are gathered until a tile is full.
constexpr int64_t kLongRow = 128;

struct Input {
  Dtype dtype = Dtype::kF32;
  int size = 4;
  ConvertLoop load = nullptr;  // null: memory is a tile as it stands
};

struct Program {
  int arity = 1;
  std::array<Input, kMaxInputs> inputs;
  TileLoop loop = nullptr;      // null: a cast, which only stores
  ConvertLoop store = nullptr;  // null: the loop writes memory
  int out_size = 4;
  int64_t elements = 0;
  int threads = 1;
  Nest nest;
};

// Room of one thread for one tile of every operand, as found in memory and as loaded.
struct Tiles {
  alignas(64) std::byte raw[kMaxInputs][kTile * 8];
  alignas(64) std::byte lane[kMaxInputs][kTile * 8];
  alignas(64) std::byte out[kTile * 8];
};

template <class T>
void gather(const std::byte* from, int64_t stride, int64_t n, std::byte* to) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (stride == 0) {
    std::fill_n(y, n, *x);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i * stride];
  }
}
void gather(int size, const std::byte* from, int64_t stride, int64_t n, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * size));
    return;
  }
  switch (size) {
    case 1: gather<uint8_t>(from, stride, n, to); break;
    case 2: gather<uint16_t>(from, stride, n, to); break;
    case 4: gather<uint32_t>(from, stride, n, to); break;
    default: gather<uint64_t>(from, stride, n, to); break;
  }
}

// One input while a thread walks its chunk; remembers what its tile holds, for operands that repeat.
struct Cursor {
  const std::byte* base = nullptr;
  const std::byte* filled_from = nullptr;
  int64_t filled = 0;
};

class Walker {
 public:
  Walker(const Program& program, const KernelMemory& memory) : program_(program) {
    for (int i = 0; i < program.arity; ++i) {
      cursors_[static_cast<size_t>(i)].base =
          static_cast<const std::byte*>(memory.inputs[static_cast<size_t>(i)]);
    }
    out_ = static_cast<std::byte*>(memory.outputs[0]);
  }

  void run(int64_t begin, int64_t end) {
    const int64_t inner = program_.nest.inner();
    const bool by_rows = program_.nest.rank == 1 || inner >= kLongRow;
    for (int64_t at = begin; at < end;) {
      const int64_t row = at / inner;
      const int64_t column = at % inner;
      int64_t n = std::min<int64_t>(kTile, end - at);
      if (by_rows) {
        n = std::min(n, inner - column);
      }
      const void* loaded[kMaxInputs] = {};
      for (int i = 0; i < program_.arity; ++i) {
        loaded[i] = by_rows ? load_row(i, row, column, n) : load_rows(i, row, column, n);
      }
      finish(loaded, at, n);
      at += n;
    }
  }

 private:
  const void* convert(int i, const std::byte* raw, int64_t n) {
    const Input& input = program_.inputs[static_cast<size_t>(i)];
    if (input.load == nullptr) {
      return raw;
    }
    input.load(n, raw, tiles_.lane[i]);
    return tiles_.lane[i];
  }

  const void* load_row(int i, int64_t row, int64_t column, int64_t n) {
    const Input& input = program_.inputs[static_cast<size_t>(i)];
    const int64_t stride = program_.nest.inner_stride(i);
    Cursor& cursor = cursors_[static_cast<size_t>(i)];
    const std::byte* from =
        cursor.base + (program_.nest.row_offset(i, row) + column * stride) * input.size;
    if (stride == 1) {
      return convert(i, from, n);
    }
    if (stride == 0) {
      if (cursor.filled_from != from || cursor.filled < n) {
        gather(input.size, from, 0, n, tiles_.raw[i]);
        convert(i, tiles_.raw[i], n);
        cursor.filled_from = from;
        cursor.filled = n;
      }
      return input.load == nullptr ? tiles_.raw[i] : tiles_.lane[i];
    }
    gather(input.size, from, stride, n, tiles_.raw[i]);
    return convert(i, tiles_.raw[i], n);
  }

  const void* load_rows(int i, int64_t row, int64_t column, int64_t n) {
    const Input& input = program_.inputs[static_cast<size_t>(i)];
    const int64_t inner = program_.nest.inner();
    const int64_t stride = program_.nest.inner_stride(i);
    const std::byte* base = cursors_[static_cast<size_t>(i)].base;
    for (int64_t done = 0; done < n; ++row, column = 0) {
      const int64_t count = std::min(inner - column, n - done);
      const std::byte* from =
          base + (program_.nest.row_offset(i, row) + column * stride) * input.size;
      gather(input.size, from, stride, count, tiles_.raw[i] + done * input.size);
      done += count;
    }
    return convert(i, tiles_.raw[i], n);
  }

  void finish(const void* const* loaded, int64_t at, int64_t n) {
    std::byte* out = out_ + at * program_.out_size;
    if (program_.loop == nullptr) {
      program_.store(n, loaded[0], out);
    } else if (program_.store == nullptr) {
      program_.loop(n, loaded, out);
    } else {
      program_.loop(n, loaded, tiles_.out);
      program_.store(n, tiles_.out, out);
    }
  }

  const Program& program_;
  std::array<Cursor, kMaxInputs> cursors_;
  std::byte* out_;
  Tiles tiles_;
};

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

Kernel prepare(const KernelRequest& request) {
  const ElementwiseLoops& table = *loops().elementwise;
  const Dtype out = request.outputs[0].type.dtype;
  Program program;
  program.arity = static_cast<int>(request.inputs.size());
  program.out_size = size_of(out);
  program.elements = request.outputs[0].type.elements();
  const std::string_view name = request.op.name == "stop_gradient" ? "identity" : request.op.name;
  int weight = 1;
  const TileLoop logical = logical_loop(name);
  // The lane of the operands whose type the operation works in.
  const Dtype worked = request.inputs[name == "where" ? 1 : 0].type.dtype;
  const Lane lane = lane_of(worked);
  const ElementwiseLoop* const loop = find_loop(name);
  if (logical != nullptr) {
    program.loop = logical;
  } else if (name == "cast") {
    program.store = table.store[static_cast<int>(lane)][static_cast<int>(out)];
  } else {
    program.loop = loop_in(*loop, lane);
    weight = loop->weight;
    const bool bytes = out == Dtype::kBool && worked != Dtype::kBool;
    const bool comparison = bytes || name == "equal" || name == "not_equal" || name == "less" ||
                            name == "less_equal" || name == "greater" || name == "greater_equal";
    if (!comparison && !is_lane_type(out)) {
      program.store = table.store[static_cast<int>(lane)][static_cast<int>(out)];
    }
  }
  std::array<Shape, kMaxInputs> strides;
  for (int i = 0; i < program.arity; ++i) {
    const ViewType& view = request.inputs[static_cast<size_t>(i)];
    Input& input = program.inputs[static_cast<size_t>(i)];
    input.dtype = view.type.dtype;
    input.size = size_of(input.dtype);
    const bool condition = logical != nullptr || (name == "where" && i == 0);
    if (!condition && !is_lane_type(input.dtype)) {
      input.load = table.load[static_cast<int>(input.dtype)];
      weight += 1;
    }
    strides[static_cast<size_t>(i)] = view.strides;
  }
  program.nest =
      make_nest(request.outputs[0].type.shape, std::span(strides.data(), request.inputs.size()));
  program.threads =
      useful_threads(request.threads, program.elements / kTile + 1, program.elements * weight);
  return {[program](const KernelMemory& memory) {
    if (program.elements == 0) {
      return;
    }
    parallel_chunks(program.threads, program.elements, kTile, [&](int64_t begin, int64_t end, int) {
      Walker(program, memory).run(begin, end);
    });
  }};
}

}  // namespace

Kernel cast_kernel(const ViewType& view, Dtype dtype, int threads) {
  const ViewType out = ViewType::dense({dtype, view.type.shape});
  return prepare({*find_op("cast"), {}, std::span(&view, 1), std::span(&out, 1), threads});
}

void register_elementwise() {
  const auto add = [](std::string_view name) {
    const ElementwiseOp& op = *elementwise_op(*find_op(name));
    KernelEntry entry{.prepare = prepare, .strided_inputs = true};
    // Operands that have the result's type; the executor checks the rest.
    for (int i = name == "where" ? 1 : 0; i < op.arity; ++i) {
      entry.in_place.emplace_back(0, i);
    }
    register_kernel(Backend::kCpu, name, std::move(entry));
  };
  const ElementwiseLoops& table = *loops().elementwise;
  for (int i = 0; i < table.count; ++i) {
    add(table.rows[i].name);
  }
  for (const char* name : {"stop_gradient", "cast", "logical_and", "logical_or", "logical_not"}) {
    add(name);
  }
}

}  // namespace mstrain::cpu
