// What the fuzzer, and the replay of its corpus, do with the bytes of a context binary: whatever
// they are, they load or give an error, and what loads executes or gives an error.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "graph/binary/io.h"
#include "graph/graph.h"
#include "ops/package_op.h"
#include "support/crc32c.h"

namespace binary_harness {

using namespace qnnrt;

// Makes the outer fields what they have to be, so that what is behind them is reached: sizes that
// fill the binary, and checksums that fit.
inline void Repair(std::vector<uint8_t>* bytes) {
  using At = BinaryHeaderAt;
  const auto put = [&](size_t at, auto value) {
    std::memcpy(bytes->data() + at, &value, sizeof value);
  };
  const uint64_t least = kBinaryPageAlignment;
  bytes->resize(std::max<uint64_t>(least, bytes->size() / least * least), 0);
  std::memcpy(bytes->data(), kBinaryMagic, sizeof kBinaryMagic);
  const uint64_t size = bytes->size();
  uint64_t weights;
  std::memcpy(&weights, bytes->data() + At::kWeightsOffset, sizeof weights);
  if (weights < least || weights > size || weights % kBinaryPageAlignment != 0) weights = size;
  put(At::kFormat, kBinaryFormat);
  put(At::kHeaderSize, static_cast<uint32_t>(kBinaryHeaderSize));
  put(At::kSize, size);
  put(At::kMetadataOffset, kBinaryHeaderSize);
  put(At::kMetadataSize, weights - kBinaryHeaderSize);
  put(At::kWeightsOffset, weights);
  put(At::kWeightsSize, size - weights);
  put(At::kFlags, uint32_t{0});
  put(At::kMetadataChecksum,
      Crc32c(bytes->data() + kBinaryHeaderSize, weights - kBinaryHeaderSize));
  put(At::kHeaderChecksum, Crc32c(bytes->data(), At::kHeaderChecksum));
}

// Memory and time that an execution takes at most: honest graphs may want more than a test has.
inline bool IsSmall(const Plan& plan) {
  constexpr double kMostWork = 5e7;
  double work = 0;
  for (const Node& node : plan.nodes()) {
    double out = 1, in = 1;
    for (const Tensor* t : node.outputs)
      if (t != nullptr) out += static_cast<double>(t->bytes());
    for (const Tensor* t : node.inputs)
      if (t != nullptr) in = std::max(in, static_cast<double>(t->elements()));
    work += out * in;
  }
  return plan.arena().peak <= (uint64_t{16} << 20) && work <= kMostWork;
}

inline Status Execute(Graph* graph) {
  std::vector<std::vector<uint64_t>> memory;
  std::vector<Qnn_Tensor_t> in, out;
  uint64_t bytes = 0;
  for (const auto* tensors : {&graph->inputs(), &graph->outputs()}) {
    for (const Tensor* t : *tensors) bytes += t->bytes();
  }
  if (bytes > (uint64_t{16} << 20)) return Status::Ok();
  for (const auto* tensors : {&graph->inputs(), &graph->outputs()}) {
    for (const Tensor* t : *tensors) {
      memory.emplace_back(t->bytes() / 8 + 1, 0x3F8000003F800000u);  // ones, as floats
      Qnn_Tensor_t raw;
      std::memset(&raw, 0, sizeof raw);
      raw.version = QNN_TENSOR_VERSION_1;
      raw.v1.id = t->id;
      raw.v1.dataType = t->dtype;
      raw.v1.rank = static_cast<uint32_t>(t->shape.size());
      raw.v1.dimensions = const_cast<uint32_t*>(t->shape.data());
      raw.v1.memType = QNN_TENSORMEMTYPE_RAW;
      raw.v1.clientBuf = {memory.back().data(), static_cast<uint32_t>(t->bytes())};
      (t->is_input() ? in : out).push_back(raw);
    }
  }
  return graph->Execute(in.data(), static_cast<uint32_t>(in.size()), out.data(),
                        static_cast<uint32_t>(out.size()), {});
}

// The op of every package: output 0 is input 0.
class CopyOp : public PackageOp {
 public:
  Status Validate(const Node& node) const override {
    if (node.HasInput(0) && node.HasOutput(0) &&
        node.inputs[0]->bytes() == node.outputs[0]->bytes()) {
      return Status::Ok();
    }
    return Status(QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE, "copies one tensor of the same size");
  }
  Result<KernelPtr> MakeKernel(const Node& node) const override {
    return KernelPtr(std::make_unique<Copy>(node.inputs[0]->bytes()));
  }

