// A folder of pictures by class, for tests.
#pragma once

#include "core/base/files.h"
#include "core/base/rng.h"
#include "core/io/images/image.h"

namespace mstrain {

// folder/CLASS/0.png …: noise, of each class most in one colour: what a glance tells apart.
inline void write_pictures(const std::string& folder, const std::vector<std::string>& classes,
                           int64_t count, const Image& shape, Rng& rng) {
  for (size_t label = 0; label < classes.size(); ++label) {
    const std::string its = join_path(folder, classes[label]);
    real_files().create_directories(its);
    for (int64_t i = 0; i < count; ++i) {
      Image image = shape;
      for (size_t at = 0; at < image.pixels.size(); ++at) {
        image.pixels[at] = static_cast<uint8_t>(rng.below(at % 3 == label ? 256 : 128));
      }
      write_file_atomic(real_files(), join_path(its, std::to_string(i) + ".png"),
                        encode_png(image));
    }
  }
}

}  // namespace mstrain
