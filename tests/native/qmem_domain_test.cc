// The process domain of the htp backend as clients meet it: what counts, what does not fit, who is
// named, where the budget comes from.
#include "qmem_net.h"

using namespace qmem;

namespace {

uint64_t Pages(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

TEST(staging_counts_against_the_domain_at_finalize_and_goes_with_the_context) {
  const uint64_t before = Used();
  Net net(4096);
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kHandle) == 0 && net.Finalize() == 0);
  CHECK_EQ(net.Stats().reserved_bytes, 2 * net.Bytes());
  CHECK_EQ(Used() - before, Pages(2 * net.Bytes()) + net.Stats().arena_bytes);
  REQUIRE(net.UseAll(kRaw, kRaw, kRaw) == 0 && net.Run() == 0);
  CHECK_EQ(Used() - before, 3 * net.Bytes() + net.Stats().arena_bytes);
  net.Close();
  CHECK_EQ(Used(), before);
}

TEST(a_budget_that_staging_exceeds_is_8003_at_finalize_or_at_the_first_execute) {
  Net big(4096);
  REQUIRE(big.Open() == 0 && big.Compose(kRaw, kRaw, kRaw) == 0);
  const uint64_t before = Used();
  {
    Budget tight(3 * big.Bytes() - 1);
    CHECK_EQ(big.Finalize(), Code{QNN_MEM_ERROR_MAPPING});
    CHECK(Has(LastMessage(), "staging of graph 'g'"));
    CHECK_EQ(Used(), before);
  }
  CHECK_EQ(big.Finalize(), 0u);  // the refusal changed nothing
  REQUIRE(big.UseAll(kRaw, kRaw, kRaw) == 0);
  CHECK(big.Right(1));

  Net late(4096);
  REQUIRE(late.Open() == 0 && late.Compose(kHandle, kHandle, kHandle) == 0);
  REQUIRE(late.Finalize() == 0 && late.UseAll(kHandle, kRaw, kHandle) == 0);
  {
    Budget tight(late.Bytes() - 1);
    CHECK_EQ(late.Run(), Code{QNN_MEM_ERROR_MAPPING});
    CHECK(Has(LastMessage(), "registered buffer"));  // who holds it: the handles of both
    CHECK_EQ(late.Stats().executes, 0u);
    CHECK_EQ(late.Stats().reserved_bytes, 0u);
    REQUIRE(late.UseAll(kHandle, kHandle, kHandle) != 0);  // nor can b be registered: 8003
    CHECK(Has(LastMessage(), "cannot map"));
  }
  REQUIRE(late.UseAll(kHandle, kRaw, kHandle) == 0);
  CHECK(late.Right(2));
  CHECK_EQ(late.Stats().reserved_at_execute_bytes, late.Bytes());
}

TEST(a_registered_file_counts_once_however_many_handles_and_contexts_use_it) {
  const uint64_t before = Used();
  Net one, two;
  REQUIRE(one.Open() == 0 && two.Open() == 0);
  Rpc rpc(3 * 4096);
  std::vector<Qnn_MemHandle_t> handles;
  auto add = [&](Qnn_ContextHandle_t context, uint64_t offset) {
    QnnMemHtp_Descriptor_t htp = {};
    htp.type = QNN_HTP_MEM_SHARED_BUFFER;
    htp.size = rpc.size;
    htp.sharedBufferConfig = {rpc.fd(), offset};
    Qnn_MemDescriptor_t d = {};
    d.memShape = {2, one.dims, nullptr};
    d.dataType = QNN_DATATYPE_FLOAT_32;
    d.memType = QNN_MEM_TYPE_CUSTOM;
    d.customInfo = &htp;
    Qnn_MemHandle_t h = nullptr;
    const Code e = q.memRegister(context, &d, 1, &h);
    if (e == 0) handles.push_back(h);
    return e;
  };
  {
    Budget tight(rpc.size - 1);
    CHECK_EQ(add(one.context, 0), Code{QNN_MEM_ERROR_MAPPING});
    CHECK(Has(LastMessage(), "registered buffer"));
    CHECK_EQ(Used(), before);
  }
  Budget exact(rpc.size);
  CHECK_EQ(add(one.context, 0), 0u);
  CHECK_EQ(add(one.context, 128), 0u);
  CHECK_EQ(add(two.context, 0), 0u);
  CHECK_EQ(Used() - before, rpc.size);
  Rpc other(4096);
  CHECK_EQ(q.memDeRegister(handles.data(), 2), 0u);
  CHECK_EQ(Used() - before, rpc.size);  // the other context's
  two.Close();
  CHECK_EQ(Used(), before);  // gone with the context
}

