// Kuhn poker (H. W. Kuhn, 1950): three cards, one chip each in the pot, one bet of one chip. The first player loses 1/18 of
// a chip a game when both play perfectly.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

class KuhnPoker {
 public:
  static constexpr std::string_view kName = "kuhn_poker";
  static constexpr int kPlayers = 2;
  static constexpr Action kPass = 0;  // check or fold
  static constexpr Action kBet = 1;   // bet or call
  static constexpr uint32_t kMaxActions =
      3;  // pass and bet; for chance the card dealt: 0 jack, 1 queen, 2 king
  static constexpr float kMinReturn = -2;
  static constexpr float kMaxReturn = 2;
  static constexpr int kObservationSize = 3 + 2 * 3;

  int player() const {
    if (dealt_ < 2) {
      return kChance;
    }
    const bool over = moves_ == 3 || (moves_ == 2 && !(move(0) == kPass && move(1) == kBet));
    return over ? kTerminal : moves_ & 1;
  }
  void legal(ActionBuffer& out) const {
    out.push(kPass);
    out.push(kBet);
  }
  void apply(Action a) {
    if (dealt_ < 2) {
      cards_[dealt_++] = static_cast<uint8_t>(a);
    } else {
      bets_ = static_cast<uint8_t>(bets_ | a << moves_);
      ++moves_;
    }
  }
  void undo(Action) {
    if (moves_ == 0) {
      --dealt_;
    } else {
      --moves_;
      bets_ = static_cast<uint8_t>(bets_ & ~(1U << moves_));
    }
  }
  Returns<2> returns() const {
    const float stake = bets_ == 0 ? 1.0F : 2.0F;
    if (bets_ != 0 && move(moves_ - 1) == kPass) {  // a fold: who bet wins the ante
      return (moves_ & 1) == 0 ? Returns<2>{1, -1} : Returns<2>{-1, 1};
    }
    return cards_[0] > cards_[1] ? Returns<2>{stake, -stake} : Returns<2>{-stake, stake};
  }
  void chance(ChanceBuffer& out) const {
    const float share = 1.0F / static_cast<float>(3 - dealt_);
    for (Action card = 0; card < 3; ++card) {
      if (dealt_ == 0 || cards_[0] != card) {
        out.push({card, share});
      }
    }
  }
  uint64_t hash() const { return hash_mix((public_key() << 8) + card_key(0) * 4 + card_key(1)); }

  // A player knows the own card and all bets.
  uint64_t information_key(int player) const {
    return hash_mix((public_key() << 8) + 64 + static_cast<uint64_t>(player) * 4 +
                    card_key(player));
  }
  void determinize(int player, Random& rng) {
    if (dealt_ == 2) {
      const uint32_t other = (cards_[static_cast<size_t>(player)] + 1U + rng.below(2)) % 3;
      cards_[static_cast<size_t>(1 - player)] = static_cast<uint8_t>(other);
    }
  }
  void observe(int player, std::span<float> out) const {  // [own card][move][pass or bet]
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = 0;
    }
    if (card_key(player) > 0) {
      out[card_key(player) - 1] = 1;
    }
    for (int i = 0; i < moves_; ++i) {
      out[static_cast<size_t>(3 + 2 * i) + move(i)] = 1;
    }
  }

  // "K Q pass bet": the two cards, then what the players do.
  std::string action_to_string(Action a) const {
    return dealt_ < 2 ? std::string(1, "JQK"[a]) : a == kPass ? "pass" : "bet";
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {
    std::string out;
    for (int i = 0; i < dealt_; ++i) {
      out += std::string(i == 0 ? "" : " ") + "JQK"[cards_[static_cast<size_t>(i)]];
    }
    return out + bets();
  }
  static KuhnPoker from_position(std::string_view text) { return play_moves(KuhnPoker(), text); }
  std::string draw() const { return draw_cards(true, true); }
  std::string draw_for(int player) const { return draw_cards(player == 0, player == 1); }

 private:
  std::string bets() const {
    std::string out;
    for (int i = 0; i < moves_; ++i) {
      out += move(i) == kPass ? " pass" : " bet";
    }
    return out;
  }
  std::string draw_cards(bool first, bool second) const {
    const auto card = [this](int player, bool open) {
      return card_key(player) == 0 ? '-' : open ? "?JQK"[card_key(player)] : '*';
    };
    return fmt::format("cards {} {} {}\n", card(0, first), card(1, second), bets());
  }
  uint32_t move(int i) const { return bets_ >> i & 1U; }
  uint64_t card_key(int player) const {
    return player < dealt_ ? cards_[static_cast<size_t>(player)] + 1U : 0;
  }
  uint64_t public_key() const {
    return static_cast<uint64_t>(bets_) << 8 | static_cast<uint64_t>(moves_) << 4 | dealt_;
  }

  std::array<uint8_t, 2> cards_{};
  uint8_t dealt_ = 0;
  uint8_t moves_ = 0;
  uint8_t bets_ = 0;  // bit i: move i was a bet
};

}  // namespace mstrain::mcts
