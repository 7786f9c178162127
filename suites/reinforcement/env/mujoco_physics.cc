#include "suites/reinforcement/env/mujoco_physics.h"

#include "core/base/error.h"

#ifndef MSTRAIN_HAS_MUJOCO

namespace mstrain::reinforcement {

std::string mujoco_missing() {
  return "this mstrain was built without MuJoCo's headers (cmake -DMUJOCO_DIR=FOLDER, with "
         "include/mujoco/mujoco.h in it)";
}

std::unique_ptr<MujocoPhysics> make_mujoco_physics(const MujocoTask&, const std::string&) {
  throw Error(mujoco_missing());
}

}  // namespace mstrain::reinforcement

#else

#include <mujoco/mujoco.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>

#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/shared_library.h"
#include "suites/reinforcement/env/canvas.h"

namespace mstrain::reinforcement {
namespace {

static_assert(std::is_same_v<mjtNum, double>);

// What is called of the library.
struct Library {
  std::string missing;
  decltype(&::mj_version) mj_version = nullptr;
  decltype(&::mj_loadXML) mj_loadXML = nullptr;
  decltype(&::mj_deleteModel) mj_deleteModel = nullptr;
  decltype(&::mj_makeData) mj_makeData = nullptr;
  decltype(&::mj_deleteData) mj_deleteData = nullptr;
  decltype(&::mj_resetData) mj_resetData = nullptr;
  decltype(&::mj_forward) mj_forward = nullptr;
  decltype(&::mj_step) mj_step = nullptr;
  decltype(&::mj_rnePostConstraint) mj_rnePostConstraint = nullptr;
  decltype(&::mj_kinematics) mj_kinematics = nullptr;
  decltype(&::mj_stateSize) mj_stateSize = nullptr;
  decltype(&::mj_getState) mj_getState = nullptr;
  decltype(&::mj_setState) mj_setState = nullptr;
};

// Where an error of MuJoCo returns to: its own way out is exit().
struct WayOut {
  std::jmp_buf place;
  std::string said;
};
thread_local WayOut* way_out = nullptr;

void on_error(const char* said) {
  if (way_out != nullptr) {
    way_out->said = said;
    std::longjmp(way_out->place, 1);  // over frames of C alone
  }
}

void on_warning(const char* said) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(said).second) {
    log_warning("MuJoCo: {}", said);
  }
}

std::vector<std::string> candidates() {
  const std::string number = fmt::format("{}.{}.{}", mjVERSION_HEADER / 1000000,
                                         mjVERSION_HEADER / 1000 % 1000, mjVERSION_HEADER % 1000);
  const std::string names[] = {"libmujoco.so", "libmujoco.so." + number};
  std::vector<std::string> out;
  for (const char* variable : {"MUJOCO_DIR", "MUJOCO_PATH"}) {
    if (const char* folder = std::getenv(variable); folder != nullptr && folder[0] != '\0') {
      for (const char* below : {"lib", "bin", "."}) {
        for (const std::string& name : names) {
          const std::string path = join_path(join_path(folder, below), name);
          if (real_files().exists(path)) {
            out.push_back(path);
          }
        }
      }
    }
  }
  out.insert(out.end(), std::begin(names), std::end(names));
  return out;
}

void find_functions(const SharedLibrary& library, Library& to) {
  library.find("mj_version", to.mj_version);
  library.find("mj_loadXML", to.mj_loadXML);
  library.find("mj_deleteModel", to.mj_deleteModel);
  library.find("mj_makeData", to.mj_makeData);
  library.find("mj_deleteData", to.mj_deleteData);
  library.find("mj_resetData", to.mj_resetData);
  library.find("mj_forward", to.mj_forward);
  library.find("mj_step", to.mj_step);
  library.find("mj_rnePostConstraint", to.mj_rnePostConstraint);
  library.find("mj_kinematics", to.mj_kinematics);
  library.find("mj_stateSize", to.mj_stateSize);
  library.find("mj_getState", to.mj_getState);
  library.find("mj_setState", to.mj_setState);
  check(to.mj_version() == mjVERSION_HEADER,
        "libmujoco.so is of version {}, and this was built for {}", to.mj_version(),
        mjVERSION_HEADER);
  using Handler = void (*)(const char*);
  if (auto* error = static_cast<Handler*>(library.address("mju_user_error"))) {
    *error = on_error;
  }
  if (auto* warning = static_cast<Handler*>(library.address("mju_user_warning"))) {
    *warning = on_warning;
  }
}

Library open_library() {
  Library out;
  std::optional<SharedLibrary> found;
  try {
    found.emplace(candidates());
  } catch (const Error& error) {
    out.missing = fmt::format(
        "libmujoco.so is not found in $MUJOCO_DIR, $MUJOCO_PATH or where the system looks ({})",
        error.what());
    return out;
  }
  try {
    find_functions(*found, out);
  } catch (const Error& error) {
    out.missing = error.what();
  }
  return out;
}

const Library& library() {
  static const Library found = open_library();
  return found;
}

