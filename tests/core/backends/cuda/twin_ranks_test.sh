#!/usr/bin/env bash
# Trains a small GPT on two of the twin's cards, in all ways in which ranks share a step, against the same run on one card.
#   twin_ranks_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"
export MSTRAIN_TWIN_CARDS=2

through_cards() {  # NAME
  ! grep -E "through the host|runs on the host" "$work/$1.log" >&2
}

one=(batch.micro=1)
run one cuda 2 "${one[@]}"
for stage in 0 1 2 3; do
  run "zero_$stage" cuda 2 "${one[@]}" --ranks 2 parallel.data=2 "parallel.zero={stage: $stage, min_numel: 1}"
  through_cards "zero_$stage"
  same_weights one "zero_$stage" 2
done
for stage in 1 3; do
  run "zero_${stage}_off" cuda 2 "${one[@]}" --ranks 2 parallel.data=2 "parallel.zero={stage: $stage, min_numel: 1}" \
    'memory.offload={optimizer: cpu, activations: cpu, min_kb: 0}'
  same_weights one "zero_${stage}_off" 2
done
run fast cuda 2 "${one[@]}" --ranks 2 parallel.data=2 parallel.reduction=fast 'parallel.zero={stage: 2, min_numel: 1}'
through_cards fast
agree one fast 0.0002
run tensor cuda 2 "${one[@]}" --ranks 2 parallel.tensor=2
through_cards tensor
agree one tensor 0.0002

# Ranks agree on algorithms: one times a product, the others find what it has found. Each tells how many it timed itself.
find "$work/cache" -name '*.algorithm' -delete
MSTRAIN_CUDA_TUNE=1 run timed cuda 2 "${one[@]}" --ranks 2 parallel.data=2
agree one timed 0.0002
told=$(cat "$work/timed.log" "$work/timed/ranks/rank-0001.log" |
  { grep -Eo "[0-9]+ products? ha(s|ve) the fastest" || true; } | awk '{ n += $1 } END { print n + 0 }')
kept=$(find "$work/cache" -name '*.algorithm' | wc -l)
[ "$told" -gt 0 ] && [ "$told" -le "$kept" ] || { echo "$told products timed, $kept kept" >&2; exit 1; }

deep=("${one[@]}" model.num_layers=2)
run one_deep cuda 2 "${deep[@]}"
run pipeline cuda 2 "${deep[@]}" --ranks 2 parallel.pipeline=2
through_cards pipeline
same_weights one_deep pipeline 2

# One card for two ranks.
MSTRAIN_TWIN_CARDS=1 run shared cuda 2 "${one[@]}" --ranks 2 parallel.data=2
same_weights one shared 2
[ "$(grep -c "ranks 0 and 1 share a card" "$work/shared.log")" = 1 ]

# Nobody waits for ever for a rank that is gone, or for one that is stopped with its card, which may be in the midst of an exchange.
end_rank_1() {  # NAME SIGNAL MESSAGE
  command_of "$1" cuda 100000 "${one[@]}" --ranks 2 parallel.data=2 parallel.timeout_s=4
  "${command[@]}" >"$work/$1.log" 2>&1 &
  local job=$! pid status=0
  until [ -s "$work/$1/metrics.jsonl" ]; do
    kill -0 $job
    sleep 0.2
  done
  for pid in $(pgrep -f "^$mstrain .*$work/$1"); do
    if grep -qzx OMPI_COMM_WORLD_RANK=1 "/proc/$pid/environ"; then
      kill "-$2" "$pid"
    fi
  done
  wait $job || status=$?
  [ $status = 1 ] && grep -Eq "$3" "$work/$1.log" || { cat "$work/$1.log" >&2; return 1; }
}
end_rank_1 killed KILL "rank 1 .* has died"
end_rank_1 stopped STOP "rank 1 .* is stopped: it has not entered|their cards do not end it in [0-9]+ s .parallel.timeout_s: 4"
