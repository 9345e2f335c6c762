// Constants and packed weights that are equal are there once: what is shared with whom, what is
// counted, and what is left when a graph goes, fails, or runs out of memory.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "abi/qnn_errors.h"
#include "abi/qnn_htp.h"
#include "abi/qnn_interface.h"
#include "abi/qnnrt_ext.h"
#include "check.h"
#include "ir/content_table.h"
#include "qnn_tensor.h"
#include "support/digest.h"

using namespace qnnrt;

namespace {

using Code = uint64_t;
using Table = QnnInterface_ImplementationV2_32_t;

const Table& TableOf(uint32_t backend) {
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  QnnInterface_getProviders(&list, &count);
  for (uint32_t i = 0; i < count; ++i) {
    if (list[i]->backendId == backend) return list[i]->v2_32;
  }
  return list[0]->v2_32;
}
constexpr uint32_t kCpu = 3, kHtp = 6;

Qnnrt_WeightsInfo_t Info() {
  Qnnrt_WeightsInfo_t info;
  CHECK_EQ(qnnrt_weights_info(&info), 0u);
  return info;
}

// So many that products of any number of rows have the same kernels.
constexpr uint32_t kDepth = 512, kColumns = 512, kClasses = 64;
constexpr uint64_t kMatrixBytes = kDepth * kColumns * 4, kTableBytes = kClasses * kDepth * 4;

std::vector<float> Values(size_t count, int seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] =
        static_cast<float>(static_cast<int>((i * 37 + static_cast<size_t>(seed) * 11) % 23) - 11) /
        8;
  return values;
}

struct Place {
  explicit Place(uint32_t id = kCpu, const QnnContext_Config_t** config = nullptr)
      : q(TableOf(id)) {
    CHECK_EQ(q.backendCreate(nullptr, nullptr, &backend), 0u);
    CHECK_EQ(q.contextCreate(backend, nullptr, config, &context), 0u);
  }
  ~Place() { Close(); }
  void Close() {
    if (context != nullptr) CHECK_EQ(q.contextFree(context, nullptr), 0u);
    if (backend != nullptr) CHECK_EQ(q.backendFree(backend), 0u);
    context = nullptr;
    backend = nullptr;
  }
  const Table& q;
  Qnn_BackendHandle_t backend = nullptr;
  Qnn_ContextHandle_t context = nullptr;
};

// y = table[ids] x weights, for `rows` ids: weights are packed, the table is read as it is.
struct Net {
  Net(const Table& table, uint32_t rows, int seed = 1)
      : q(table),
        matrix(Values(kDepth * kColumns, seed)),
        embedding(Values(kClasses * kDepth, seed)) {
    id_dims[0] = x_dims[0] = y_dims[0] = rows;
    for (uint32_t i = 0; i < rows; ++i) index.push_back(static_cast<int32_t>(i * 7 % kClasses));
    out.assign(size_t{rows} * kColumns, 0);
  }

