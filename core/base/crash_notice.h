// Who was to blame when foreign code ends the process: while a notice is alive, a fatal signal of its thread first writes the notice's
// text to standard error. What else handles the signal does so afterwards. exit() in that thread does the same, and is a failure whatever status it names.
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
