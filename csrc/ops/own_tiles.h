// Work in tiles, each of which one thread does from its first step to its last, in memory of its
// own: what lies between the steps stays in the cache of one core.
#pragma once

#include <atomic>
#include <utility>

#include "support/status.h"
#include "support/threads.h"

namespace qnnrt {

// run(tile, slot) for each of `tiles`, by up to `slots` threads at a time with a slot for each.
// They take the next tile when they are done with one, so that a thread whose core is busy has
// fewer. The first error, after which no tile begins.
template <typename Run>
Status ForOwnTiles(const Threads& threads, size_t slots, size_t tiles, const Run& run) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Status status;
  threads.For(slots, 1, [&](size_t begin, size_t end) {
    for (size_t slot = begin; slot < end; ++slot) {
      for (size_t i; !failed && (i = next++) < tiles;) {
        Status ran = run(i, slot);
        if (!ran.ok() && !failed.exchange(true)) status = std::move(ran);
      }
    }
  });
  return status;
}

// The same where one slot may mean that all threads share each tile: run(tile, slot, threads).
template <typename Run>
void ForTiles(const Threads& threads, size_t slots, size_t tiles, const Run& run) {
  if (slots == 1) {
    for (size_t i = 0; i < tiles; ++i) run(i, size_t{0}, threads);
    return;
  }
  // `run` returns no error.
  (void)ForOwnTiles(threads, slots, tiles, [&](size_t i, size_t slot) {
    run(i, slot, Threads(1));
    return Status::Ok();
  });
}

}  // namespace qnnrt