  Code Create(Qnn_ContextHandle_t context, const char* name, uint32_t share = 1, int threads = 1,
              bool release = false) {
    Qnnrt_GraphConfig_t structs[3] = {};
    QnnGraph_Config_t configs[3] = {};
    const QnnGraph_Config_t* list[4] = {};
    const auto set = [&](size_t i, uint32_t option) {
      structs[i].magic = QNNRT_GRAPH_CONFIG_MAGIC;
      structs[i].option = option;
      configs[i].option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
      configs[i].customConfig = &structs[i];
      list[i] = &configs[i];
    };
    set(0, QNNRT_GRAPH_OPTION_SHARE_WEIGHTS);
    structs[0].shareWeights = share;
    set(1, QNNRT_GRAPH_OPTION_NUM_THREADS);
    structs[1].numThreads = static_cast<uint32_t>(threads);
    set(2, release ? QNNRT_GRAPH_OPTION_RELEASE_CONSTANTS : QNNRT_GRAPH_OPTION_KEEP_CONSTANTS);
    if (release) structs[2].releaseConstants = 1;
    return q.graphCreate(context, name, list, &graph);
  }
  // `kept`: with the constants of that one, which stay.
  Code Compose(bool lend = false, Net* kept = nullptr) {
    Net* const of = kept == nullptr ? this : kept;
    w.v1.clientBuf = {of->matrix.data(), static_cast<uint32_t>(kMatrixBytes)};
    t.v1.clientBuf = {of->embedding.data(), static_cast<uint32_t>(kTableBytes)};
    Code e = 0;
    for (Qnn_Tensor_t* tensor : {&ids, &x, &y}) {
      if (e == 0) e = q.tensorCreateGraphTensor(graph, tensor);
    }
    for (Qnn_Tensor_t* tensor : {&w, &t}) {
      if (e != 0) break;
      e = kept != nullptr ? qnnrt_graph_keep_static(graph, tensor, nullptr)
          : lend          ? qnnrt_graph_lend_static(graph, tensor, nullptr)
                          : q.tensorCreateGraphTensor(graph, tensor);
    }
    Qnn_Tensor_t gather[2] = {t, ids}, product[2] = {x, w};
    Qnn_OpConfig_t op;
    std::memset(&op, 0, sizeof(op));
    op.version = QNN_OPCONFIG_VERSION_1;
    Qnn_Param_t axis = {};
    axis.paramType = QNN_PARAMTYPE_SCALAR;
    axis.name = "axis";
    axis.scalarParam.dataType = QNN_DATATYPE_INT_32;
    op.v1 = {"gather", "qti.aisw", "Gather", 1, &axis, 2, gather, 1, &x};
    if (e == 0) e = q.graphAddNode(graph, op);
    op.v1 = {"product", "qti.aisw", "MatMul", 0, nullptr, 2, product, 1, &y};
    if (e == 0) e = q.graphAddNode(graph, op);
    return e;
  }
  Code Finalize() { return q.graphFinalize(graph, nullptr, nullptr); }
  Code Make(Qnn_ContextHandle_t context, const char* name, bool lend = false, uint32_t share = 1,
            int threads = 1, bool release = false) {
    Code e = Create(context, name, share, threads, release);
    if (e == 0) e = Compose(lend);
    return e == 0 ? Finalize() : e;
  }
  bool Right() {
    ids.v1.clientBuf = {index.data(), static_cast<uint32_t>(index.size() * 4)};
    y.v1.clientBuf = {out.data(), static_cast<uint32_t>(out.size() * 4)};
    std::fill(out.begin(), out.end(), -1.0f);
    if (q.graphExecute(graph, &ids, 1, &y, 1, nullptr, nullptr) != 0) return false;
    for (size_t r = 0; r < index.size(); ++r) {
      for (size_t c = 0; c < kColumns; ++c) {
        float sum = 0;  // exact: small multiples of 1/64
        for (size_t k = 0; k < kDepth; ++k)
          sum += embedding[static_cast<size_t>(index[r]) * kDepth + k] * matrix[k * kColumns + c];
        if (out[r * kColumns + c] != sum) return false;
      }
    }
    return true;
  }
  Qnnrt_GraphWeights_t Weights() const {
    Qnnrt_GraphWeights_t weights;
    CHECK_EQ(qnnrt_graph_weights(graph, &weights), 0u);
    return weights;
  }

  const Table& q;
  std::vector<float> matrix, embedding, out;
  std::vector<int32_t> index;
  uint32_t id_dims[1], x_dims[2] = {0, kDepth}, y_dims[2] = {0, kColumns};
  uint32_t w_dims[2] = {kDepth, kColumns}, t_dims[2] = {kClasses, kDepth};
  Qnn_GraphHandle_t graph = nullptr;
  Qnn_Tensor_t ids = TensorOf("ids", QNN_TENSOR_TYPE_APP_WRITE, id_dims, 1, QNN_DATATYPE_INT_32);
  Qnn_Tensor_t x = TensorOf("x", QNN_TENSOR_TYPE_NATIVE, x_dims, 2);
  Qnn_Tensor_t y = TensorOf("y", QNN_TENSOR_TYPE_APP_READ, y_dims, 2);
  Qnn_Tensor_t w = TensorOf("w", QNN_TENSOR_TYPE_STATIC, w_dims, 2);
  Qnn_Tensor_t t = TensorOf("t", QNN_TENSOR_TYPE_STATIC, t_dims, 2);
};

// What one graph of them has: the table, and the matrix in panels.
constexpr uint64_t kBoth = kTableBytes + kMatrixBytes;

}  // namespace

