#!/usr/bin/env bash
# Trains a small GPT on the CPU and on the twin of a card: losses must agree, and a run that goes on must be one that never stopped.
#   twin_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
set -euo pipefail
mstrain=$1 twin=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kernels"

run() {  # NAME DEVICE STEPS [KEY=VALUE ...]
  local name=$1 device=$2 steps=$3
  shift 3
  local -a with=()
  [ "$device" = cpu ] || with=(LD_LIBRARY_PATH="$twin" MSTRAIN_CUDA_CACHE="$work/cache" MSTRAIN_TWIN_FOLDER="$work/kernels")
  env "${with[@]}" "$mstrain" --config "$source/configs/gpt_shakespeare_char.yaml" data.train="$source/README.md" \
    run.device="$device" run.output_dir="$work/$name" model.hidden_size=32 model.num_layers=1 model.num_attention_heads=2 \
    data.seq_length=16 batch.global=2 schedule.total_steps="$steps" optimizer.lr=0.1 log.interval=1 \
    checkpoint.interval=2 eval.interval=100 eval.batches=1 'eval.prompts=[]' "$@" >"$work/$name.log" 2>&1 ||
    { cat "$work/$name.log" >&2; return 1; }
}
losses() { grep -o '"loss":[0-9.]*' "$work/$1/metrics.jsonl" | cut -d: -f2; }
agree() {  # A B TOLERANCE
  paste <(losses "$1") <(losses "$2") | awk -v t="$3" -v a="$1" -v b="$2" '
    { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > t) { print a, $1, b, $2; bad = 1 } }
    END { exit bad || NR < 2 }' >&2
}

run cpu cpu 4
run card cuda 4
agree cpu card 0.0002
run card_again cuda 2
run card_again cuda 4
cmp "$work/card/checkpoints/step-00000004/model.safetensors" "$work/card_again/checkpoints/step-00000004/model.safetensors"
grep -q "going on from step 2" "$work/card_again.log"
narrow=(precision.params=bf16 precision.grads=bf16)
run cpu_bf16 cpu 3 "${narrow[@]}"
run card_bf16 cuda 3 "${narrow[@]}"
agree cpu_bf16 card_bf16 0.03
echo "the twin's losses: $(losses card | tr '\n' ' ')"
