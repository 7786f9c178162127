// A unigram tokenizer of the tests' own making, as SentencePiece's .model and as tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/tokenizer_files.h"
#include "core/io/protobuf.h"

namespace mstrain {

struct TestPiece {
  const char* text;
  float score = 0;
  int kind = 1;  // normal, unknown, control, user, unused, byte
};

inline const std::vector<TestPiece> kPieces{
    {"<pad>", 0, 3}, {"</s>", 0, 3}, {"<unk>", 0, 2}, {"▁", -2},   {"a", -3},       {"b", -3.5F},
    {"ab", -4},      {"▁a", -3.2F},  {"▁ab", -8},     {"ba", -5},  {"▁the", -2.5F}, {"t", -4},
    {"h", -4},       {"e", -4},      {"é", -4.5F},    {"мир", -6}, {"[X]", 0, 4},   {"bb", -1, 5}};

inline std::string model_bytes(const std::vector<TestPiece>& pieces, bool extra = true,
                               bool prefix = true, uint64_t type = 1) {
  ProtobufWriter model;
  for (const TestPiece& piece : pieces) {
    ProtobufWriter message;
    message.bytes(1, piece.text).fixed32(2, piece.score);
    if (piece.kind != 1) {
      message.varint(3, static_cast<uint64_t>(piece.kind));
    }
    model.message(1, message);
  }
  ProtobufWriter trainer;
  trainer.varint(3, type);
  model.message(2, trainer);
  ProtobufWriter normalizer;
  normalizer.bytes(1, "identity").varint(3, prefix ? 1 : 0).varint(4, extra ? 1 : 0).varint(5, 1);
  model.message(3, normalizer);
  return model.text();
}

inline Json small_unigram() {
  Json vocab = Json::array();
  for (const TestPiece& piece : kPieces) {
    vocab.push_back({piece.text, piece.score});
  }
  const Json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", true}};
  return {{"version", "1.0"},
          {"added_tokens", Json::parse(R"([{"id":1,"content":"</s>","special":true,
             "normalized":false},{"id":20,"content":"<extra_id_0>","special":true,
             "normalized":false,"single_word":false,"lstrip":false,"rstrip":false}])")},
          {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", Json::array({Json{{"type", "WhitespaceSplit"}}, metaspace})}}},
          {"post_processor",
           Json::parse(R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},
             {"SpecialToken":{"id":"</s>"}}],"pair":[],
             "special_tokens":{"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}})")},
          {"decoder", metaspace},
          {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}}}};
}

inline std::shared_ptr<const Tokenizer> make_unigram(const std::string& bytes) {
  return tokenizer_from_sentencepiece({"t.model", bytes});
}

inline std::shared_ptr<const Tokenizer> make_unigram(const Json& json) {
  return tokenizer_from_hf({"t.json", json.dump()});
}

}  // namespace mstrain
