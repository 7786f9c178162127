#!/usr/bin/env bash
# The tests of the back end on a card that are short on the twin, and those that only the twin can have.
#   twin_device_test.sh CUDA_TEST TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"

"${on_twin[@]}" "$mstrain" --gtest_filter='CudaDevice.AnId*:CudaTwin.*' | tee "$work/log"
grep -q "OK ] CudaTwin" "$work/log"
! grep -q SKIPPED "$work/log"
