#include "core/data/token_stream.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

class Slice final : public TokenStream {
 public:
  Slice(TokenStreamPtr stream, int64_t begin, int64_t end)
      : stream_(std::move(stream)), begin_(begin), end_(end) {}
  int64_t size() const override { return end_ - begin_; }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size(),
          "tokens {} to {} lie outside a part of {} tokens", begin, begin + out.size(), size());
    stream_->read(begin_ + begin, out);
  }
  std::vector<int64_t> document_ends() const override {
    std::vector<int64_t> ends;
    for (const int64_t end : stream_->document_ends()) {
      if (end > begin_ && end < end_) {
        ends.push_back(end - begin_);
      }
    }
    ends.push_back(size());
    return ends;
  }

 private:
  TokenStreamPtr stream_;
  int64_t begin_;
  int64_t end_;
};

class Concat final : public TokenStream {
 public:
  explicit Concat(std::vector<TokenStreamPtr> streams) : streams_(std::move(streams)) {
    for (const TokenStreamPtr& stream : streams_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + stream->size());
    }
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size(),
          "tokens {} to {} lie outside a stream of {} tokens", begin, begin + out.size(), size());
    size_t i = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
    for (; !out.empty(); ++i) {
      const size_t n = std::min<size_t>(out.size(), ends_[i] - begin);
      streams_[i]->read(begin - (ends_[i] - streams_[i]->size()), out.first(n));
      out = out.subspan(n);
      begin += static_cast<int64_t>(n);
    }
  }
  std::vector<int64_t> document_ends() const override {
    std::vector<int64_t> ends;
    for (size_t i = 0; i < streams_.size(); ++i) {
      for (const int64_t end : streams_[i]->document_ends()) {
        ends.push_back(ends_[i] - streams_[i]->size() + end);
      }
    }
    return ends;
  }

 private:
  std::vector<TokenStreamPtr> streams_;
  std::vector<int64_t> ends_;
};

template <class T>
class Memory final : public TokenStream {
 public:
  Memory(std::vector<T> tokens, std::vector<int64_t> ends)
      : tokens_(std::move(tokens)), ends_(std::move(ends)) {}
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  void read(int64_t begin, std::span<int32_t> out) const override {
    check(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size(),
          "tokens {} to {} lie outside a stream of {} tokens", begin, begin + out.size(), size());
    std::copy_n(tokens_.begin() + begin, out.size(), out.begin());
  }
  std::vector<int64_t> document_ends() const override {
    return ends_.empty() ? TokenStream::document_ends() : ends_;
  }

 private:
  std::vector<T> tokens_;
  std::vector<int64_t> ends_;
};

}  // namespace

TokenStreamPtr slice_stream(TokenStreamPtr stream, int64_t begin, int64_t end) {
  check(0 <= begin && begin <= end && end <= stream->size(),
        "tokens {} to {} lie outside a stream of {} tokens", begin, end, stream->size());
  return std::make_shared<Slice>(std::move(stream), begin, end);
}

TokenStreamPtr concat_streams(std::vector<TokenStreamPtr> streams) {
  return streams.size() == 1 ? std::move(streams[0]) : std::make_shared<Concat>(std::move(streams));
}

TokenStreamPtr memory_stream(std::vector<int32_t> tokens, std::vector<int64_t> ends) {
  return std::make_shared<Memory<int32_t>>(std::move(tokens), std::move(ends));
}
TokenStreamPtr memory_stream(std::vector<uint16_t> tokens, std::vector<int64_t> ends) {
  return std::make_shared<Memory<uint16_t>>(std::move(tokens), std::move(ends));
}

}  // namespace mstrain