TEST(the_budget_comes_from_the_platform_option_too_and_htp_alone_knows_it) {
  Qnnrt_DomainInfo_t before, after;
  qnnrt_htp_domain_info(&before);
  {
    Net net;
    CHECK_EQ(net.Open("domain_bytes:1234567"), 0u);
    qnnrt_htp_domain_info(&after);
    CHECK_EQ(after.budget_bytes, 1234567u);
  }
  for (const char* bad :
       {"domain_bytes:", "domain_bytes:0", "domain_bytes:-1", "domain_bytes:1k"}) {
    Net net;
    CHECK_EQ(net.Open(bad), Code{QNN_BACKEND_ERROR_INVALID_CONFIG});
  }
  qnnrt_htp_domain_info(&after);
  CHECK_EQ(after.budget_bytes, 1234567u);
  CHECK_EQ(qnnrt_htp_domain_set_budget(0), Code{QNN_COMMON_ERROR_INVALID_ARGUMENT});
  CHECK_EQ(qnnrt_htp_domain_set_budget(before.budget_bytes), 0u);
  const QnnInterface_t** list = nullptr;
  uint32_t count = 0;
  REQUIRE(QnnInterface_getProviders(&list, &count) == 0);
  QnnBackend_Config_t config = {};
  config.option = QNN_BACKEND_CONFIG_OPTION_PLATFORM;
  config.platformOption = "domain_bytes:1000000";
  const QnnBackend_Config_t* configs[] = {&config, nullptr};
  Qnn_BackendHandle_t cpu = nullptr;
  CHECK_EQ(list[0]->v2_32.backendCreate(nullptr, configs, &cpu),
           Code{QNN_BACKEND_ERROR_INVALID_CONFIG});
}

TEST(holders_are_listed_largest_first) {
  Net net(4096);
  REQUIRE(net.Open() == 0 && net.Compose(kRaw, kRaw, kRaw) == 0 && net.Finalize() == 0);
  REQUIRE(net.Use(0, kHandle) == 0);
  uint32_t n = 0;
  REQUIRE(qnnrt_htp_domain_holders(nullptr, 0, &n) == 0);
  std::vector<Qnnrt_DomainHolder_t> held(n);
  REQUIRE(qnnrt_htp_domain_holders(held.data(), n, &n) == 0);
  Qnnrt_DomainInfo_t info;
  qnnrt_htp_domain_info(&info);
  CHECK_EQ(info.num_holders, n);
  uint64_t sum = 0, last = ~uint64_t{0};
  bool staging = false, buffer = false;
  for (const Qnnrt_DomainHolder_t& h : held) {
    CHECK(h.bytes <= last);
    last = h.bytes;
    sum += h.bytes;
    staging |= std::string(h.what) == "staging of graph" && std::string(h.who) == "g" &&
               h.bytes == Pages(3 * net.Bytes());
    buffer |= std::string(h.what) == "registered buffer" && h.bytes == net.Bytes();
  }
  CHECK_EQ(sum, info.used_bytes);
  CHECK(staging && buffer);
  CHECK_EQ(qnnrt_htp_domain_holders(nullptr, 1, &n), Code{QNN_COMMON_ERROR_INVALID_ARGUMENT});
}

CHECK_MAIN("qmem_domain_test")
