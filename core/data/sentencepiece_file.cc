// SentencePiece's .model: a protocol buffer ModelProto
// (github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#include <limits>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/tokenizer_files.h"
#include "core/data/unigram_tokenizer.h"
#include "core/io/protobuf.h"

namespace mstrain {
namespace {

using Piece = UnigramSpec::Piece;

enum ModelField { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };

Piece read_piece(std::string_view message) {
  constexpr UnigramSpec::Kind kKinds[] = {UnigramSpec::Kind::kNormal,  UnigramSpec::Kind::kUnknown,
                                          UnigramSpec::Kind::kControl, UnigramSpec::Kind::kUser,
                                          UnigramSpec::Kind::kUnused,  UnigramSpec::Kind::kByte};
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

struct Trainer {
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
        check(type == 1, "model_type {} is not supported; unigram is",
              type < std::size(names) ? names[type] : std::to_string(type));
        break;
      }
      case 24: check(reader.varint() == 0, "treat_whitespace_as_suffix is not supported"); break;
      case 35: trainer.byte_fallback = reader.varint() != 0; break;
      case 44: trainer.unknown_surface = reader.bytes(); break;
      case 47: trainer.end_piece = reader.bytes(); break;
      default: break;  // how the model was trained
    }
  }
  return trainer;
}

void read_normalizer(std::string_view message, UnigramSpec& spec) {
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

void add_sentinels(const NamedText& config, UnigramSpec& spec) {
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
  UnigramSpec spec;
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
  } catch (const Error& error) {
    throw IoError(
        fmt::format("{}: offset {}: {}", model.path, at - model.text.data(), error.what()));
  }
  spec.byte_fallback = trainer.byte_fallback;
  spec.shown_unknown = trainer.unknown_surface;
  for (size_t i = 0; i < spec.pieces.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (spec.pieces[i].kind == UnigramSpec::Kind::kUnknown) {
      spec.unknown = id;
    } else if (spec.pieces[i].kind == UnigramSpec::Kind::kControl &&
               spec.pieces[i].text == trainer.end_piece) {
      spec.special.after = {id};
      spec.end_of_text = id;
    }
  }
  spec.files = {{"spiece.model", std::string(model.text)}};
  if (!config.path.empty()) {
    add_sentinels(config, spec);
    spec.files.push_back({"tokenizer_config.json", std::string(config.text)});
  }
  return std::make_shared<UnigramTokenizer>(std::move(spec));
}

}  // namespace mstrain
