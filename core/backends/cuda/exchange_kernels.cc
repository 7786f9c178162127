#include "core/backends/cuda/exchange_kernels.h"

#include <algorithm>

#include "core/backends/cuda/card_communicator.h"
#include "core/backends/cuda/kernels.h"
#include "core/backends/cuda/printer.h"
#include "core/backends/cuda/programs.h"
#include "core/comm/sums.h"
#include "core/ir/halves.h"
#include "core/ops/collective_kernels.h"

namespace mstrain::cuda {
namespace {

CardGroup& cards_of(const CollectiveCall& call) {
  return dynamic_cast<CardCommunicator&>(call.group()).on_cards();
}

Elements elements_at(void* data, Dtype dtype, int64_t count) { return {data, count, dtype}; }
Elements elements_at(void* data, const TensorType& type) {
  return elements_at(data, type.dtype, type.elements());
}
void* at(void* base, int64_t bytes) { return static_cast<std::byte*>(base) + bytes; }

// What runs while others compute: the step that reads the result waits for it, on the card.
Kernel under_way(std::function<Event(const KernelMemory&, const Event& after)> start) {
  return {Halves{[start = std::move(start)](const KernelMemory& memory) {
                   return start(memory, memory.queue->record());
                 },
                 [](const KernelMemory&) {}}};
}

// An ordered reduction behind what brings its pieces.
class Adder {
 public:
  Adder(const OrderedSum& sum, const KernelRequest& request)
      : kernel_(print_ordered_sum(sum, request)) {}
  Event run(CardGroup& cards, void* pieces, void* initial, void* out) const {
    return cards.then([&](Queue& queue) { launch(queue, pieces, initial, out); });
  }
  void launch(Queue& queue, void* pieces, void* initial, void* out) const {
    void* const in[] = {pieces, initial};
    kernel_.launch(std::span(in, initial == nullptr ? 1 : 2), std::span(&out, 1), nullptr, queue);
  }

