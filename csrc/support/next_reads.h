// What a later loop of the same graph reads: fetched by workers that wait for it, while what comes
// between runs on one thread and memory would be idle.
#pragma once

#include <cstddef>

namespace qnnrt {

// Memory that a thread reads at some places, each front to back. It is fetched by addresses alone,
// which may be gone by then.
struct NextReads {
  static constexpr size_t kMostPlaces = 36;
  struct Place {
    const char* data;
    size_t bytes;
  };
  void Add(const void* data, size_t bytes) {
    if (count < kMostPlaces && bytes != 0)
      places[count++] = {static_cast<const char*>(data), bytes};
  }

  size_t count = 0;
  Place places[kMostPlaces];
};

// Something that reads much constant memory in a loop of Threads.
class Reader {
 public:
  // What a thread reads first that begins with that share of the loop.
  virtual void FirstReads(size_t share, size_t shares, NextReads* to) const = 0;

 protected:
  ~Reader() = default;
};

// Loops of the calling thread are followed by one of that reader, or of nobody known where it is
// null. A worker asks it before it is done with its part of a loop, so it has to live as long.
class BeforeReader {
 public:
  explicit BeforeReader(const Reader* next);
  ~BeforeReader();
  BeforeReader(const BeforeReader&) = delete;
  BeforeReader& operator=(const BeforeReader&) = delete;

 private:
  const Reader* const before_;
};

}  // namespace qnnrt
