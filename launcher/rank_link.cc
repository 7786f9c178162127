#include "launcher/rank_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/base/error.h"

namespace mstrain::launcher {
namespace {

struct Words {
  enum Kind : int32_t { kHere, kJoined, kLeaving, kCleared, kEnd } kind = kHere;
  int32_t rank = 0, status = 0, told = 0, lost_ranks = 0;
};
constexpr char kTerminalByte = 't';
constexpr char kInterruptedByte = 'i';

// In no folder: it is gone when its last user is.
struct AbstractAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// One byte with the descriptors of standard output and error.
struct TerminalMessage {
  char byte = kTerminalByte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))]{};
  msghdr header{};

  TerminalMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

bool send_terminal(int socket) {
  TerminalMessage message;
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int both[2] = {STDOUT_FILENO, STDERR_FILENO};
  std::memcpy(CMSG_DATA(rights), both, sizeof both);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == 1;
}

bool take_terminal(int socket, bool takes_output) {
  TerminalMessage message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) {
    return false;
  }
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) {
    return false;
  }
  int both[2];
  std::memcpy(both, CMSG_DATA(rights), sizeof both);
  if (takes_output) {
    dup2(both[0], STDOUT_FILENO);
  }
  dup2(both[1], STDERR_FILENO);
  close(both[0]);
  close(both[1]);
  return true;
}

}  // namespace

std::unique_ptr<RankLink> RankLink::connect(int rank) {
  const char* name = std::getenv(kLinkVariable);
  if (name == nullptr) {
    return nullptr;
  }
  const AbstractAddress address(name);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  std::unique_ptr<RankLink> link(new RankLink(socket));
  const Words words{Words::kHere, rank};
  if (::connect(socket, address.get(), address.length) != 0 ||
      ::send(socket, &words, sizeof words, MSG_NOSIGNAL) != sizeof words ||
      !take_terminal(socket, rank == 0)) {
    fail("rank {}: the mstrain that started it is gone", rank);
  }
  return link;
}

RankLink::~RankLink() { close(socket_); }

bool RankLink::is_interrupted() {
  char byte = 0;
  while (!interrupted_ && recv(socket_, &byte, 1, MSG_DONTWAIT) == 1) {
    interrupted_ = byte == kInterruptedByte;
  }
  return interrupted_;
}

// Where it fails, nobody asks any more.
void RankLink::send(const void* words, size_t size) const {
  ::send(socket_, words, size, MSG_NOSIGNAL);
}

void RankLink::joined() {
  const Words words{Words::kJoined};
  send(&words, sizeof words);
}

void RankLink::leaving() {
  const Words words{Words::kLeaving};
  send(&words, sizeof words);
}

void RankLink::cleared() {
  const Words words{Words::kCleared};
  send(&words, sizeof words);
}

void RankLink::end(int status, bool told, bool lost_ranks) {
  const Words words{Words::kEnd, 0, status, told ? 1 : 0, lost_ranks ? 1 : 0};
  send(&words, sizeof words);
}

RankLinks::RankLinks() {
  name_ = fmt::format("mstrain-{}-{:08x}", getpid(), std::random_device()());
  const AbstractAddress address(name_);
  socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  check(socket_ >= 0 && bind(socket_, address.get(), address.length) == 0 &&
            ::listen(socket_, SOMAXCONN) == 0,
        "--ranks: no socket for what ranks have to tell: {}", std::strerror(errno));
}

RankLinks::~RankLinks() {
  close(socket_);
  for (const StartedRank& rank : ranks_) {
    if (rank.socket >= 0) {
      close(rank.socket);
    }
  }
}

void RankLinks::listen(int milliseconds) {
  std::vector<pollfd> sockets{{socket_, POLLIN, 0}};
  for (const StartedRank& rank : ranks_) {
    sockets.push_back({rank.socket, POLLIN, 0});  // negative ones are passed over
  }
  if (poll(sockets.data(), sockets.size(), milliseconds) <= 0) {
    return;
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (sockets[i + 1].revents != 0) {
      hear(ranks_[i]);
    }
  }
  if (sockets[0].revents != 0) {
    accept_rank();
  }
}

void RankLinks::accept_rank() {
  const int socket = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  ucred who{};
  socklen_t length = sizeof who;
  if (socket < 0) {
    return;
  }
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != getuid() ||
      !send_terminal(socket)) {
    close(socket);
    return;
  }
  ranks_.push_back({.pid = who.pid, .socket = socket});
}

void RankLinks::hear(StartedRank& rank) {
  Words words;
  const ssize_t count = recv(rank.socket, &words, sizeof words, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count != sizeof words) {
    close(rank.socket);
    rank.socket = -1;
  } else if (words.kind == Words::kHere) {
    rank.rank = words.rank;
  } else if (words.kind == Words::kJoined) {
    rank.joined = true;
  } else if (words.kind == Words::kLeaving) {
    rank.leaving = true;
  } else if (words.kind == Words::kCleared) {
    rank.cleared = true;
  } else {
    rank.ended = true;
    rank.status = words.status;
    rank.told = words.told != 0;
    rank.lost_ranks = words.lost_ranks != 0;
  }
}

void RankLinks::tell_interrupted() {
  for (const StartedRank& rank : ranks_) {
    if (rank.socket >= 0) {
      ::send(rank.socket, &kInterruptedByte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

}  // namespace mstrain::launcher
