#include "suites/recommender/embedding/pooled_bags.h"

#include <algorithm>
#include <numeric>

#include "embedding_cache/pool.h"

namespace mstrain::recommender {
namespace {

using embedding_cache::Bags;

constexpr int64_t kBagsAtOnce = 64;
constexpr int64_t kSumsAtOnce = 256;

int64_t sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

PooledBags::PooledBags(const std::vector<Placement::Whole>& wholes, std::vector<FieldBags> asked,
                       std::span<const int64_t> sends, size_t samples, int rank)
    : wholes_(&wholes), asked_(std::move(asked)), first_id_(sends.size()), samples_(samples) {
  std::exclusive_scan(sends.begin(), sends.end(), first_id_.begin(), size_t{0});
  for (size_t w = 0; w < wholes.size(); ++w) {
    if (wholes[w].owner == rank) {
      mine_.push_back(w);
    }
  }
}

int64_t PooledBags::bags() const {
  return std::count_if(asked_.begin(), asked_.end(),
                       [](const FieldBags& of) { return of.are_pooled(); }) *
         static_cast<int64_t>(samples_);
}

template <class F>
void PooledBags::each_own(const F& visit) const {
  size_t first = 0;
  for (size_t i = 0; i < to_pool_.size(); ++i) {
    if (to_pool_[i].are_pooled()) {
      visit(i, i / mine_.size(), first);
      first += samples_ * width_;
    }
  }
}

template <class F>
void PooledBags::each_others(const F& visit) const {
  size_t first = 0;
  for (size_t rank = 0; rank < first_id_.size(); ++rank) {
    for (size_t w = 0; w < wholes_->size(); ++w) {
      if (asked_[w].are_pooled() && static_cast<size_t>((*wholes_)[w].owner) == rank) {
        visit(w, rank, first);
        first += samples_ * width_;
      }
    }
  }
}

void PooledBags::put_counts(int rank, std::vector<int64_t>& out) const {
  for (size_t w = 0; w < wholes_->size(); ++w) {
    if ((*wholes_)[w].owner == rank) {
      out.push_back(asked_[w].are_pooled() ? std::ssize(asked_[w].ids) : -1);
    }
  }
}

const int64_t* PooledBags::take_counts(const int64_t* counts) {
  positions_.insert(positions_.end(), counts, counts + mine_.size());
  return counts + mine_.size();
}

// For each field the ends of its bags, then the places of its ids among those for the rank.
Message<uint32_t>& PooledBags::ask() {
  bags_.sends.assign(first_id_.size(), 0);
  each_others([&](size_t w, size_t rank, size_t) {
    const FieldBags& of = asked_[w];
    bags_.sent.insert(bags_.sent.end(), of.offsets.begin() + 1, of.offsets.end());
    for (const uint32_t id : of.ids) {
      bags_.sent.push_back(id - static_cast<uint32_t>(first_id_[rank]));
    }
    bags_.sends[rank] += static_cast<int64_t>(samples_ + of.ids.size());
  });
  bags_.receives.assign(first_id_.size(), 0);
  for (size_t i = 0; i < positions_.size(); ++i) {
    if (positions_[i] >= 0) {
      bags_.receives[i / mine_.size()] += static_cast<int64_t>(samples_) + positions_[i];
    }
  }
  bags_.came.resize(static_cast<size_t>(sum(bags_.receives)));
  return bags_;
}

void PooledBags::asked(std::span<const int64_t> receives) {
  to_pool_.resize(positions_.size());
  const uint32_t* at = bags_.came.data();
  uint32_t first = 0;
  for (size_t i = 0; i < to_pool_.size(); ++i) {
    if (i > 0 && i % mine_.size() == 0) {
      first += static_cast<uint32_t>(receives[i / mine_.size() - 1]);
    }
    if (positions_[i] < 0) {
      continue;
    }
    FieldBags& of = to_pool_[i];
    of.offsets.push_back(0);
    of.offsets.insert(of.offsets.end(), at, at + samples_);
    at += samples_;
    for (const uint32_t* const end = at + positions_[i]; at < end; ++at) {
      of.ids.push_back(first + *at);
    }
  }
}

// By position, as TableKeys has them.
std::vector<float> PooledBags::weights_of(size_t own) const {
  std::vector<float> weights;
  const std::vector<uint32_t>& offsets = to_pool_[own].offsets;
  if ((*wholes_)[mine_[own % mine_.size()]].is_mean) {
    for (size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
      const uint32_t count = offsets[bag + 1] - offsets[bag];
      weights.insert(weights.end(), count, 1.0F / static_cast<float>(count));
    }
  }
  return weights;
}

Message<float>& PooledBags::pool(const std::byte* const* records, size_t width,
                                 ThreadPool& workers) {
  width_ = width;
  const auto floats = static_cast<int64_t>(samples_ * width_);
  vectors_.sends.assign(first_id_.size(), 0);
  each_own([&](size_t, size_t rank, size_t) { vectors_.sends[rank] += floats; });
  vectors_.receives.assign(first_id_.size(), 0);
  each_others([&](size_t, size_t rank, size_t) { vectors_.receives[rank] += floats; });
  vectors_.sent.resize(static_cast<size_t>(sum(vectors_.sends)));
  vectors_.came.resize(static_cast<size_t>(sum(vectors_.receives)));
  each_own([&](size_t own, size_t, size_t first) {
    const FieldBags& of = to_pool_[own];
    const std::vector<float> weights = weights_of(own);
    const embedding_cache::PoolJob job{
        .records = records,
        .inverse = of.ids,
        .bags = {.offsets = of.offsets, .weights = weights},
        .columns = {.first = 0, .width = static_cast<uint32_t>(width)},
        .out = vectors_.sent.data() + first,
        .stride = width};
    workers.parallel_for(static_cast<int64_t>(samples_), kBagsAtOnce,
                         [&](int64_t begin, int64_t end) {
                           pool_rows(job, static_cast<size_t>(begin), static_cast<size_t>(end));
                         });
  });
  return vectors_;
}

void PooledBags::take(float* out, size_t stride) const {
  each_others([&](size_t w, size_t, size_t first) {
    float* const column = out + (*wholes_)[w].field * width_;
    for (size_t s = 0; s < samples_; ++s) {
      std::copy_n(vectors_.came.data() + first + s * width_, width_, column + s * stride);
    }
  });
}

Message<float>& PooledBags::give(const float* gradients, size_t stride) {
  gradients_.sends = vectors_.receives;
  gradients_.receives = vectors_.sends;
  gradients_.sent.resize(vectors_.came.size());
  gradients_.came.resize(vectors_.sent.size());
  each_others([&](size_t w, size_t, size_t first) {
    const float* const column = gradients + (*wholes_)[w].field * width_;
    for (size_t s = 0; s < samples_; ++s) {
      std::copy_n(column + s * stride, width_, gradients_.sent.data() + first + s * width_);
    }
  });
  return gradients_;
}

void PooledBags::learn(const embedding_cache::RowLayout& layout, ThreadPool& workers,
                       float* learned) const {
  embedding_cache::Dedup dedup;
  each_own([&](size_t own, size_t, size_t first) {
    const FieldBags& of = to_pool_[own];
    const std::vector<float> weights = weights_of(own);
    embedding_cache::Batch distinct;
    dedup.run(std::vector<embedding_cache::Id>(of.ids.begin(), of.ids.end()), distinct);
    const embedding_cache::BagGradients gradients{
        {.offsets = of.offsets, .weights = weights, .segment = 0},
        gradients_.came.data() + first,
        width_};
    const embedding_cache::BagSums sums(distinct, layout, /*records=*/nullptr,
                                        std::span(&gradients, 1), workers);
    workers.parallel_for(std::ssize(distinct.unique), kSumsAtOnce, [&](int64_t begin, int64_t end) {
      for (auto u = static_cast<size_t>(begin); u < static_cast<size_t>(end); ++u) {
        sums.add_up(u, learned + distinct.unique[u] * width_);
      }
    });
  });
}

}  // namespace mstrain::recommender
