#include "suites/reinforcement/train/step_store.h"

#include <algorithm>

#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {

StepsInMemory::StepsInMemory(const StoreShape& shape) : StepStore(shape) {
  ring_.reserve(count(shape_.steps * shape_.step_numbers()));
}

void StepsInMemory::add(std::span<const float> step) {
  const size_t at = count(added_ % shape_.steps * shape_.step_numbers());
  if (ring_.size() == at) {
    ring_.insert(ring_.end(), step.begin(), step.end());
  } else {
    std::ranges::copy(step, ring_.begin() + static_cast<ptrdiff_t>(at));
  }
  ++added_;
}

std::span<const float> StepsInMemory::at(int64_t step, int64_t row) const {
  const int64_t begin = (step % shape_.steps * shape_.rows + row) * shape_.numbers;
  return std::span(ring_).subspan(count(begin), count(shape_.numbers));
}

void StepsInMemory::save(ByteWriter& to) const {
  to.put(added_);
  to.put_all(ring_);
}

void StepsInMemory::load(ByteReader& from) {
  added_ = from.get<int64_t>();
  ring_ = from.get_all<float>(count(std::min(added_, shape_.steps) * shape_.step_numbers()));
  ring_.reserve(count(shape_.steps * shape_.step_numbers()));
}

}  // namespace mstrain::reinforcement
