// SentencePiece's .model: a protocol buffer ModelProto
// (github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/hf_sections.h"
#include "core/data/sentencepiece_tokenizer.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"
#include "core/io/protobuf.h"

namespace mstrain {
namespace {

using Piece = SentencePieceSpec::Piece;

enum ModelField { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };

Piece read_piece(std::string_view message) {
  constexpr SentencePieceSpec::Kind kKinds[] = {
      SentencePieceSpec::Kind::kNormal,  SentencePieceSpec::Kind::kUnknown,
      SentencePieceSpec::Kind::kControl, SentencePieceSpec::Kind::kUser,
      SentencePieceSpec::Kind::kUnused,  SentencePieceSpec::Kind::kByte};
  Piece piece;
  for (ProtobufReader reader(message); reader.next();) {
    switch (reader.field()) {
      case 1: piece.text = reader.bytes(); break;
      case 2: piece.score = reader.fixed32(); break;
      case 3: {
        const uint64_t kind = reader.varint();
        check(kind >= 1 && kind <= std::size(kKinds), "a piece has type {}", kind);
        piece.kind = kKinds[kind - 1];
        break;
      }
      default: break;
    }
  }
  return piece;
}

enum ModelType { kUnigram = 1, kBpe = 2 };

struct Trainer {
  uint64_t model_type = kUnigram;
  std::string begin_piece = "<s>";
  std::string unknown_surface = " \xE2\x81\x87 ";
  std::string end_piece = "</s>";
  bool byte_fallback = false;
};

Trainer read_trainer(std::string_view message) {
  Trainer trainer;
  for (ProtobufReader reader(message); reader.next();) {
    switch (reader.field()) {
      case 3: {
        const uint64_t type = reader.varint();
        const char* const names[] = {"0", "unigram", "bpe", "word", "char"};
        check(type == kUnigram || type == kBpe,
              "model_type {} is not supported; unigram and bpe are",
              type < std::size(names) ? names[type] : std::to_string(type));
        trainer.model_type = type;
        break;
      }
      case 24: check(reader.varint() == 0, "treat_whitespace_as_suffix is not supported"); break;
      case 35: trainer.byte_fallback = reader.varint() != 0; break;
      case 44: trainer.unknown_surface = reader.bytes(); break;
      case 46: trainer.begin_piece = reader.bytes(); break;
      case 47: trainer.end_piece = reader.bytes(); break;
      default: break;  // how the model was trained
    }
  }
  return trainer;
}

void read_normalizer(std::string_view message, SentencePieceSpec& spec) {
  bool dummy_prefix = true;
  bool remove_extra = true;
  for (ProtobufReader reader(message); reader.next();) {
    switch (reader.field()) {
      case 2: spec.normal.charsmap = reader.bytes(); break;
      case 3: dummy_prefix = reader.varint() != 0; break;
      case 4: remove_extra = reader.varint() != 0; break;
      case 5: check(reader.varint() != 0, "escape_whitespaces false is not supported"); break;
      default: break;  // the name, and the rules that the character map was made of
    }
  }
  spec.normal.prefix =
      dummy_prefix ? NormaliserSpec::Prefix::kAlways : NormaliserSpec::Prefix::kNone;
  spec.normal.collapse_spaces = spec.normal.strip_left = spec.normal.strip_right = remove_extra;
  spec.decode_strips_prefix = dummy_prefix || remove_extra;
}

// A normaliser for decode(): none may be asked for.
void check_denormalizer(std::string_view message) {
  for (ProtobufReader reader(message); reader.next();) {
    check(reader.field() != 2 || reader.bytes().empty(), "denormalizer_spec is not supported");
  }
}

// Every pair of pieces whose text together is a piece, in the order of its score.
std::vector<BpeMerges::Merge> merges_of(const std::vector<Piece>& pieces) {
  std::unordered_map<std::string_view, int32_t> ids;
  std::vector<double> scores;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind == SentencePieceSpec::Kind::kNormal) {
      check(ids.emplace(pieces[i].text, static_cast<int32_t>(i)).second,
            "piece {} \"{}\" stands there twice", i, pieces[i].text);
      scores.push_back(pieces[i].score);
    }
    check(pieces[i].kind != SentencePieceSpec::Kind::kUnused,
          "piece {} \"{}\" is unused, which is not supported with merges", i, pieces[i].text);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  std::vector<BpeMerges::Merge> merges;
  for (const auto& [text, id] : ids) {
    const double score = pieces[static_cast<size_t>(id)].score;
    const auto rank = static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), score, std::greater<>()) - scores.begin());
    for (size_t at = 0; (at += static_cast<size_t>(decode_utf8(text, at).length)) < text.size();) {
      const auto left = ids.find(text.substr(0, at));
      const auto right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end()) {
        merges.push_back({left->second, right->second, id, rank});
      }
    }
  }
  return merges;
}

