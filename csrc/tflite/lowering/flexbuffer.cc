// FlexBuffers from their public description: https://flatbuffers.dev/flexbuffers. The last byte is
// the width of the root, the one before it says what the root is, and offsets point back.
#include "tflite/lowering/flexbuffer.h"

#include <cmath>
#include <cstring>

#include "tflite/lowering/lowering.h"

namespace qnnrt::tflite {
namespace {

enum Type : uint8_t {
  kInt = 1,
  kUint = 2,
  kFloat = 3,
  kIndirectInt = 6,
  kIndirectUint = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kVectorInt = 11,
  kVectorUint = 12,
  kVectorFloat = 13,
  kBool = 26,
};

class Reader {
 public:
  Reader(const uint8_t* bytes, size_t size) : bytes_(bytes), size_(size) {}

  uint64_t Uint(size_t at, size_t width) const {
    Check(at, width);
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= uint64_t{bytes_[at + i]} << (8 * i);
    return value;
  }
  int64_t Int(size_t at, size_t width) const {
    const size_t unused = 64 - 8 * width;
    return static_cast<int64_t>(Uint(at, width) << unused) >> unused;
  }
  double Float(size_t at, size_t width) const {
    const uint64_t bits = Uint(at, width);
    if (width == 4) {
      const auto narrow = static_cast<uint32_t>(bits);
      float value;
      std::memcpy(&value, &narrow, sizeof value);
      return value;
    }
    if (width != 8) Damaged("options with a float of %zu bytes", width);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // What an offset at `at` points to.
  size_t Target(size_t at, size_t width) const {
    const uint64_t back = Uint(at, width);
    if (back > at) Damaged("options that point out of themselves");
    return at - static_cast<size_t>(back);
  }
  // Before a vector lie its length and others, each of its width.
  size_t Before(size_t at, size_t count, size_t width) const {
    if (at < count * width) Damaged("options that are cut off");
    return at - count * width;
  }
  std::string Text(size_t at) const {
    Check(at, 1);
    const void* end = std::memchr(bytes_ + at, 0, size_ - at);
    if (end == nullptr) Damaged("options with a name without an end");
    return std::string(reinterpret_cast<const char*>(bytes_ + at));
  }
  void Check(size_t at, size_t count) const {
    if (at > size_ || count > size_ - at) Damaged("options that are cut off");
  }

 private:
  const uint8_t* const bytes_;
  const size_t size_;
};

size_t WidthOf(uint64_t width) {
  if (width != 1 && width != 2 && width != 4 && width != 8)
    Damaged("options with numbers of %llu bytes", static_cast<unsigned long long>(width));
  return static_cast<size_t>(width);
}

}  // namespace

std::map<std::string, Option, std::less<>> ReadFlexMap(const uint8_t* bytes, size_t size) {
  if (bytes == nullptr || size < 3) Damaged("no options");
  const Reader r(bytes, size);
  const size_t root_width = WidthOf(bytes[size - 1]);
  if (size < 2 + root_width || bytes[size - 2] >> 2 != kMap) Damaged("options that are no map");
  const size_t width = size_t{1} << (bytes[size - 2] & 3);
  const size_t map = r.Target(size - 2 - root_width, root_width);
  const uint64_t count = r.Uint(r.Before(map, 1, width), width);
  const size_t keys_width = WidthOf(r.Uint(r.Before(map, 2, width), width));
  const size_t keys = r.Target(r.Before(map, 3, width), width);
  if (count > size) Damaged("options that are cut off");
  r.Check(map, count * (width + 1));
  std::map<std::string, Option, std::less<>> found;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = r.Text(r.Target(keys + i * keys_width, keys_width));
    const uint8_t kind = bytes[map + count * width + i];
    const size_t at = map + i * width, wide = size_t{1} << (kind & 3);
    Option& option = found[name];
    switch (kind >> 2) {
      case kInt:
        option.number = static_cast<double>(r.Int(at, width));
        break;
      case kUint:
      case kBool:
        option.number = static_cast<double>(r.Uint(at, width));
        break;
      case kFloat:
        option.number = r.Float(at, width);
        break;
      case kIndirectInt:
        option.number = static_cast<double>(r.Int(r.Target(at, width), wide));
        break;
      case kIndirectUint:
        option.number = static_cast<double>(r.Uint(r.Target(at, width), wide));
        break;
      case kIndirectFloat:
        option.number = r.Float(r.Target(at, width), wide);
        break;
      case kVectorInt:
      case kVectorUint:
      case kVectorFloat: {
        const size_t first = r.Target(at, width);
        const uint64_t length = r.Uint(r.Before(first, 1, wide), wide);
        if (length > size) Damaged("options that are cut off");
        for (size_t k = first; k < first + length * wide; k += wide) {
          option.list.push_back(kind >> 2 == kVectorInt    ? static_cast<double>(r.Int(k, wide))
                                : kind >> 2 == kVectorUint ? static_cast<double>(r.Uint(k, wide))
                                                           : r.Float(k, wide));
        }
        break;
      }
      default:
        found.erase(name);
    }
  }
  return found;
}

}  // namespace qnnrt::tflite
