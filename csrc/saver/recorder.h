// What the SAVER backend writes: a program of the calls that were made, and the data that these
// brought. The program is whole after every call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "abi/qnn_saver.h"
#include "support/status.h"

namespace qnnrt::saver {

enum class Kind : uint8_t { kLog, kBackend, kDevice, kContext, kGraph, kProfile };

// What a handle names: in the program it is a variable.
struct Object {
  Kind kind;
  std::string variable;
  void* parent = nullptr;                             // a graph's context
  std::string name;                                   // a graph's
  uint32_t next_tensor = 1;                           // a context's: ids of its tensors
  uint64_t executions = 0;                            // of a graph
  std::unordered_map<uint32_t, std::string> tensors;  // a graph's or context's: id -> variable
};

class Recorder {
 public:
  static Recorder& Get();  // made at first use, never destroyed

  std::mutex& mutex() { return mutex_; }
  // What follows is called with the mutex held.

  // Errors: 4951 when something was recorded already, 1004.
  Status Configure(const QnnSaver_Config_t** list);
  uint32_t backend_id() const { return backend_id_; }

  // Appends statements to the program. Errors: 1003.
  Status Write(const std::string& statements);
  // Appends bytes to the weights file, on a multiple of 64; where they are. Errors: 1003.
  Result<uint64_t> Keep(const void* data, uint64_t size);

  // A new variable of that kind, and the handle that stands for it.
  void* Add(Kind kind, void* parent, std::string* variable);
  Object* Find(const void* handle, Kind kind);
  Object* FindGraph(const void* context, const std::string& name);
  void Remove(const void* handle);  // and the graphs of a context
  std::string NewName(const char* prefix);

 private:
  Status Open();
  Status PutAt(int file, uint64_t offset, const void* data, uint64_t size) const;

  std::mutex mutex_;
  std::string directory_ = "saver_output", program_ = "saver_output.c", weights_ = "params.bin";
  bool timestamp_ = false, header_ = true, footer_ = true;
  uint32_t backend_id_ = QNN_BACKEND_ID_NULL;
  int program_file_ = -1, weights_file_ = -1;
  uint64_t program_end_ = 0, weights_end_ = 0;
  std::map<const void*, Object> objects_;
  uint64_t last_handle_ = 0;
  std::map<std::string, uint64_t> last_number_;
};

}  // namespace qnnrt::saver
