#include "embedding_cache/cache.h"

#include <exception>

#include "core/base/error.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {
namespace {

std::vector<OptimizerKind> kinds_of(const RowLayout& layout) {
  std::vector<OptimizerKind> kinds;
  for (const RowLayout::Part& part : layout.parts()) {
    kinds.push_back(part.options.optimizer.kind);
  }
  return kinds;
}

}  // namespace

Ticket::Ticket() = default;
Ticket::Ticket(std::unique_ptr<TicketState> state) : state_(std::move(state)) {}
Ticket::Ticket(Ticket&& other) noexcept : state_(std::move(other.state_)) {}
Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    drop();
    state_ = std::move(other.state_);
  }
  return *this;
}
Ticket::~Ticket() { drop(); }

void Ticket::drop() noexcept {
  if (state_ != nullptr) {
    const std::shared_ptr<Core> core = state_->core;
    core->drop(*state_, std::uncaught_exceptions() > 0);
    state_.reset();
  }
}

void Ticket::give_back() {
  const std::shared_ptr<Core> core = state().core;
  core->release(*state_);
  state_.reset();
}

const TicketState& Ticket::state() const {
  check(state_ != nullptr,
        "embedding_cache: the ticket holds nothing: it was released, moved or never filled");
  return *state_;
}

uint64_t Ticket::step() const { return state().step; }
bool Ticket::has_learned() const { return state().updated; }
size_t Ticket::positions() const { return state().batch.inverse.size(); }
std::span<const Id> Ticket::ids() const { return state().batch.unique; }
std::span<const uint32_t> Ticket::inverse() const { return state().batch.inverse; }

Cache::Cache(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&& other) noexcept {
  if (this != &other) {
    if (core_) {
      core_->close();
    }
    core_ = std::move(other.core_);
  }
  return *this;
}
Cache::~Cache() {
  if (core_) {
    core_->close();
  }
}

Cache Cache::open(const Options& options) { return resume(options, 0); }
Cache Cache::resume(const Options& options, CommitId id) {
  auto core = std::make_shared<Core>(options);
  core->open(id);
  return Cache(std::move(core));
}

const Options& Cache::options() const { return core_->options; }
CommitId Cache::last_commit() const { return core_->last_commit(); }
uint64_t Cache::last_step() const { return core_->last_step(); }
std::span<const std::byte> Cache::user_blob() const { return as_bytes(core_->user_blob); }
const RowLayout& Cache::layout(uint32_t table) const { return core_->at(table).layout; }

uint32_t Cache::table(std::string_view name) const {
  std::vector<std::string> names;
  for (uint32_t t = 0; t < core_->tables.size(); ++t) {
    if (core_->tables[t]->options.name == name) {
      return t;
    }
    names.push_back(core_->tables[t]->options.name);
  }
  fail("embedding_cache: no table is called \"{}\"{}", name, did_you_mean(name, names));
}

