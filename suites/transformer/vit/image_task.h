// What the trainer needs to know of a ViT and its images. Batches are {pixels f32 [rows, channels, size, size], labels i32
// [rows]} and, where images are mixed, {others i32 [rows], shares f32 [rows]} besides.
#pragma once

#include "core/data/image_loader.h"
#include "core/train/task.h"
#include "suites/run/network.h"
#include "suites/transformer/vit/model.h"

namespace mstrain::vit {

// `batches_held`: those that a stream of add_images() holds.
TrainTask image_task(const Vit& model, const Network& network, int64_t size, bool mixes,
                     int batches_held);

// Fills in streams of training and evaluation. `view` is what training sees.
void add_images(const ImageParts& images, const ImageView& view, bool shuffle, int workers,
                TrainData& out);

}  // namespace mstrain::vit