void add_sentinels(const NamedText& config, SentencePieceSpec& spec) {
  const Json json = parse_json(config.text, config.path);
  const auto extra = json.is_object() ? json.find("extra_ids") : json.end();
  if (extra == json.end()) {
    return;
  }
  // T5 has 100; what a few bytes ask for must not exceed what the model's file holds by far.
  const uint64_t most = spec.pieces.size() + 1024;
  if (!extra->is_number_unsigned() || extra->get<uint64_t>() > most) {
    throw IoError(fmt::format("{}: extra_ids: expected an integer from 0 to {}, found {}",
                              config.path, most, extra->dump().substr(0, 100)));
  }
  const auto count = extra->get<int32_t>();
  const auto pieces = static_cast<int32_t>(spec.pieces.size());
  for (int32_t i = 0; i < count; ++i) {
    spec.added.push_back({.content = fmt::format("<extra_id_{}>", i),
                          .id = pieces + count - 1 - i,
                          .special = true});
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_from_sentencepiece(const NamedText& model,
                                                              const NamedText& config) {
  SentencePieceSpec spec;
  spec.source = model.path;
  Trainer trainer;
  const char* at = model.text.data();
  try {
    for (ProtobufReader reader(model.text); reader.next();) {
      if (reader.field() != kPieces && reader.field() != kTrainer &&
          reader.field() != kNormalizer && reader.field() != kDenormalizer) {
        continue;  // self_test_data and extensions do not change what the model means
      }
      const std::string_view message = reader.bytes();
      at = message.data();
      switch (reader.field()) {
        case kPieces:
          spec.pieces.push_back(read_piece(message));
          check_piece(spec.pieces.back(), spec.pieces.size() - 1);
          break;
        case kTrainer: trainer = read_trainer(message); break;
        case kNormalizer: read_normalizer(message, spec); break;
        default: check_denormalizer(message); break;
      }
    }
    check(!spec.pieces.empty(), "it holds no pieces: no SentencePiece model");
    if (trainer.model_type == kBpe) {
      spec.merges = merges_of(spec.pieces);
    }
  } catch (const Error& error) {
    throw IoError(
        fmt::format("{}: offset {}: {}", model.path, at - model.text.data(), error.what()));
  }
  spec.byte_fallback = trainer.byte_fallback;
  spec.shown_unknown = trainer.unknown_surface;
  for (size_t i = 0; i < spec.pieces.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (spec.pieces[i].kind == SentencePieceSpec::Kind::kUnknown) {
      spec.unknown = id;
    } else if (spec.pieces[i].kind == SentencePieceSpec::Kind::kControl &&
               spec.pieces[i].text == trainer.end_piece) {
      // T5 ends its texts, Llama begins them.
      if (trainer.model_type == kUnigram) {
        spec.special.after = {id};
      }
      spec.end_of_text = id;
    } else if (spec.pieces[i].kind == SentencePieceSpec::Kind::kControl &&
               spec.pieces[i].text == trainer.begin_piece && trainer.model_type == kBpe) {
      spec.special.before = {id};
    }
  }
  spec.files = {
      {trainer.model_type == kBpe ? "tokenizer.model" : "spiece.model", std::string(model.text)}};
  if (!config.path.empty()) {
    add_sentinels(config, spec);
    find_named(hf::named_tokens({{"tokenizer_config.json", std::string(config.text)}}, model.path),
               spec);
    spec.files.push_back({"tokenizer_config.json", std::string(config.text)});
  }
  return std::make_shared<SentencePieceTokenizer>(std::move(spec));
}

}  // namespace mstrain
