// A model in memory; see interpreter.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

namespace tflite {

struct Model;  // the root of a model file

// The bytes of a file. The library has this class as a template of its own; a builder takes the
// root as well.
class FlatBufferModel {
 public:
  static std::unique_ptr<FlatBufferModel> BuildFromFile(const char* path) {
    std::ifstream file(path, std::ios::binary);
    auto model = std::make_unique<FlatBufferModel>();
    model->bytes_.assign(std::istreambuf_iterator<char>(file), {});
    return model->bytes_.size() > sizeof(uint32_t) ? std::move(model) : nullptr;
  }
  const Model* root() const {
    uint32_t offset;
    std::memcpy(&offset, bytes_.data(), sizeof offset);
    return reinterpret_cast<const Model*>(bytes_.data() + offset);
  }

 private:
  std::vector<char> bytes_;
};

}  // namespace tflite
