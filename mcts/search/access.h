// How the numbers of a tree are read and changed: by one thread, by one thread with visits under way, or by several at once.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace mstrain::mcts {

// kPlain    one thread, in the whole tree or in a subtree that it has taken for itself while others work elsewhere; a descent is
//           backed up before the next begins
// kTracked  one thread; several descents are under way, so each marks its path (virtual loss)
// kShared   several threads; marked paths, relaxed atomics, no locks
enum class Access { kPlain, kTracked, kShared };

template <Access kAccess, class T>
inline T read(const T* at) {
  if constexpr (kAccess == Access::kShared) {
    T value;
    __atomic_load(at, &value, __ATOMIC_RELAXED);
    return value;
  } else {
    return *at;
  }
}

template <Access kAccess, class T>
inline void write(T* at, T value) {
  if constexpr (kAccess == Access::kShared) {
    __atomic_store(at, &value, __ATOMIC_RELAXED);
  } else {
    *at = value;
  }
}

template <Access kAccess, class T>
inline void add(T* at, std::type_identity_t<T> amount) {
  if constexpr (kAccess == Access::kShared) {
    __atomic_fetch_add(at, amount, __ATOMIC_RELAXED);
  } else {
    *at += amount;
  }
}

// *at = change(*at), undivided.
template <Access kAccess, class Change>
inline void update(float* at, Change change) {
  if constexpr (kAccess == Access::kShared) {
    float before = read<kAccess>(at);
    float after = change(before);
    while (
        !__atomic_compare_exchange(at, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      after = change(before);
    }
  } else {
    *at = change(*at);
  }
}

// Block indices carry what the block holds: acquire and release.
template <Access kAccess>
inline uint32_t read_child(const uint32_t* at) {
  if constexpr (kAccess == Access::kShared) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  } else {
    return *at;
  }
}

template <Access kAccess>
inline void write_child(uint32_t* at, uint32_t block) {
  if constexpr (kAccess == Access::kShared) {
    __atomic_store_n(at, block, __ATOMIC_RELEASE);
  } else {
    *at = block;
  }
}

// Changes `from` into `to`; false where somebody else was first.
template <Access kAccess>
inline bool claim_child(uint32_t* at, uint32_t from, uint32_t to) {
  if constexpr (kAccess == Access::kShared) {
    return __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
  } else {
    if (*at != from) {
      return false;
    }
    *at = to;
    return true;
  }
}

// Takes the next unopened edge below `limit` and returns it, or `limit` where there is none.
template <Access kAccess>
inline uint32_t claim_edge(uint16_t* opened, uint32_t limit) {
  uint16_t now = read<kAccess>(opened);
  for (;;) {
    if (now >= limit) {
      return limit;
    }
    if constexpr (kAccess == Access::kShared) {
      if (__atomic_compare_exchange_n(opened, &now, static_cast<uint16_t>(now + 1), true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return now;
      }
    } else {
      *opened = static_cast<uint16_t>(now + 1);
      return now;
    }
  }
}

}  // namespace mstrain::mcts