 private:
  CardKernel kernel_;
};

// Everything comes to everybody, who adds it up.
Kernel reduce_little(const CollectiveCall& call, const KernelRequest& request, Reduction how) {
  const int64_t count = call.in.elements();
  const Adder adder({how, call.in.dtype, call.axis.size, count}, request);
  Kernel kernel = under_way([call, adder, count](const KernelMemory& m, const Event& after) {
    CardGroup& cards = cards_of(call);
    cards.all_gather(elements_at(m.inputs[0], call.in),
                     elements_at(m.workspace, call.in.dtype, count * call.axis.size),
                     call.equal_counts(count), after, call.what);
    return adder.run(cards, m.workspace, nullptr, m.outputs[0]);
  });
  kernel.workspace_bytes = call.in.bytes() * call.axis.size;
  return kernel;
}

// Each rank adds up its piece, of which then all get the sum.
Kernel reduce_by_pieces(const CollectiveCall& call, const KernelRequest& request, Reduction how) {
  const Elements all = elements_at(nullptr, call.in);
  const std::vector<int64_t> counts = even_pieces(all, call.axis.size);
  const auto own = static_cast<size_t>(call.ranks == nullptr ? 0 : call.group().rank());
  int64_t first = 0;
  for (size_t r = 0; r < own; ++r) {
    first += counts[r];
  }
  const std::vector<int64_t> here = call.equal_counts(counts[own]);
  const Adder adder({how, call.in.dtype, call.axis.size, counts[own]}, request);
  Kernel kernel = under_way([call, adder, counts, here, first, mine = counts[own]](
                                const KernelMemory& m, const Event& after) {
    CardGroup& cards = cards_of(call);
    const Dtype dtype = call.in.dtype;
    cards.all_to_all(elements_at(m.inputs[0], call.in),
                     elements_at(m.workspace, dtype, mine * call.axis.size), counts, here, after,
                     call.what);
    void* const sum = at(m.outputs[0], first * size_of(dtype));
    const Event summed = adder.run(cards, m.workspace, nullptr, sum);
    return cards.all_gather(elements_at(sum, dtype, mine), elements_at(m.outputs[0], call.out),
                            counts, summed, call.what);
  });
  kernel.workspace_bytes = counts[0] * call.axis.size * size_of(call.in.dtype);
  return kernel;
}

Kernel prepare_all_reduce_on_cards(const KernelRequest& request) {
  const CollectiveCall call(request);
  const Reduction how = reduction_of(request.attrs);
  Kernel kernel;
  if (how == Reduction::kFastSum && CardGroup::adds_up(call.in.dtype)) {
    kernel = under_way([call](const KernelMemory& m, const Event& after) {
      return cards_of(call).all_reduce(elements_at(m.inputs[0], call.in),
                                       elements_at(m.outputs[0], call.out), after, call.what);
    });
  } else if (call.in.bytes() * (call.axis.size - 1) <= kLittleToReduce) {
    kernel = reduce_little(call, request, how);
  } else {
    kernel = reduce_by_pieces(call, request, how);
  }
  kernel.in_place = {{0, 0}};
  return kernel;
}

// The parts of all ranks come here, and are added up in their order; where the order is free, on their way.
Kernel prepare_reduce_scatter_on_cards(const KernelRequest& request) {
  const CollectiveCall call(request);
  const bool begun = request.inputs.size() == 2;
  const Dtype dtype = call.in.dtype;
  const int64_t part = call.out.elements();
  const auto initial = begun ? std::optional(call.out.dtype) : std::nullopt;
  const bool fast = reduction_of(request.attrs) == Reduction::kFastSum && CardGroup::adds_up(dtype);
  const Adder adder({Reduction::kSum, dtype, fast ? 1 : call.axis.size, part, initial}, request);
  Kernel kernel;
  if (call.alone()) {
    kernel.run = [adder, begun](const KernelMemory& m) {
      adder.launch(*m.queue, m.inputs[0], begun ? m.inputs[1] : nullptr, m.outputs[0]);
    };
  } else if (fast) {
    kernel =
        under_way([call, adder, begun, dtype, part](const KernelMemory& m, const Event& after) {
          CardGroup& cards = cards_of(call);
          const Event ended = cards.reduce_scatter(
              elements_at(m.inputs[0], call.in),
              elements_at(begun ? m.workspace : m.outputs[0], dtype, part), after, call.what);
          return begun ? adder.run(cards, m.workspace, m.inputs[1], m.outputs[0]) : ended;
        });
    kernel.workspace_bytes = begun ? part * size_of(dtype) : 0;
  } else {
    kernel = under_way([call, adder, begun, counts = call.equal_counts(part)](const KernelMemory& m,
                                                                              const Event& after) {
      CardGroup& cards = cards_of(call);
      cards.all_to_all(elements_at(m.inputs[0], call.in), elements_at(m.workspace, call.in), counts,
                       counts, after, call.what);
      return adder.run(cards, m.workspace, begun ? m.inputs[1] : nullptr, m.outputs[0]);
    });
    kernel.workspace_bytes = call.in.bytes();
  }
  if (begun) {
    kernel.in_place = {{0, 1}};
  }
  return kernel;
}

Kernel prepare_all_gather_on_cards(const KernelRequest& request) {
  return under_way([call = CollectiveCall(request)](const KernelMemory& m, const Event& after) {
    return cards_of(call).all_gather(elements_at(m.inputs[0], call.in),
                                     elements_at(m.outputs[0], call.out),
                                     call.equal_counts(call.in.elements()), after, call.what);
  });
}

Kernel prepare_all_to_all_on_cards(const KernelRequest& request) {
  const CollectiveCall call(request);
  return under_way([call, counts = call.equal_counts(call.in.elements() / call.axis.size)](
                       const KernelMemory& m, const Event& after) {
    return cards_of(call).all_to_all(elements_at(m.inputs[0], call.in),
                                     elements_at(m.outputs[0], call.out), counts, counts, after,
                                     call.what);
  });
}

Kernel prepare_permute_on_cards(const KernelRequest& request) {
  return under_way([call = CollectiveCall(request), to = destinations_of(request.attrs)](
                       const KernelMemory& m, const Event& after) {
    CardGroup& cards = cards_of(call);
    const auto from = static_cast<int>(std::ranges::find(to, cards.rank()) - to.begin());
    return cards.pass(elements_at(m.inputs[0], call.in),
                      static_cast<int>(to[static_cast<size_t>(cards.rank())]),
                      elements_at(m.outputs[0], call.out), from, after, call.what);
  });
}

}  // namespace

KernelText print_ordered_sum(const OrderedSum& sum, const KernelRequest& request) {
  if (sum.count == 0) {
    return {};
  }
  std::vector<ViewType> in = {ViewType::dense({sum.dtype, {sum.pieces * sum.count}})};
  const ViewType out = ViewType::dense({sum.initial.value_or(sum.dtype), {sum.count}});
  if (sum.initial) {
    in.push_back(out);
  }
  const KernelRequest own{request.op, request.attrs, in, std::span(&out, 1)};
  const char* const how = sum.reduction == Reduction::kMax   ? "RankMax"
                          : sum.reduction == Reduction::kMin ? "RankMin"
                                                             : "RankSum";
  KernelPrinter text(own, "ranks.cuh");
  text.begin_elements("", sum.count);
  text.line("auto all = {};", sum.initial ? fmt::format("{}::load(in1[i])", text.in_format(1))
                                          : fmt::format("{}::load(in0[i])", text.in_format(0)));
  text.open("for (int piece = {}; piece < {}; ++piece) {{", sum.initial ? 0 : 1, sum.pieces);
  text.line("all = {}()(all, {}::load(in0[Index(piece) * {} + i]));", how, text.in_format(0),
            sum.count);
  if (sum.initial) {
    text.line("all = as<{}>(all);", text.out_format(0));
  }
  text.close();
  text.line("out0[i] = {}::store(all);", text.out_format(0));
  text.end_elements();
  return text.finish();
}

bool exchanges_by_cards(const KernelRequest& request) {
  const CollectiveCall call(request);
  if (call.ranks != nullptr) {
    return dynamic_cast<CardCommunicator*>(&call.group()) != nullptr;
  }
  return !backend_named("cuda")->missing().empty() || nccl().missing.empty();
}

Kernel prepare_exchange(const KernelRequest& request) {
  const std::string_view op = request.op.name;
  return op == "all_reduce"       ? prepare_all_reduce_on_cards(request)
         : op == "reduce_scatter" ? prepare_reduce_scatter_on_cards(request)
         : op == "all_gather"     ? prepare_all_gather_on_cards(request)
         : op == "all_to_all"     ? prepare_all_to_all_on_cards(request)
                                  : prepare_permute_on_cards(request);
}

}  // namespace mstrain::cuda
