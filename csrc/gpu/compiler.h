// The compiler process: it is given a lowered graph, and answers with what runs it. Compiling is
// Python's (qnnrt/gpu/compiler.py); nothing of Python's is in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "abi/qnn_objects.h"
#include "gpu/executable.h"

namespace qnnrt::gpu {

// Mapped memory of an fd that cannot shrink.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  // Errors: 1003.
  static Result<Mapping> Of(int fd, uint64_t size, bool writable);
  uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  // Gives back the whole pages between two places.
  void Drop(uint64_t begin, uint64_t end);

 private:
  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

// A compiled graph: constants lie where the request or the answer has them.
struct Compiled {
  Executable executable;
  std::vector<Mapping> mappings;
  std::shared_ptr<const void> owner;  // of regions in a binary; null: the client keeps them
  std::vector<Region> regions;
};

using LogLine = std::function<void(QnnLog_Level_t level, const std::string& text)>;

struct CompileRequest {
  std::string name;          // of the graph
  const char* lowered;       // of qnnrt_graph_lower
  std::string configs;       // of qnnrt_gpu_config
  std::string device_facts;  // of FactsOf
  std::string device;        // in words
  uint64_t memory_bytes;     // of the device
};

// Whether there is a kernel for a node: asked of a compiler that stays for further questions, and
// for the next graph, until StopStandby. Without a compiler every node has one. Errors: 3110 with
// what there is no kernel for.
Status CheckNode(const std::string& configs, const std::string& device_facts,
                 const std::string& node, const LogLine& log);
void StopStandby();

// Runs the compiler and waits for it. `log` receives what it says. Errors: 1010 there is no
// compiler, or it is lost, 1002 the graph is too large for the device, 6022 it cannot be compiled.
Result<std::shared_ptr<Compiled>> Compile(const CompileRequest& request, const LogLine& log);

}  // namespace qnnrt::gpu
