// What a model has written, as what rewards are asked about.
#pragma once

#include <vector>

#include "suites/transformer/alignment/answers.h"
#include "suites/transformer/alignment/rewards.h"

namespace mstrain {

// Of the tokens that follow a prompt, `most` at most; where there are fewer they came to an end, which is appended to them.
WrittenAnswer ended_answer(const AnswerCorpus& corpus, const AnswerText& prompt,
                           std::vector<int32_t>& written, int64_t most);

}  // namespace mstrain