TEST(equal_bytes_have_equal_digests_and_others_do_not) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{8191}, size_t{8192},
                      size_t{8193}, size_t{100000}, size_t{3} << 20}) {
    std::vector<uint8_t> bytes(size + 1);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
    const Digest digest = DigestOf(bytes.data(), size);
    const std::vector<uint8_t> moved(bytes.begin(), bytes.end());
    CHECK(DigestOf(moved.data(), size, Threads(3)) == digest);
    for (size_t i = 0; i < size; i += 1 + size / 61) {
      bytes[i] ^= 1;
      CHECK(DigestOf(bytes.data(), size) != digest);
      bytes[i] ^= 1;
    }
    // Blocks in another order.
    if (size >= 2 * 8192) {
      std::swap_ranges(bytes.begin(), bytes.begin() + 8192, bytes.begin() + 8192);
      CHECK(DigestOf(bytes.data(), size) != digest);
    }
  }
}

TEST(an_entry_lives_as_long_as_somebody_has_its_bytes) {
  ContentTable& table = ContentTable::Get();
  const ContentTable::Totals before = table.totals();
  const ContentKey key{{1, 2, 3, 4}, 4096, 77};
  auto first = table.Publish(key, AlignedBytes::Make(4096));
  auto second = table.Publish(key, AlignedBytes::Make(4096));
  CHECK(first.get() == second.get());
  CHECK_EQ(table.totals().entries, before.entries + 1);
  CHECK_EQ(table.totals().bytes, before.bytes + 4096);
  CHECK(table.Find({{1, 2, 3, 4}, 4096, 78}) == nullptr);  // another scope
  CHECK(table.Find({{1, 2, 3, 4}, 4095, 77}) == nullptr);
  first = nullptr;
  CHECK(table.Find(key) == second);
  second = nullptr;
  CHECK(table.Find(key) == nullptr);
  CHECK_EQ(table.totals().entries, before.entries);
  CHECK_EQ(table.totals().bytes, before.bytes);
}

TEST(graphs_of_a_context_have_their_weights_once) {
  const Qnnrt_WeightsInfo_t before = Info();
  {
    Place place;
    Net one(place.q, 3), two(place.q, 50), other(place.q, 3, 2);
    REQUIRE(one.Make(place.context, "one") == 0);
    const uint64_t bytes = Info().bytes - before.bytes, entries = Info().entries - before.entries;
    CHECK_EQ(entries, 2u);
    CHECK_EQ(bytes, kBoth);
    CHECK_EQ(one.Weights().private_bytes, kBoth);
    CHECK_EQ(one.Weights().shared_bytes, 0u);
    REQUIRE(two.Make(place.context, "two") == 0);
    CHECK_EQ(Info().bytes - before.bytes, bytes);
    CHECK_EQ(Info().entries - before.entries, entries);
    for (const Net* net : {&one, &two}) {
      CHECK_EQ(net->Weights().shared_bytes, kBoth);
      CHECK_EQ(net->Weights().private_bytes, 0u);
    }
    CHECK(one.Right() && two.Right());
    REQUIRE(other.Make(place.context, "other") == 0);
    CHECK_EQ(Info().bytes - before.bytes, 2 * bytes);
    CHECK_EQ(other.Weights().shared_bytes, 0u);
    CHECK(one.Right() && two.Right() && other.Right());
  }
  CHECK_EQ(Info().entries, before.entries);
  CHECK_EQ(Info().bytes, before.bytes);
}

TEST(threads_and_lent_data_do_not_unshare) {
  const Qnnrt_WeightsInfo_t before = Info();
  Place place;
  Net one(place.q, 3), two(place.q, 40), three(place.q, 5);
  REQUIRE(one.Make(place.context, "one", true, 1, 1, true) == 0);
  REQUIRE(two.Make(place.context, "two", false, 1, 4) == 0);
  REQUIRE(three.Make(place.context, "three", true, 1, 2, true) == 0);
  CHECK_EQ(Info().bytes - before.bytes, kBoth);
  CHECK(one.Right() && two.Right() && three.Right());
}

TEST(who_shares_with_whom_is_asked_for) {
  const Qnnrt_WeightsInfo_t before = Info();
  {
    Place a, b, c;
    Net one(a.q, 3), two(b.q, 3), three(c.q, 3), four(c.q, 3), alone(c.q, 3);
    REQUIRE(one.Make(a.context, "g") == 0 && two.Make(b.context, "g") == 0);
    CHECK_EQ(Info().bytes - before.bytes, 2 * kBoth);  // each context has its own
    REQUIRE(three.Make(c.context, "g", false, QNNRT_SHARE_WEIGHTS_PROCESS) == 0);
    CHECK_EQ(Info().bytes - before.bytes, 3 * kBoth);
    Place d(kHtp);
    Net fifth(d.q, 3);
    REQUIRE(fifth.Make(d.context, "g", false, QNNRT_SHARE_WEIGHTS_PROCESS) == 0);
    CHECK_EQ(Info().bytes - before.bytes, 3 * kBoth);  // with another context and backend
    REQUIRE(alone.Make(c.context, "alone", false, QNNRT_SHARE_WEIGHTS_NOBODY) == 0);
    CHECK_EQ(Info().bytes - before.bytes, 3 * kBoth);
    CHECK_EQ(alone.Weights().private_bytes, kBoth);
    c.Close();
    CHECK_EQ(Info().bytes - before.bytes, 3 * kBoth);
    CHECK(one.Right() && two.Right() && fifth.Right());
  }
  CHECK_EQ(Info().entries, before.entries);
}

