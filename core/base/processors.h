// Which of the machine's processors a thread may use, and how ranks share them.
#pragma once

#include <sched.h>

namespace mstrain {

// Of the calling thread; none where the system does not say.
cpu_set_t own_processors();
// At least 1.
int processors_here();
// When this was first asked: threads are made for so many, although ranks that take turns may use others' processors later.
int counted_processors();

// The n-th of `count` even shares of them, whole cores first; where they are fewer, one of them, in turn.
cpu_set_t share_of(const cpu_set_t& all, int n, int count);

}  // namespace mstrain
