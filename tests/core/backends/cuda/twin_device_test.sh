#!/usr/bin/env bash
# The tests of the back end on a card that are short on the twin.
#   twin_device_test.sh CUDA_TEST TWIN_FOLDER SOURCE_FOLDER
source "$(dirname "$0")/twin_runs.sh"

"${on_twin[@]}" "$mstrain" --gtest_filter='CudaDevice.AnId*' | tee "$work/log"
grep -q "OK ] CudaDevice" "$work/log"
! grep -q SKIPPED "$work/log"
