// Who was to blame when foreign code ends the process: while a notice is alive, a fatal signal of its thread first writes the notice's
// text to standard error. What else handles the signal does so afterwards.
#pragma once

namespace mstrain {

class CrashNotice {
 public:
  // Both texts must outlive the notice. Notices of one thread do not overlap.
  CrashNotice(const char* library, const char* function);
  ~CrashNotice();
  CrashNotice(const CrashNotice&) = delete;
  CrashNotice& operator=(const CrashNotice&) = delete;
};

}  // namespace mstrain
