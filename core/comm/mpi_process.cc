#include "core/comm/mpi_process.h"

#include "core/comm/mpi_communicator.h"
#include "core/comm/mpi_engine.h"

namespace mstrain {

MpiProcess::MpiProcess(Hooks hooks) : engine_(std::make_shared<MpiEngine>(std::move(hooks))) {}
MpiProcess::~MpiProcess() = default;

int MpiProcess::rank() const { return engine_->rank(); }
int MpiProcess::size() const { return engine_->size(); }

std::unique_ptr<Communicator> MpiProcess::world(double timeout_s) {
  engine_->set_timeout(timeout_s);
  return std::make_unique<MpiCommunicator>(engine_, engine_->world());
}

void MpiProcess::finish() {
  MpiCommunicator(engine_, engine_->world()).barrier("the end of the run");
  engine_->finish();
}

bool MpiProcess::fail(const RankEnd& end, const std::function<void()>& tell) {
  return engine_->fail(end, tell);
}
std::optional<RankEnd> MpiProcess::failure() const { return engine_->failure(); }
bool MpiProcess::told() const { return engine_->told(); }

}  // namespace mstrain
