#include "core/data/unigram_model.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

uint64_t edge_key(uint32_t node, uint8_t byte) { return uint64_t{node} << 8 | byte; }

}  // namespace

UnigramModel::UnigramModel(const std::vector<Piece>& pieces, double unknown_score)
    : unknown_score_(unknown_score), edges_(1024), nodes_(1) {
  for (const Piece& piece : pieces) {
    uint32_t node = 0;
    for (const char c : piece.text) {
      node = add_child(node, static_cast<uint8_t>(c));
    }
    check(node != 0, "piece {} is empty", piece.id);
    check(nodes_[node].id == kUnknown, "the piece \"{}\" occurs twice", piece.text);
    nodes_[node] = {piece.id, piece.score};
  }
}

uint32_t UnigramModel::child(uint32_t node, uint8_t byte) const {
  const uint64_t key = edge_key(node, byte);
  const size_t mask = edges_.size() - 1;
  for (size_t i = hash_mix(key) & mask;; i = (i + 1) & mask) {
    if (edges_[i].from == key) {
      return edges_[i].node;
    }
    if (edges_[i].node == 0) {
      return 0;
    }
  }
}

uint32_t UnigramModel::add_child(uint32_t node, uint8_t byte) {
  if (const uint32_t found = child(node, byte); found != 0) {
    return found;
  }
  const auto insert = [this](const Edge& edge) {
    const size_t mask = edges_.size() - 1;
    size_t i = hash_mix(edge.from) & mask;
    while (edges_[i].node != 0) {
      i = (i + 1) & mask;
    }
    edges_[i] = edge;
  };
  if (2 * ++used_ > edges_.size()) {
    std::vector<Edge> old(2 * edges_.size());
    old.swap(edges_);
    for (const Edge& edge : old) {
      if (edge.node != 0) {
        insert(edge);
      }
    }
  }
  const auto created = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  insert({edge_key(node, byte), created});
  return created;
}

void UnigramModel::cut(std::string_view text, Work& work) const {
  auto& best = work.best;
  best.assign(text.size() + 1, {});
  const auto reach = [&](size_t begin, size_t end, double score, int32_t id) {
    const double total = best[begin].score + score;
    if (best[end].begin < 0 || total > best[end].score) {
      best[end] = {total, static_cast<int64_t>(begin), id};
    }
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t one = begin + std::max(1, decode_utf8(text, begin).length);
    bool has_single = false;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = child(node, static_cast<uint8_t>(text[at]));
      if (node == 0) {
        break;
      }
      if (nodes_[node].id != kUnknown) {
        reach(begin, at + 1, nodes_[node].score, nodes_[node].id);
        has_single = has_single || at + 1 == one;
      }
    }
    if (!has_single) {
      reach(begin, one, unknown_score_, kUnknown);
    }
    begin = one;
  }
  work.parts.clear();
  for (size_t end = text.size(); end > 0;) {
    const auto begin = static_cast<size_t>(best[end].begin);
    work.parts.push_back({best[end].id, static_cast<uint32_t>(end - begin)});
    end = begin;
  }
  std::reverse(work.parts.begin(), work.parts.end());
}

}  // namespace mstrain
