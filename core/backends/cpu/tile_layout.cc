#include "core/backends/cpu/tile_layout.h"

#include <algorithm>
#include <bit>

namespace mstrain::cpu {
namespace {

using Kind = TileStep::Kind;
using Count = TileStep::Count;
using Walk = TileWindow::Walk;

constexpr int64_t kTileBytes = 24 * 1024;  // of all tiles of a thread: most of the first cache
constexpr int64_t kLeastTile = 256;

// A piece of a thread's memory that registers of one kind take in turns.
struct Room {
  Count count;
  int width;
  int busy_until;  // step; a step may read and write it
  std::vector<Register> registers;
};

class Layout {
 public:
  Layout(TileProgram& program, std::map<Register, TileNeed> needs, Register registers,
         bool whole_rows, bool by_rows)
      : program_(program),
        needs_(std::move(needs)),
        registers_(registers),
        whole_rows_(whole_rows),
        by_rows_(by_rows) {}

  void run() {
    find_lives();
    place();
    find_in_place();
  }

 private:
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

  // Gives registers their rooms, in the order of their first steps.
  std::vector<Room> share() const {
    std::vector<TileNeed> needs;
    for (const auto& [reg, need] : needs_) {
      needs.push_back(need);
    }
    std::stable_sort(needs.begin(), needs.end(), [](const TileNeed& a, const TileNeed& b) {
      return std::pair(!a.once, a.first) < std::pair(!b.once, b.first);
    });
    std::vector<Room> rooms;
    for (const TileNeed& need : needs) {
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
  bool writes_over(const TileNeed& need, const Room& room) const {
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
      const bool has_blocks = std::ranges::any_of(program_.partials, &TilePartial::columns);
      if (has_blocks) {  // they are whole tiles
        program_.rows_per_tile = std::min<int64_t>(
            kRowsOfBlock, std::bit_floor(static_cast<uint64_t>(program_.rows_per_tile)));
      }
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

  int first_writer(Register reg) const {
    const auto writes = [&](const TileStep& step) {
      return std::find(step.out.begin(), step.out.begin() + step.outputs, reg) !=
             step.out.begin() + step.outputs;
    };
    const auto& steps = program_.steps;
    return static_cast<int>(std::find_if(steps.begin(), steps.end(), writes) - steps.begin());
  }
  // -1: none reads it.
  int last_reader(Register reg) const {
    const auto reads = [&](const TileStep& step) {
      return std::find(step.in.begin(), step.in.begin() + step.inputs, reg) !=
             step.in.begin() + step.inputs;
    };
    const auto& steps = program_.steps;
    return static_cast<int>(steps.rend() - std::find_if(steps.rbegin(), steps.rend(), reads)) - 1;
  }

  // An output may lie over a dense input of its size that no later step reads.
  void find_in_place() {
    for (const TileWindow& to : program_.windows) {
      if (!to.output || to.walk != Walk::kDense) {
        continue;
      }
      const int written = first_writer(to.reg);
      for (const TileWindow& from : program_.windows) {
        if (from.output || from.walk != Walk::kDense || from.size != to.size ||
            !is_read_once(from.tensor)) {
          continue;
        }
        const int read = last_reader(from.reg);
        const Kind kind = program_.steps[static_cast<size_t>(written)].kind;
        const bool together = kind == Kind::kLoop || kind == Kind::kRow;
        if (read < written || (read == written && together)) {
          program_.in_place.emplace_back(to.tensor, from.tensor);
        }
      }
    }
  }

  TileProgram& program_;
  std::map<Register, TileNeed> needs_;
  Register registers_;
  bool whole_rows_, by_rows_;
};

}  // namespace

void lay_out(TileProgram& program, std::map<Register, TileNeed> needs, Register registers,
             bool whole_rows, bool by_rows) {
  Layout(program, std::move(needs), registers, whole_rows, by_rows).run();
}

}  // namespace mstrain::cpu
