#!/usr/bin/env bash
# Trains Wide & Deep on the twin of a card, with rows of its tables in the card's memory: weights, rows and what optimizers keep of both must be
# those of a run without, whatever fits there, also when the run was killed, and on two cards.
#   twin_rows_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"
ec_tool=$(dirname "$mstrain")/ec_tool

command_of() {  # NAME DEVICE STEPS [ARGUMENT ...]: into `command`
  local name=$1 device=$2 steps=$3
  shift 3
  command=("$mstrain" --config "$source/configs/wide_deep_quickstart.yaml" run.device="$device" run.output_dir="$work/$name"
    'model.hidden=[8]' model.embedding_dim=4 data.synthetic.samples=3000 data.synthetic.fields=4 data.synthetic.vocab=400
    batch.global=24 optimizer.lr=0.01 schedule.total_steps="$steps" schedule.type=constant log.interval=1 checkpoint.interval=4
    eval.interval=6 eval.batches=1 run.threads=1 "$@")
  [ "$device" = cpu ] || command=("${on_twin[@]}" "${command[@]}")
}
rows() { echo "$work/$1"/rows*; }
same_run() {  # A B STEP
  same_state "$@"
  "$ec_tool" export "$(rows "$1")" "$work/$1.rows" >/dev/null
  "$ec_tool" export "$(rows "$2")" "$work/$2.rows" >/dev/null
  cmp "$work/$1.rows" "$work/$2.rows"
}

run host cuda 8
# A batch has some 75 distinct ids: in the fewest rows there others leave at each step.
for few in 88 100000; do
  run "card_$few" cuda 8 embedding_cache.device_rows=$few
  same_run host "card_$few" 8
  grep -q "rows on the device" "$work/card_$few.log"
done
run depth cuda 8 embedding_cache.device_rows=88 embedding_cache.pipeline.depth=0 embedding_cache.host_rows=300
same_run host depth 8
rules=(embedding.optimizer.kind=rowwise_adagrad embedding.wide_optimizer.kind=adagrad batch.micro=8)
run rules_host cuda 8 "${rules[@]}"
run rules cuda 8 "${rules[@]}" embedding_cache.device_rows=88
same_run rules_host rules 8

command_of killed cuda 8 embedding_cache.device_rows=88
"${command[@]}" >"$work/killed.log" 2>&1 &
until [ "$(cat "$work/killed/metrics.jsonl" 2>/dev/null | grep -c '"loss"')" -ge 6 ]; do
  sleep 0.05
done
kill -9 $!
wait $! 2>/dev/null || true
run killed cuda 8 embedding_cache.device_rows=88
same_run host killed 8

MSTRAIN_TWIN_CARDS=2 run ranks cuda 8 batch.micro=12 --ranks 2
MSTRAIN_TWIN_CARDS=2 run ranks_card cuda 8 batch.micro=12 --ranks 2 embedding_cache.device_rows=88
same_state ranks ranks_card 8
for rank in 0 1; do
  for name in ranks ranks_card; do
    "$ec_tool" export "$work/$name/rows.$rank-of-2" "$work/$name.$rank.rows" >/dev/null
  done
  cmp "$work/ranks.$rank.rows" "$work/ranks_card.$rank.rows"
done

# What is planned for the card, and a card that is not here.
command_of planned cuda 8 embedding_cache.device_rows=88 --dry-run
"${command[@]}" >"$work/planned.log" 2>&1
grep -Eq "on the device: 88 rows of table rows, .* [0-9.]+ % of lookups and [0-9.]+ % of ids are there" "$work/planned.log"

refused() {  # MESSAGE ARGUMENT ...
  local message=$1
  shift
  command_of refused "$@"
  ! "${command[@]}" >"$work/refused.log" 2>&1
  grep -q "$message" "$work/refused.log" || { cat "$work/refused.log" >&2; return 1; }
}
refused "embedding_cache.device_rows: 88, but run.device: cpu" cpu 8 embedding_cache.device_rows=88
refused "does not fit into 10 rows" cuda 8 embedding_cache.device_rows=10
refused "embedding_cache.device_rows: 2,000,000,000 rows" cuda 8 embedding_cache.device_rows=2000000000 data.synthetic.vocab=1000000000
refused "embedding_cache.device_rows: 88, but with embedding.optimizer.l2_of" cuda 8 embedding_cache.device_rows=88 embedding.optimizer.l2_of=table
