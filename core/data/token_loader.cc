#include "core/data/token_loader.h"

#include <span>

namespace mstrain {
namespace {

std::vector<TokenBatch> make_token_slots(const LoaderOptions& options, int64_t seq) {
  const auto size = static_cast<size_t>(options.batch.rows() * seq);
  const TokenBatch empty{options.batch.rows(), seq, std::vector<int32_t>(size),
                         std::vector<int32_t>(size)};
  return std::vector<TokenBatch>(BatchQueue::slots_for(options), empty);
}

}  // namespace

TokenLoader::TokenLoader(std::shared_ptr<const WindowSource> source, const LoaderOptions& options,
                         LoaderState state)
    : source_(std::move(source)),
      slots_(make_token_slots(options, source_->seq_length())),
      queue_(
          [this](int64_t sample, int slot, int64_t row) {
            TokenBatch& batch = slots_[slot];
            const auto row_of = [&](std::vector<int32_t>& values) {
              return std::span(values).subspan(row * batch.seq, batch.seq);
            };
            source_->read(sample, row_of(batch.tokens), row_of(batch.targets));
          },
          options, state) {}

}  // namespace mstrain
