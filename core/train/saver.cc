#include "core/train/saver.h"

namespace mstrain {

Saver::Saver(const RunDirectory& directory, const TrainConfig& config, MetricsLog& log,
             int64_t last_saved)
    : directory_(directory), config_(config), log_(log), last_saved_(last_saved) {}

bool Saver::wants(int64_t step, Moment moment) {
  return step > last_saved_ && (moment != Moment::kStep || step % config_.checkpoint.interval == 0);
}

void Saver::on_state(Trainer& trainer, Moment) {
  log_.sync();
  const std::string folder = join_path(directory_.checkpoints(), checkpoint_name(trainer.step()));
  save_checkpoint(directory_.files(), folder, trainer.checkpoint());
  prune_checkpoints(directory_.files(), directory_.checkpoints(), config_.checkpoint.keep);
  last_saved_ = trainer.step();
}

}  // namespace mstrain
