# For tests that source this with MSTRAIN TWIN_FOLDER SOURCE_FOLDER: runs of a small GPT on the CPU and on the twin's cards.
set -euo pipefail
mstrain=$1 twin=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kernels"

on_twin=(env LD_LIBRARY_PATH="$twin" MSTRAIN_CUDA_CACHE="$work/cache" MSTRAIN_TWIN_FOLDER="$work/kernels")
command_of() {  # NAME DEVICE STEPS [ARGUMENT ...]: into `command`
  local name=$1 device=$2 steps=$3
  shift 3
  command=("$mstrain" --config "$source/configs/gpt_shakespeare_char.yaml" data.train="$source/README.md"
    run.device="$device" run.output_dir="$work/$name" model.hidden_size=32 model.num_layers=1 model.num_attention_heads=2
    data.seq_length=16 batch.global=2 schedule.total_steps="$steps" optimizer.lr=0.1 log.interval=1
    checkpoint.interval=2 eval.interval=100 eval.batches=1 'eval.prompts=[]' "$@")
  [ "$device" = cpu ] || command=("${on_twin[@]}" "${command[@]}")
}
run() {  # as command_of
  command_of "$@"
  "${command[@]}" >"$work/$1.log" 2>&1 || { cat "$work/$1.log" >&2; return 1; }
}
losses() { grep -o '"loss":[0-9.]*' "$work/$1/metrics.jsonl" | cut -d: -f2; }
agree() {  # A B TOLERANCE
  paste <(losses "$1") <(losses "$2") | awk -v t="$3" -v a="$1" -v b="$2" '
    { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > t) { print a, $1, b, $2; bad = 1 } }
    END { exit bad || NR < 2 }' >&2
}
same_state() {  # A B STEP: weights and what the optimizer keeps
  same_weights "$@"
  cmp "$work/$1/checkpoints/step-0000000$3/optimizer.safetensors" "$work/$2/checkpoints/step-0000000$3/optimizer.safetensors"
}
same_weights() {  # A B STEP
  cmp "$work/$1/checkpoints/step-0000000$3/model.safetensors" "$work/$2/checkpoints/step-0000000$3/model.safetensors"
}
