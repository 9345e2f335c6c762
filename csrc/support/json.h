// A JSON writer, which takes care of commas and escapes.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace qnnrt {

class JsonWriter {
 public:
  JsonWriter& Object() { return Open('{', '}'); }
  JsonWriter& Array() { return Open('[', ']'); }
  JsonWriter& End() {
    text_ += closers_.back();
    closers_.pop_back();
    comma_ = true;
    return *this;
  }
  JsonWriter& Key(const std::string& key) {
    String(key);
    text_ += ':';
    comma_ = false;
    return *this;
  }
  JsonWriter& String(const std::string& value) {
    Separate();
    text_ += '"';
    for (char c : value) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        static const char kHex[] = "0123456789abcdef";
        text_ += "\\u00";
        text_ += kHex[(c >> 4) & 15];
        text_ += kHex[c & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
    return *this;
  }
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  JsonWriter& Number(T value) {
    Separate();
    if constexpr (std::is_floating_point_v<T>) {
      char digits[40];  // the fewest that read back as the same number, in any locale
      auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
      const char* quote = std::isfinite(value) ? "" : "\"";  // JSON has no infinities and no NaN
      text_ += quote + std::string(digits, end) + quote;
    } else {
      text_ += std::to_string(value);
    }
    return *this;
  }
  JsonWriter& Bool(bool value) {
    Separate();
    text_ += value ? "true" : "false";
    return *this;
  }
  // A value that is JSON already.
  JsonWriter& Raw(const std::string& json) {
    Separate();
    text_ += json;
    return *this;
  }
  std::string Take() { return std::move(text_); }

 private:
  JsonWriter& Open(char open, char close) {
    Separate();
    text_ += open;
    closers_.push_back(close);
    comma_ = false;
    return *this;
  }
  void Separate() {
    if (comma_) text_ += ',';
    comma_ = true;
  }

  std::string text_;
  std::vector<char> closers_;
  bool comma_ = false;
};

}  // namespace qnnrt
