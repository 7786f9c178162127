// What `mstrain --ranks N` and the processes that it has mpirun start tell each other: a socket of this machine, whose name is in the
// environment. The ranks get the terminal itself, which mpirun would put a pipe before, and say how they ended; the starter
// sees by its end of the socket when one dies.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace mstrain::launcher {

inline constexpr const char* kLinkVariable = "MSTRAIN_STARTER";

// The rank's end.
class RankLink {
 public:
  // Null where this process was not started so. Standard error, and of rank 0 standard output, are the starter's from here on.
  static std::unique_ptr<RankLink> connect(int rank);
  ~RankLink();
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  // Whether the starter was asked to end, of which it tells before any rank is.
  bool is_interrupted();
  // From here on this rank and others find out that one is gone; and from here on no more.
  void joined();
  void leaving();
  // What an earlier run had written, which --restart removes.
  void cleared();
  // The last word. `told`: why is known to people; `lost_ranks`: others were dead, stopped or late.
  void end(int status, bool told, bool lost_ranks);

 private:
  explicit RankLink(int socket) : socket_(socket) {}
  void send(const void* words, size_t size) const;
  int socket_;
  bool interrupted_ = false;
};

// A rank as its starter sees it.
struct StartedRank {
  int rank = -1;  // -1: it has not said
  pid_t pid = 0;
  int socket = -1;       // -1: closed, the process has ended
  bool joined = false;   // the others
  bool leaving = false;  // them
  bool cleared = false;  // what an earlier run had written
  bool ended = false;    // it has said how
  int status = 0;
  bool told = false;
  bool lost_ranks = false;
};

// The starter's end.
class RankLinks {
 public:
  // Throws Error where the system has no sockets to give.
  RankLinks();
  ~RankLinks();
  RankLinks(const RankLinks&) = delete;
  RankLinks& operator=(const RankLinks&) = delete;

  // The value of kLinkVariable.
  const std::string& name() const { return name_; }
  // In the order in which they came.
  const std::vector<StartedRank>& ranks() const { return ranks_; }
  // Waits for news, at most so long.
  void listen(int milliseconds);
  void tell_interrupted();

 private:
  void accept_rank();
  static void hear(StartedRank& rank);

  std::string name_;
  int socket_ = -1;
  std::vector<StartedRank> ranks_;
};

}  // namespace mstrain::launcher