TEST(htp_contexts_share_where_their_options_say_so) {
  const auto config = [](QnnHtpContext_CustomConfig_t* custom, QnnContext_Config_t* c) {
    *c = {};
    c->option = QNN_CONTEXT_CONFIG_OPTION_CUSTOM;
    c->customConfig = custom;
  };
  const Qnnrt_WeightsInfo_t before = Info();
  QnnHtpContext_CustomConfig_t sharing = {};
  sharing.option = QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED;
  sharing.weightSharingEnabled = true;
  QnnContext_Config_t c;
  config(&sharing, &c);
  const QnnContext_Config_t* list[] = {&c, nullptr};
  {
    Place a(kHtp, list), b(kHtp, list), own(kHtp);
    Net one(a.q, 3), two(b.q, 9), three(own.q, 3);
    REQUIRE(one.Make(a.context, "g") == 0 && two.Make(b.context, "g") == 0);
    CHECK_EQ(Info().bytes - before.bytes, kBoth);
    REQUIRE(three.Make(own.context, "g") == 0);
    CHECK_EQ(Info().bytes - before.bytes, 2 * kBoth);
    // A group with the context that has its own.
    QnnHtpContext_CustomConfig_t group = {};
    group.option = QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS;
    group.groupRegistration = {own.context, 0};
    config(&group, &c);
    Place member(kHtp, list);
    Net four(member.q, 20);
    REQUIRE(four.Make(member.context, "g") == 0);
    CHECK_EQ(Info().bytes - before.bytes, 2 * kBoth);
    group.option = QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING;
    group.concurrentGroupRegistration = {own.context, 0};
    Place another(kHtp, list);
    Net five(another.q, 2);
    REQUIRE(five.Make(another.context, "g") == 0);
    CHECK_EQ(Info().bytes - before.bytes, 2 * kBoth);
    own.Close();
    CHECK(one.Right() && two.Right() && four.Right() && five.Right());
  }
  CHECK_EQ(Info().entries, before.entries);
}

TEST(a_process_domain_has_shared_weights_once_and_as_long_as_anybody) {
  const auto used = [] {
    Qnnrt_DomainInfo_t info;
    CHECK_EQ(qnnrt_htp_domain_info(&info), 0u);
    return info.used_bytes;
  };
  const auto arena = [](const Net& net) {
    Qnnrt_GraphStats_t stats;
    CHECK_EQ(qnnrt_graph_stats(net.graph, &stats), 0u);
    return stats.arena_bytes + (stats.reserved_bytes + 4095) / 4096 * 4096;
  };
  const uint64_t before = used();
  Place a(kHtp), b(kHtp);
  Net one(a.q, 64), two(b.q, 64);
  REQUIRE(one.Make(a.context, "g", false, QNNRT_SHARE_WEIGHTS_PROCESS) == 0);
  const uint64_t first = used() - before;
  REQUIRE(two.Make(b.context, "g", false, QNNRT_SHARE_WEIGHTS_PROCESS) == 0);
  CHECK_EQ(used() - before, first + (first - kBoth));
  CHECK(first > kBoth && first - kBoth >= arena(one));
  a.Close();
  CHECK_EQ(used() - before, first);
  b.Close();
  CHECK_EQ(used(), before);
}

TEST(the_last_graph_frees_and_the_next_one_makes_anew) {
  const Qnnrt_WeightsInfo_t before = Info();
  for (int round = 0; round < 3; ++round) {
    Place place;
    Net net(place.q, 3, round);
    REQUIRE(net.Make(place.context, "g", true, QNNRT_SHARE_WEIGHTS_PROCESS) == 0);
    CHECK_EQ(Info().found, before.found);
    CHECK(net.Right());
  }
  CHECK_EQ(Info().entries, before.entries);
}

