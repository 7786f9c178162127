// Leduc poker (F. Southey et al., "Bayes' bluff", 2005): jack, queen and king in two suits; one chip ante; two rounds of
// betting with raises of 2, then 4, at most two a round; a card in the middle between them. A pair wins, else the higher
// card; equal cards share the pot. Returns are chips.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/hash.h"
#include "mcts/game.h"
#include "mcts/games/text.h"

namespace mstrain::mcts {

class LeducPoker {
 public:
  static constexpr std::string_view kName = "leduc_poker";
  static constexpr int kPlayers = 2;
  static constexpr Action kFold = 0;
  static constexpr Action kCall = 1;  // or check
  static constexpr Action kRaise = 2;
  static constexpr uint32_t kMaxActions = 6;  // for chance the card: 2 * rank + suit
  static constexpr float kMinReturn = -13;
  static constexpr float kMaxReturn = 13;
  static constexpr int kMaxMoves = 8;
  static constexpr int kObservationSize = 2 * 6 + kMaxMoves * 3;

  int player() const {
    return over_ ? kTerminal : dealt_ < 2 || (round_ == 1 && dealt_ < 3) ? kChance : mover_;
  }
  void legal(ActionBuffer& out) const {
    if (chips_[0] != chips_[1]) {
      out.push(kFold);
    }
    out.push(kCall);
    if (raises_ < 2) {
      out.push(kRaise);
    }
  }
  void apply(Action a) {
    if (dealt_ < 2 || (round_ == 1 && dealt_ < 3)) {
      cards_[dealt_++] = static_cast<uint8_t>(a);
      return;
    }
    int& mine = chips_[static_cast<size_t>(mover_)];
    const int theirs = chips_[static_cast<size_t>(1 - mover_)];
    history_[moves_++] = static_cast<uint8_t>(a);
    ++round_moves_;
    if (a == kFold) {
      over_ = true;
      folded_ = static_cast<int8_t>(mover_);
    } else if (a == kRaise) {
      mine = theirs + (round_ == 0 ? 2 : 4);
      ++raises_;
      mover_ ^= 1;
    } else {
      mine = theirs;
      mover_ ^= 1;
      if (round_moves_ >= 2) {  // both have spoken and the chips are equal
        over_ = round_ == 1;
        round_ = 1;
        raises_ = 0;
        round_moves_ = 0;
        mover_ = 0;
      }
    }
  }
  Returns<2> returns() const {
    float first = 0;
    if (folded_ >= 0) {
      first = static_cast<float>(folded_ == 0 ? -chips_[0] : chips_[1]);
    } else {
      const int difference = strength(0) - strength(1);
      first = static_cast<float>(difference > 0 ? chips_[1] : difference < 0 ? -chips_[0] : 0);
    }
    return {first, -first};
  }
  void chance(ChanceBuffer& out) const {
    const float share = 1.0F / static_cast<float>(6 - dealt_);
    for (uint8_t card = 0; card < 6; ++card) {
      if (std::find(cards_.begin(), cards_.begin() + dealt_, card) == cards_.begin() + dealt_) {
        out.push({card, share});
      }
    }
  }
  uint64_t hash() const { return hash_combine(public_key(), card_key(0) * 8 + card_key(1)); }

  // A player knows the own card, the middle one and all bets.
  uint64_t information_key(int player) const {
    return hash_combine(public_key(), 64 + static_cast<uint64_t>(player) * 8 + card_key(player));
  }
  void determinize(int player, Random& rng) {
    if (dealt_ < 2) {
      return;
    }
    const uint8_t own = cards_[static_cast<size_t>(player)];
    const uint8_t middle = dealt_ == 3 ? cards_[2] : own;
    std::array<uint8_t, 5> unseen;
    uint32_t count = 0;
    for (uint8_t card = 0; card < 6; ++card) {
      if (card != own && card != middle) {
        unseen[count++] = card;
      }
    }
    cards_[static_cast<size_t>(1 - player)] = unseen[rng.below(count)];
  }
  void observe(int player, std::span<float> out) const {  // [own card][middle card][move][action]
    std::fill(out.begin(), out.end(), 0.0F);
    if (card_key(player) > 0) {
      out[card_key(player) - 1] = 1;
    }
    if (dealt_ == 3) {
      out[6U + cards_[2]] = 1;
    }
    for (size_t i = 0; i < moves_; ++i) {
      out[12 + 3 * i + history_[i]] = 1;
    }
  }

  // "Ks Qh raise call Kh call call": the players' cards, bets, the middle card, bets.
  std::string action_to_string(Action a) const {
    return player() == kChance ? card_name(a) : kMoveNames[a];
  }
  Action parse_action(std::string_view text) const { return parse_listed(*this, text); }
  std::string position() const {
    std::string out;
    LeducPoker replay;
    size_t card = 0;
    size_t move = 0;
    while (card < dealt_ || move < moves_) {
      const Action a = replay.player() == kChance ? cards_[card++] : history_[move++];
      out += (out.empty() ? "" : " ") + replay.action_to_string(a);
      replay.apply(a);
    }
    return out;
  }
  static LeducPoker from_position(std::string_view text) { return play_moves(LeducPoker(), text); }
  std::string draw() const { return draw_cards(true, true); }
  std::string draw_for(int player) const { return draw_cards(player == 0, player == 1); }

 private:
  static constexpr std::array<const char*, 3> kMoveNames = {"fold", "call", "raise"};

  std::string draw_cards(bool first, bool second) const {
    std::string bets;
    for (size_t i = 0; i < moves_; ++i) {
      bets += std::string(" ") + kMoveNames[history_[i]];
    }
    return fmt::format("cards {} {}, middle {}; chips {} {};{}\n",
                       first || dealt_ < 1 ? shown(0) : "*", second || dealt_ < 2 ? shown(1) : "*",
                       shown(2), chips_[0], chips_[1], bets);
  }
  static std::string card_name(Action card) { return {"JQK"[card / 2], "sh"[card % 2]}; }
  std::string shown(size_t i) const { return i < dealt_ ? card_name(cards_[i]) : "-"; }
  uint64_t card_key(int player) const {
    return player < dealt_ ? cards_[static_cast<size_t>(player)] + 1U : 0;
  }
  uint64_t public_key() const {
    uint64_t key = static_cast<uint64_t>(dealt_) << 4 | moves_;
    for (size_t i = 0; i < moves_; ++i) {
      key = key << 2 | history_[i];
    }
    return hash_combine(key, dealt_ == 3 ? cards_[2] : 7);
  }
  int strength(size_t player) const {
    const int rank = cards_[player] / 2;
    return rank == cards_[2] / 2 ? 3 : rank;
  }

  std::array<uint8_t, 3> cards_{};  // of the first player, of the second, in the middle
  std::array<uint8_t, kMaxMoves> history_{};
  std::array<int, 2> chips_ = {1, 1};
  uint8_t dealt_ = 0;
  uint8_t moves_ = 0;
  uint8_t round_ = 0;
  uint8_t round_moves_ = 0;
  uint8_t raises_ = 0;
  int8_t folded_ = -1;
  int mover_ = 0;
  bool over_ = false;
};

}  // namespace mstrain::mcts
