#include "launcher/rank.h"

#include <fmt/core.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/log.h"
#include "launcher/commands.h"

namespace mstrain::launcher {
namespace {

// The first line says what to do; no prefix before the file and line that it begins with.
void print_error(const std::string& message) { fmt::print(stderr, "{}\n", message); }

}  // namespace

Rank::Rank(const RankPlace& place, const std::atomic<bool>& stop) : place_(place), stop_(stop) {
  link_ = RankLink::connect(place_.rank);
  if (!is_first()) {
    set_log_sink([rank = place_.rank](LogLevel level, std::string_view message) {
      if (level == LogLevel::kError) {
        log_to_standard_error(level, fmt::format("rank {}: {}", rank, message));
      }
    });
  }
}

Rank::~Rank() = default;

void Rank::join() {
  mpi_ = std::make_unique<MpiProcess>(
      MpiProcess::Hooks{.tell =
                            [this](const std::string& message) {
                              if (link_ != nullptr && link_->is_interrupted()) {
                                _exit(kInterrupted);  // rank 0 ended at once, as it was asked to
                              }
                              log_error("{}", message);
                            },
                        .is_interrupted = [this] { return stop_.load(); },
                        .interrupt = request_interrupt});
  check(mpi_->size() == place_.ranks && mpi_->rank() == place_.rank,
        "{} processes were started together, but MPI knows of {}: start them by Open MPI's own "
        "mpirun, or by srun --mpi=pmix",
        place_.ranks, mpi_->size());
  if (link_ != nullptr) {
    link_->joined();
  }
}

int Rank::finish(int status) {
  if (mpi_ != nullptr) {
    if (link_ != nullptr) {
      link_->leaving();
    }
    mpi_->finish();
  }
  if (link_ != nullptr) {
    link_->end(status, /*told=*/true, /*lost_ranks=*/false);
  }
  return status;
}

int Rank::leave(const RankEnd& end, bool is_of_others) {
  int status = end.status;
  const auto tell = [&] {
    print_error(is_first() ? end.message : fmt::format("rank {}: {}", place_.rank, end.message));
  };
  // What fails on all of them at once is said by one: whether others have is known where messages are attended to.
  const bool told = mpi_ != nullptr ? mpi_->fail(end, tell) : !is_first();
  if (!told) {
    tell();
  }
  if (is_of_others && mpi_ != nullptr && mpi_->failure()) {
    status = mpi_->failure()->status;
  }
  if (link_ != nullptr) {
    const bool lost = mpi_ != nullptr && mpi_->failure() && mpi_->failure()->lost_ranks;
    link_->end(status, /*told=*/true, lost);
  }
  if (is_alone()) {
    return status;
  }
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace mstrain::launcher
