// A sequence of token ids with random access: what sampling and evaluation read. Immutable; any
// thread may read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mstrain {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual int64_t size() const = 0;  // in tokens

  // Tokens [begin, begin + out.size()), which must lie within the stream. Throws IoError where a
  // file cannot be read or has changed since the stream was opened.
  virtual void read(int64_t begin, std::span<int32_t> out) const = 0;

  // Where documents end, ascending, the last at size(); one document where nothing else is known.
  virtual std::vector<int64_t> document_ends() const { return {size()}; }
};

using TokenStreamPtr = std::shared_ptr<const TokenStream>;

// Tokens [begin, end) of `stream`.
TokenStreamPtr slice_stream(TokenStreamPtr stream, int64_t begin, int64_t end);

// One stream after the other, with nothing between them.
TokenStreamPtr concat_streams(std::vector<TokenStreamPtr> streams);

// Tokens in memory; one document, or those that end at `ends`.
TokenStreamPtr memory_stream(std::vector<int32_t> tokens, std::vector<int64_t> ends = {});
// As two bytes each.
TokenStreamPtr memory_stream(std::vector<uint16_t> tokens, std::vector<int64_t> ends);

}  // namespace mstrain
