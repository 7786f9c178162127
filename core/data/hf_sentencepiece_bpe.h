// The parts of a tokenizer.json with a byte-pair encoding over characters, as those of Llama 2 and Mistral are made of
// SentencePiece's models.
#pragma once

#include "core/data/hf_unigram.h"

namespace mstrain::hf {

// Whether a BPE model reads characters, and not bytes spelled as characters.
bool is_over_characters(JsonFields& top);

std::shared_ptr<const Tokenizer> read_sentencepiece_bpe(JsonFields& top, JsonFields& model,
                                                        HfCommon common);

}  // namespace mstrain::hf