void Cache::announce(uint32_t table, std::span<const Id> ids) { core_->announce(table, ids); }
Ticket Cache::prefetch(uint32_t table, std::span<const Id> ids, uint64_t step, Use use) {
  return Ticket(core_->prefetch(table, ids, step, use));
}
void Cache::wait(const Ticket& ticket) {
  ticket.state();
  core_->wait(*ticket.state_);
}
void Cache::gather(const Ticket& ticket, float* out, size_t stride, Tile tile) const {
  gather(ticket, Bags{}, out, stride, tile);
}
void Cache::gather(const Ticket& ticket, const Bags& bags, float* out, size_t stride,
                   Tile tile) const {
  const HeldLookup lookup{&ticket.state(), bags, out, stride};
  core_->gather(std::span(&lookup, 1), tile);
}
void Cache::gather(std::span<const Lookup> lookups, Tile tile) const {
  std::vector<HeldLookup> held;
  for (const auto& [ticket, bags, out, stride] : lookups) {
    check(ticket != nullptr, "embedding_cache: gather: a lookup without a ticket");
    held.push_back({&ticket->state(), bags, out, stride});
  }
  core_->gather(held, tile);
}
void Cache::rows(const Ticket& ticket, std::vector<const float*>& out) const {
  core_->rows(ticket.state(), out);
}
const RowLayout& Cache::layout_of(const Ticket& ticket) const {
  return core_->at(ticket.state().table).layout;
}
void Cache::update_rows(Ticket& ticket, std::span<const float> gradients, GradientsOf of,
                        std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                        std::optional<float> lr_scale) {
  ticket.state();
  core_->update(*ticket.state_, gradients, of, kinds, kernel, lr_scale);
}
void Cache::update_rows(Ticket& ticket, std::span<const BagGradients> gradients,
                        std::span<const OptimizerKind> kinds, const RowKernel& kernel,
                        std::optional<float> lr_scale) {
  ticket.state();
  core_->update(*ticket.state_, gradients, kinds, kernel, lr_scale);
}
void Cache::update(Ticket& ticket, std::span<const float> gradients, GradientsOf of,
                   float lr_scale) {
  const RowLayout& layout = layout_of(ticket);
  update_rows(ticket, gradients, of, kinds_of(layout), make_kernel(layout, ticket.step(), lr_scale),
              lr_scale);
}
void Cache::update(Ticket& ticket, std::span<const BagGradients> gradients, float lr_scale) {
  const RowLayout& layout = layout_of(ticket);
  update_rows(ticket, gradients, kinds_of(layout), make_kernel(layout, ticket.step(), lr_scale),
              lr_scale);
}
void Cache::release(Ticket&& ticket) {
  ticket.state();
  core_->release(*ticket.state_);
  ticket.state_.reset();
}

void Cache::records(const Ticket& ticket, std::vector<const std::byte*>& out) const {
  core_->records(ticket.state(), out);
}
void Cache::learned_outside(Ticket& ticket, uint64_t rows, std::span<const Id> begun) {
  ticket.state();
  core_->learned_outside(*ticket.state_, rows, begun);
}
void Cache::put(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records) {
  core_->put(table, ids, records);
}

CommitId Cache::start_commit(uint64_t step, std::span<const std::byte> user_blob) {
  return core_->start_commit(step, user_blob);
}
void Cache::wait_commit(CommitId id) { core_->wait_commit(id); }
CommitId Cache::prepare(uint64_t step, std::span<const std::byte> user_blob) {
  return core_->prepare(step, user_blob);
}
void Cache::commit(CommitId id) { core_->commit(id); }
void Cache::commit(CommitId id, std::span<const CommitId> needed) { core_->commit(id, needed); }
CommitId Cache::commit_step(uint64_t step, std::span<const std::byte> user_blob) {
  const CommitId id = core_->prepare(step, user_blob);
  core_->commit(id);
  return id;
}
uint64_t Cache::evict(uint64_t step, const SumOver& sum) { return core_->evict(step, sum); }
void Cache::start_evict(uint64_t step, const SumOver& sum) { core_->start_evict(step, sum); }
ExportSummary Cache::export_delta(CommitId since, const std::string& path, bool with_state) {
  return core_->export_delta(since, path, with_state);
}
ExportSummary Cache::import_delta(const std::string& path) { return core_->import_delta(path); }
void Cache::load(uint32_t table, std::span<const Id> ids, std::span<const std::byte> records) {
  core_->load(table, ids, records);
}
void Cache::load_weights(uint32_t table, std::span<const Id> ids, std::span<const float> weights) {
  core_->load_weights(table, ids, weights);
}
std::span<const PastStep> Cache::past(uint32_t table) const {
  return core_->at(table).past.steps();
}
void Cache::go_through(uint32_t table, std::span<const PastStep> steps) {
  core_->go_through(table, steps);
}
void Cache::scan(uint32_t table, const std::function<void(Id, const std::byte*)>& visit) {
  core_->scan(table, visit);
}
std::string Cache::digest() { return core_->digest(); }
Stats Cache::stats() const { return core_->stats(); }

}  // namespace mstrain::embedding_cache
