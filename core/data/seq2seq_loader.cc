#include "core/data/seq2seq_loader.h"

namespace mstrain {
namespace {

std::vector<Seq2SeqBatch> make_slots(const Seq2SeqSource& source, const LoaderOptions& options) {
  const auto of = [&](int64_t length, bool there) {
    return std::vector<int32_t>(there ? static_cast<size_t>(options.batch.rows() * length) : 0);
  };
  const int64_t from = source.source_length();
  const int64_t to = source.target_length();
  const Rows rows = source.rows();
  const Seq2SeqBatch empty{of(from, true), of(from, rows != Rows::kFull), of(to, true),
                           of(to, true), of(to, rows == Rows::kPacked)};
  return std::vector<Seq2SeqBatch>(static_cast<size_t>(BatchQueue::slots_for(options)), empty);
}

std::span<int32_t> row_of(std::vector<int32_t>& part, int64_t row, int64_t length) {
  return part.empty() ? std::span<int32_t>()
                      : std::span(part).subspan(static_cast<size_t>(row * length),
                                                static_cast<size_t>(length));
}

}  // namespace

Seq2SeqLoader::Seq2SeqLoader(std::shared_ptr<const Seq2SeqSource> source,
                             const LoaderOptions& options, LoaderState state)
    : source_(std::move(source)),
      slots_(make_slots(*source_, options)),
      queue_(
          [this](int64_t sample, int slot, int64_t row) {
            Seq2SeqBatch& batch = slots_[static_cast<size_t>(slot)];
            const int64_t from = source_->source_length();
            const int64_t to = source_->target_length();
            source_->read(sample, {.source = row_of(batch.source, row, from),
                                   .source_segments = row_of(batch.source_segments, row, from),
                                   .target = row_of(batch.target, row, to),
                                   .labels = row_of(batch.labels, row, to),
                                   .target_segments = row_of(batch.target_segments, row, to)});
          },
          options, state) {}

}  // namespace mstrain