class Physics final : public MujocoPhysics {
 public:
  Physics(const MujocoTask& task, const std::string& path) : task_(task) {
    check(real_files().exists(path), "{}: there is no such model", path);
    char error[1024] = "";
    guarded([&] { model_ = lib_.mj_loadXML(path.c_str(), nullptr, error, sizeof error); });
    check(model_ != nullptr, "{}: {}", path, error);
    const std::pair<int64_t, int64_t> sizes[] = {{model_->nq, task.positions},
                                                 {model_->nv, task.velocities},
                                                 {model_->nu, task.actions},
                                                 {model_->na, 0},
                                                 {model_->nbody, task.bodies}};
    const char* called[] = {"positions", "velocities", "actuators", "activations", "bodies"};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      if (sizes[i].first != sizes[i].second && !(i == 4 && task.bodies == 0)) {
        lib_.mj_deleteModel(model_);
        fail("{}: is not the model of {}: it has {} {}, expected {}", path, task.name,
             sizes[i].first, called[i], sizes[i].second);
      }
    }
    guarded([&] { data_ = lib_.mj_makeData(model_); });
  }
  ~Physics() override {
    lib_.mj_deleteData(data_);
    lib_.mj_deleteModel(model_);
  }
  Physics(const Physics&) = delete;
  Physics& operator=(const Physics&) = delete;

  double seconds() const override { return model_->opt.timestep * task_.steps; }
  std::vector<double> first_state() const override {
    std::vector<double> out(model_->qpos0, model_->qpos0 + model_->nq);
    out.resize(static_cast<size_t>(model_->nq + model_->nv));
    return out;
  }

  void begin(std::span<const double> state) override {
    guarded([&] {
      lib_.mj_resetData(model_, data_);
      std::copy_n(state.begin(), model_->nq, data_->qpos);
      std::copy_n(state.begin() + model_->nq, model_->nv, data_->qvel);
      lib_.mj_forward(model_, data_);
    });
  }
  void step(std::span<const double> controls) override {
    std::ranges::copy(controls, data_->ctrl);
    guarded([&] {
      for (int i = 0; i < task_.steps; ++i) {
        lib_.mj_step(model_, data_);
      }
      lib_.mj_rnePostConstraint(model_, data_);  // contact forces, which steps leave out
    });
  }

  MujocoView view() const override {
    const auto of = [](const double* first, int64_t size) {
      return std::span(first, static_cast<size_t>(size));
    };
    const int64_t bodies = model_->nbody;
    return {of(data_->qpos, model_->nq),    of(data_->qvel, model_->nv),
            of(data_->ctrl, model_->nu),    of(data_->cinert, 10 * bodies),
            of(data_->cvel, 6 * bodies),    of(data_->qfrc_actuator, model_->nv),
            of(data_->cfrc_ext, 6 * bodies)};
  }
  double place() const override {
    if (task_.place == MujocoTask::Place::kRoot) {
      return data_->qpos[0];
    }
    if (task_.place == MujocoTask::Place::kTorso) {
      return data_->xpos[3];
    }
    double mass = 0, moment = 0;
    for (int body = 0; body < model_->nbody; ++body) {
      mass += model_->body_mass[body];
      moment += model_->body_mass[body] * data_->xipos[3 * body];
    }
    return moment / mass;
  }

  int64_t whole_state_size() const override {
    return lib_.mj_stateSize(model_, mjSTATE_INTEGRATION);
  }
  void save(std::span<double> state) const override {
    lib_.mj_getState(model_, data_, state.data(), mjSTATE_INTEGRATION);
  }
  void load(std::span<const double> state) override {
    lib_.mj_setState(model_, data_, state.data(), mjSTATE_INTEGRATION);
  }

  Image picture() override {
    constexpr double kWidth = 300, kHeight = 200, kMetre = 62, kFloor = 165;
    guarded([&] { lib_.mj_kinematics(model_, data_); });
    Canvas canvas(static_cast<int64_t>(kWidth), static_cast<int64_t>(kHeight));
    canvas.rectangle({0, kFloor}, {kWidth, kHeight}, kGrey);
    const double middle = data_->xpos[3];
    const auto at = [&](const double* place, const double* along, double way) {
      return Point{kWidth / 2 + kMetre * (place[0] - middle + (along ? along[2] * way : 0)),
                   kFloor - kMetre * (place[2] + (along ? along[8] * way : 0))};
    };
    for (double mark = std::floor(middle) - 3; mark < middle + 3; ++mark) {  // each metre
      const double ground[] = {mark, 0, 0};
      canvas.disc(at(ground, nullptr, 0), 2, kInk);
    }
    for (int geom = 0; geom < model_->ngeom; ++geom) {
      const double* place = data_->geom_xpos + 3 * geom;
      const double* turned = data_->geom_xmat + 9 * geom;
      const double* size = model_->geom_size + 3 * geom;
      if (model_->geom_type[geom] == mjGEOM_CAPSULE) {
        canvas.line(at(place, turned, -size[1]), at(place, turned, size[1]), 2 * kMetre * size[0],
                    kBlue);
      } else if (model_->geom_type[geom] == mjGEOM_SPHERE) {
        canvas.disc(at(place, nullptr, 0), kMetre * size[0], kAmber);
      }
    }
    return canvas.take();
  }

 private:
  // f() calls MuJoCo, and holds nothing that must be given back.
  template <class F>
  void guarded(const F& f) const {
    WayOut out;
    WayOut* const before = way_out;
    way_out = &out;
    if (setjmp(out.place) == 0) {
      f();
      way_out = before;
      return;
    }
    way_out = before;
    fail("{}: MuJoCo: {}", task_.name, out.said);
  }

  const Library& lib_ = library();
  const MujocoTask& task_;
  mjModel* model_ = nullptr;
  mjData* data_ = nullptr;
};

}  // namespace

std::string mujoco_missing() { return library().missing; }

std::unique_ptr<MujocoPhysics> make_mujoco_physics(const MujocoTask& task,
                                                   const std::string& model) {
  check(library().missing.empty(), "{}: {}", task.name, library().missing);
  return std::make_unique<Physics>(task, model);
}

}  // namespace mstrain::reinforcement

#endif
