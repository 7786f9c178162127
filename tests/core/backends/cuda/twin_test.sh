#!/usr/bin/env bash
# Trains a small GPT on the CPU and on the twin of a card: losses must agree, and a run that goes on must be one that never stopped.
#   twin_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"

run cpu cpu 4
run card cuda 4
agree cpu card 0.0002
run card_again cuda 2
run card_again cuda 4
same_weights card card_again 4
grep -q "going on from step 2" "$work/card_again.log"
narrow=(precision.params=bf16 precision.grads=bf16)
run cpu_bf16 cpu 3 "${narrow[@]}"
run card_bf16 cuda 3 "${narrow[@]}"
agree cpu_bf16 card_bf16 0.03
echo "the twin's losses: $(losses card | tr '\n' ' ')"
