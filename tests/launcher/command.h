// Runs the mstrain command that was built, as a user would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/train/checkpoint.h"
#include "tests/amount.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {

struct CommandResult {
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

// A running command; its output goes to files in a folder of its own.
class RunningCommand {
 public:
  // `program` may stand on PATH.
  explicit RunningCommand(const std::vector<std::string>& arguments,
                          const char* program = MSTRAIN_COMMAND) {
    std::vector<char*> argv{const_cast<char*>(program)};
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    // Opened here, so that they exist however soon the command is killed.
    const int out = open((folder_ / "out").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const int err = open((folder_ / "err").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(out);
    close(err);
  }
  ~RunningCommand() {
    if (!ended_) {
      signal(SIGKILL);
      wait();
    }
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  void signal(int number) const { kill(pid_, number); }
  pid_t pid() const { return pid_; }

  bool ended() {
    if (!ended_ && waitpid(pid_, &wait_status_, WNOHANG) == pid_) {
      ended_ = true;
    }
    return ended_;
  }

  CommandResult wait() {
    if (!ended_) {
      waitpid(pid_, &wait_status_, 0);
      ended_ = true;
    }
    const int status =
        WIFEXITED(wait_status_) ? WEXITSTATUS(wait_status_) : 128 + WTERMSIG(wait_status_);
    return {status, real_files().read(folder_ / "out"), real_files().read(folder_ / "err")};
  }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int wait_status_ = 0;
  bool ended_ = false;
};

inline CommandResult run_command(const std::vector<std::string>& arguments) {
  return RunningCommand(arguments).wait();
}

inline std::string shipped(const std::string& name) {
  return std::string(MSTRAIN_SOURCE_DIR) + "/configs/" + name;
}

// The value of an environment variable, for the commands that begin as long as this lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) {
      before_ = before;
    }
    setenv(name, value, 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(parent_path(path));
  std::ofstream(path, std::ios::binary) << text;
}

// The files of the newest checkpoint of the run in `directory`, by name.
inline std::map<std::string, std::string> newest_files(const std::string& directory) {
  const auto folder = newest_checkpoint(real_files(), join_path(directory, "checkpoints"), false);
  EXPECT_TRUE(folder.has_value());
  std::map<std::string, std::string> out;
  for (const std::string& name : real_files().list(*folder)) {
    out[name] = real_files().read(join_path(*folder, name));
  }
  return out;
}

// A text of words in no particular order, and a configuration that trains on it in moments.
class SmallRun {
 public:
  SmallRun() {
    std::string text;
    uint32_t state = 1;
    while (text.size() < 20000) {
      state = state * 1664525U + 1013904223U;
      static constexpr const char* kWords[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n"};
      text += kWords[(state >> 16) % 6];
    }
    write_text(folder_ / "text.txt", text);
    write_text(config(),
               "run: {name: small, threads: 1}\n"
               "model: {type: gpt, hidden_size: 16, num_layers: 2, num_attention_heads: 2,\n"
               "        max_position_embeddings: 16, dropout: {hidden: 0.1}}\n"
               "data: {train: " +
                   (folder_ / "text.txt") +
                   ", tokenizer: {type: char}, seq_length: 16}\n"
                   "batch: {global: 4, micro: 2}\n"
                   "optimizer: {type: adamw, lr: 1.0e-2, weight_decay: 0.1}\n"
                   "schedule: {warmup_steps: 5, total_steps: 40, min_lr_ratio: 0.1}\n"
                   "checkpoint: {interval: 10}\n"
                   "eval: {interval: 20, batches: 4, prompts: [\"the \"], sample_tokens: 8}\n"
                   "log: {interval: 5}\n");
  }

  std::string config() const { return folder_ / "small.yaml"; }
  std::string path(const std::string& name) const { return folder_ / name; }

  // mstrain --config FILE run.output_dir=<folder>/<name> …
  std::vector<std::string> arguments(const std::string& name,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> out{"--config", config(), "run.output_dir=" + path(name)};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace mstrain
