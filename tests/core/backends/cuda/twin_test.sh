#!/usr/bin/env bash
# Trains a small GPT on the CPU and on the twin of a card: losses must agree, and a run that goes on must be one that never stopped.
#   twin_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"

launches() { grep -o "[0-9]* $2" "$work/$1.counts" | cut -d' ' -f1; }
run cpu cpu 4
run card cuda 4
agree cpu card 0.0002
run card_again cuda 2
run card_again cuda 4
same_weights card card_again 4
grep -q "going on from step 2" "$work/card_again.log"
narrow=(precision.params=bf16 precision.grads=bf16)
run cpu_bf16 cpu 4 "${narrow[@]}"
MSTRAIN_TWIN_COUNTS="$work/card_bf16.counts" run card_bf16 cuda 4 "${narrow[@]}"
agree cpu_bf16 card_bf16 0.03

run cpu_micro cpu 3 "${narrow[@]}" batch.micro=1
run card_micro cuda 3 "${narrow[@]}" batch.micro=1
agree cpu_micro card_micro 0.03

# Products in fp8: those of a layer's four weights, forward, and with their gradients backward, in the step that is run and in the one that is
# captured.
eighth=("${narrow[@]}" precision.products=fp8 precision.fp8_history=3)
run cpu_fp8 cpu 4 "${eighth[@]}"
MSTRAIN_TWIN_COUNTS="$work/card_fp8.counts" run card_fp8 cuda 4 "${eighth[@]}"
agree cpu_fp8 card_fp8 0.001
! agree cpu_bf16 card_fp8 0 2>/dev/null
[ "$(launches card_fp8 float8)" = 24 ]
run card_fp8_again cuda 2 "${eighth[@]}"
run card_fp8_again cuda 4 "${eighth[@]}"
same_state card_fp8 card_fp8_again 4
run cpu_fp8_micro cpu 3 "${eighth[@]}" batch.micro=1
run card_fp8_micro cuda 3 "${eighth[@]}" batch.micro=1
agree cpu_fp8_micro card_fp8_micro 0.001
command_of old cuda 1 "${eighth[@]}"
status=0
MSTRAIN_TWIN_MAJOR=8 "${command[@]}" >"$work/old.log" 2>&1 || status=$?
[ $status = 3 ]
grep -q "precision.products: fp8 needs a card of sm_89 or later, and twin is of sm_80; say params" "$work/old.log"

# GELU and its derivative are epilogues there, in the step that is run and in the one that is captured.
[ "$(launches card_bf16 aux)" = 4 ]

# A step is one launch from its third run on, and has the bits of kernels that are launched one by one.
MSTRAIN_TWIN_COUNTS="$work/single.counts" MSTRAIN_CUDA_GRAPHS=0 run single cuda 8
MSTRAIN_TWIN_COUNTS="$work/whole.counts" run whole cuda 8
same_state single whole 8
[ "$(launches single graphs)" = 0 ]
[ "$(launches whole graphs)" -ge 6 ]
[ "$(launches card_bf16 graphs)" -ge 2 ]  # weights and masters stay where they are
[ $((2 * $(launches whole kernels))) -lt "$(launches single kernels)" ]
# What is captured has fewer: updates of parameters of one shape are one launch.
MSTRAIN_TWIN_COUNTS="$work/single_two.counts" MSTRAIN_CUDA_GRAPHS=0 run single_two cuda 2
MSTRAIN_TWIN_COUNTS="$work/whole_two.counts" run whole_two cuda 2
[ "$(launches whole_two kernels)" -lt "$(launches single_two kernels)" ]

# The fastest algorithm of every product is timed once, and then the same for whoever has the cache; a damaged entry is made again.
timed() {  # NAME TUNE
  MSTRAIN_TWIN_COUNTS="$work/$1.counts" MSTRAIN_CUDA_TUNE=$2 run "$1" cuda 4
  agree cpu "$1" 0.0002
}
timed first 1
grep -Eq "^[0-9]+ products have the fastest of cuBLASLt's algorithms" "$work/first.log"
[ "$(launches first slow)" -gt 0 ]
timed again 1
! grep -q "fastest of cuBLASLt" "$work/again.log"
[ "$(launches again slow)" = 0 ]
entries=("$work"/cache/*.algorithm)
entry=${entries[0]}
cp "$entry" "$work/entry"
sed -i 's/0/1/' "$entry"
timed damaged 1
grep -q "^1 product has the fastest" "$work/damaged.log"
cmp "$entry" "$work/entry"
timed off 0
[ "$(launches off fast)" = 0 ]
[ "$(launches single fast)" = 0 ]  # none is worth it

echo "the twin's losses: $(losses card | tr '\n' ' ')"