TEST(threads_that_finalize_at_once_end_with_one_copy) {
  const Qnnrt_WeightsInfo_t before = Info();
  Place place;
  constexpr size_t kThreads = 6;
  std::vector<std::unique_ptr<Net>> nets;
  for (size_t i = 0; i < kThreads; ++i) {
    nets.push_back(std::make_unique<Net>(place.q, 2 + static_cast<uint32_t>(i)));
    REQUIRE(nets[i]->Create(place.context, ("g" + std::to_string(i)).c_str()) == 0);
  }
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (auto& net : nets) {
    threads.emplace_back([&failed, &net] {
      if (net->Compose(true) != 0 || net->Finalize() != 0) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(failed.load(), 0);
  CHECK_EQ(Info().bytes - before.bytes, kBoth);
  for (auto& net : nets) CHECK(net->Right());
}

TEST(lent_data_is_read_at_finalize_and_never_again) {
  Place place;
  Net net(place.q, 3), wrong(place.q, 3);
  REQUIRE(net.Create(place.context, "g") == 0 && net.Compose(true) == 0);
  const std::vector<float> matrix = Values(kDepth * kColumns, 5),
                           table = Values(kClasses * kDepth, 6);
  std::copy(matrix.begin(), matrix.end(), net.matrix.begin());  // the values that count
  std::copy(table.begin(), table.end(), net.embedding.begin());
  REQUIRE(net.Finalize() == 0);
  std::memset(net.w.v1.clientBuf.data, 0xFF, kMatrixBytes);
  std::memset(net.t.v1.clientBuf.data, 0xFF, kTableBytes);
  net.matrix = matrix;
  net.embedding = table;
  CHECK(net.Right());
  // Strides that are none are refused when they come.
  REQUIRE(wrong.Create(place.context, "wrong") == 0);
  const int64_t odd[] = {8, 3};
  wrong.w.v1.clientBuf = {wrong.matrix.data(), static_cast<uint32_t>(kMatrixBytes)};
  CHECK_EQ(qnnrt_graph_lend_static(wrong.graph, &wrong.w, odd) & 0xFFFF,
           Code{QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM});
}

TEST(data_that_stays_with_the_context_is_read_once) {
  Place place, other;
  Net first(place.q, 3), second(place.q, 5), elsewhere(other.q, 4);
  const std::vector<float> matrix = first.matrix, embedding = first.embedding;
  REQUIRE(first.Create(place.context, "first") == 0 && first.Compose(false, &first) == 0);
  REQUIRE(first.Finalize() == 0);
  // Against the rule, to see that nobody looks.
  const std::vector<float> others[] = {Values(kDepth * kColumns, 5), Values(kClasses * kDepth, 6)};
  std::copy(others[0].begin(), others[0].end(), first.matrix.begin());
  std::copy(others[1].begin(), others[1].end(), first.embedding.begin());
  REQUIRE(second.Create(place.context, "second") == 0 && second.Compose(false, &first) == 0);
  REQUIRE(second.Finalize() == 0);
  second.matrix = matrix;
  second.embedding = embedding;
  CHECK(second.Right());
  CHECK_EQ(second.Weights().shared_bytes, kBoth);
  // Another context has not seen it yet.
  REQUIRE(elsewhere.Create(other.context, "g") == 0 && elsewhere.Compose(false, &first) == 0);
  REQUIRE(elsewhere.Finalize() == 0);
  elsewhere.matrix = first.matrix;
  elsewhere.embedding = first.embedding;
  CHECK(elsewhere.Right());
}

TEST(an_allocation_that_fails_anywhere_leaves_nothing) {
  const Qnnrt_WeightsInfo_t before = Info();
  for (bool lend : {false, true}) {
    Place place;
    Net held(place.q, 3);
    REQUIRE(held.Make(place.context, "held") == 0);
    for (int64_t n = 1;; ++n) {
      Place other;
      Net net(other.q, 4);
      const uint64_t bytes = Info().bytes;
      qnnrt_debug_fail_allocation(n);
      const Code code = net.Make(other.context, "g", lend, QNNRT_SHARE_WEIGHTS_PROCESS);
      qnnrt_debug_fail_allocation(-1);
      if (code == 0) CHECK(net.Right());
      other.Close();
      CHECK_EQ(Info().bytes, bytes);
      if (code == 0) break;
      if (n > 5000) {
        CHECK_EQ(n, 0);  // it has to come to an end
        break;
      }
    }
    CHECK(held.Right());
  }
  CHECK_EQ(Info().entries, before.entries);
}

CHECK_MAIN("shared_weights_test")
