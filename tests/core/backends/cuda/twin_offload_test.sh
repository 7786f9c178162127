#!/usr/bin/env bash
# Runs on the twin of a card with what need not be there in the host's memory, against the same without: no bit may differ.
#   twin_offload_test.sh MSTRAIN TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"

both='memory.offload={optimizer: cpu, activations: cpu, min_kb: 0}'
# Each parameter's once a step, and blocks that leave something for the backward pass.
deep=(model.num_layers=3 precision.params=bf16 precision.moments=int8)
run deep cuda 3 "${deep[@]}"
run deep_off cuda 3 "${deep[@]}" "$both"
same_state deep deep_off 3

# In a loop over micro-batches that computes blocks again, by kernels that are launched one by one; and the run goes on.
loop=("${deep[@]}" batch.micro=1 memory.recompute=full)
run loop cuda 4 "${loop[@]}"
MSTRAIN_CUDA_GRAPHS=0 run loop_off cuda 2 "${loop[@]}" "$both"
MSTRAIN_CUDA_GRAPHS=0 run loop_off cuda 4 "${loop[@]}" "$both"
grep -q "going on from step 2" "$work/loop_off.log"
same_state loop loop_off 4

# Products read what has come.
muon=(optimizer.type=muon optimizer.momentum=0.95 optimizer.lr=0.01)
run muon cuda 2 "${muon[@]}"
run muon_off cuda 2 "${muon[@]}" "$both"
same_state muon muon_off 2