 private:
  class Copy : public Kernel {
   public:
    explicit Copy(uint64_t bytes) : bytes_(bytes) {}
    Status Run(const ExecArgs& args) override {
      std::memmove(args.out[0], args.in[0], bytes_);
      return Status::Ok();
    }

   private:
    uint64_t bytes_;
  };
};

inline GraphHost HostWithPackages() {
  GraphHost host;
  host.find_package_op = [](const std::string&, const std::string&) {
    return Result<std::shared_ptr<const PackageOp>>(std::make_shared<CopyOp>());
  };
  return host;
}

// `trusted`: the weights' checksums are not compared. Returns the first error, or Ok.
inline Status LoadAndRun(const uint8_t* data, size_t size, bool trusted) {
  // Aligned as a mapping is, and exactly as long: an access behind it is seen by the sanitizer.
  std::shared_ptr<AlignedBytes> bytes = AlignedBytes::Copy(data, size);
  if (bytes == nullptr) return Status(1002, "no memory for a test");
  QNNRT_ASSIGN_OR_RETURN(BinaryView view, BinaryView::Open(bytes->data(), size));
  for (const BinaryGraph& described : view.graphs()) {
    GraphOptions options;
    options.threads = 1;
    Graph graph(described.name, 1, options, HostWithPackages());
    BinaryGraph one_thread = described;
    one_thread.threads = std::min(described.threads, 2);
    QNNRT_RETURN_IF_ERROR(graph.Declare(one_thread));
    LoadOptions load;
    load.weights = view.data() + described.weights_offset;
    load.owner = bytes;
    load.checked = trusted;
    load.most_bytes = uint64_t{64} << 20;
    QNNRT_RETURN_IF_ERROR(graph.Load(view, one_thread, load));
    graph.Describe();
    if (IsSmall(*graph.plan())) QNNRT_RETURN_IF_ERROR(Execute(&graph));
    // What was loaded is written again without a look at where it came from.
    BinaryWriter writer({6, {}, {}}, {&graph});
    if (writer.size() <= (uint64_t{64} << 20)) {
      std::vector<uint8_t> again(writer.size());
      writer.Write(again.data());
      QNNRT_RETURN_IF_ERROR(BinaryView::Open(again.data(), again.size()).status());
    }
  }
  return Status::Ok();
}

// One graph on a backend whose memory is the client's, in pools of exactly the size answered: an
// access behind them is seen by the sanitizer.
inline Status RunInPools(const std::shared_ptr<const LoadSource>& source,
                         const BinaryGraph& described, bool exclude_io) {
  constexpr uint64_t kMostBytes = uint64_t{16} << 20;
  GraphHost host = HostWithPackages();
  host.client_memory = true;
  host.start_alignment = host.size_alignment = 8;
  GraphOptions options;
  options.exclude_io = exclude_io;
  Graph graph(described.name, 1, options, std::move(host));
  QNNRT_RETURN_IF_ERROR(graph.Declare(described));
  QNNRT_RETURN_IF_ERROR(graph.Defer(source));
  QNNRT_ASSIGN_OR_RETURN(const PoolSizes sizes, graph.Prepare());
  if (std::max(sizes.scratch, sizes.persistent) > kMostBytes) return Status::Ok();
  std::vector<uint64_t> scratch(sizes.scratch / 8), persistent(sizes.persistent / 8);
  if (!scratch.empty()) QNNRT_RETURN_IF_ERROR(graph.SetScratch(scratch.data(), sizes.scratch));
  if (!persistent.empty())
    QNNRT_RETURN_IF_ERROR(graph.SetPersistent(persistent.data(), sizes.persistent));
  QNNRT_RETURN_IF_ERROR(graph.Finalize(nullptr));
  if (!IsSmall(*graph.plan())) return Status::Ok();
  return exclude_io ? Execute(&graph) : graph.Execute(nullptr, 0, nullptr, 0, {});
}

// As LoadAndRun, with inputs and outputs in the scratch memory and without.
inline Status LoadAndRunInPools(const uint8_t* data, size_t size, bool trusted) {
  std::shared_ptr<AlignedBytes> bytes = AlignedBytes::Copy(data, size);
  if (bytes == nullptr) return Status(1002, "no memory for a test");
  auto source = std::make_shared<LoadSource>();
  QNNRT_ASSIGN_OR_RETURN(source->view, BinaryView::Open(bytes->data(), size));
  source->owner = bytes;
  source->checked = trusted;
  for (const BinaryGraph& described : source->view.graphs()) {
    for (const bool exclude_io : {false, true})
      QNNRT_RETURN_IF_ERROR(RunInPools(source, described, exclude_io));
  }
  return Status::Ok();
}

}  // namespace binary_harness
