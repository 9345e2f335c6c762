/* A C11 client of the htp backend's memory rules, built on the installed headers alone:
 *
 *   qmem_client HTP_LIBRARY RPC_LIBRARY table | budget
 *
 * table: y = relu(a + b) in every combination of memory types that tensors are prepared and
 * executed with; what is reserved and copied is compared byte for byte, over 1,000 executions or
 * more. budget: with QNNRT_HTP_DOMAIN_BYTES=100000, what does not fit. Prints "ok" and exits 0, or
 * says at which line what was expected and exits 1. */
#define _GNU_SOURCE
#include "qmem_client.h"

/* ---- the table ---- */

static void check_row(unsigned prepared, unsigned executed) {
  static Client c;
  Qnnrt_GraphStats_t s;
  uint64_t at_finalize = 0, at_execute = 0, in = 0, out = 0;
  unsigned copied = 0;
  for (int i = 0; i < kTensors; ++i) {
    int raw_prepared = !(prepared >> i & 1), raw_executed = !(executed >> i & 1);
    if (raw_prepared) at_finalize += kBytes;
    if (!raw_prepared && raw_executed) at_execute += kBytes;
    if (raw_executed && i == 2) out += kBytes;
    if (raw_executed && i != 2) in += kBytes;
    copied += (unsigned)raw_executed;
  }
  open_client(&c);
  compose(&c, prepared, "g");
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  OK(graph_stats(c.graph, &s));
  EQUAL(s.reserved_at_finalize_bytes, at_finalize);
  EQUAL(s.reserved_bytes, at_finalize);
  EQUAL(s.reserved_at, at_finalize ? QNNRT_RESERVED_AT_FINALIZE : QNNRT_RESERVED_NONE);
  for (int i = 0; i < kTensors; ++i) executed >> i & 1 ? use_handle(&c, i) : use_raw(&c, i);
  warnings = 0;
  run_and_compare(&c, 7);
  EQUAL(warnings, copied);
  OK(graph_stats(c.graph, &s));
  EQUAL(s.reserved_at_execute_bytes, at_execute);
  EQUAL(s.reserved_bytes, at_finalize + at_execute);
  EQUAL(s.reserved_at, at_finalize  ? QNNRT_RESERVED_AT_FINALIZE
                       : at_execute ? QNNRT_RESERVED_AT_EXECUTE
                                    : QNNRT_RESERVED_NONE);
  uint64_t allocated = allocations(), mapped = used();
  /* Page faults of so many: the kernel may cause some, now and then, but take none of ours away. */
  uint64_t fewest = UINT64_MAX, runs = 1;
  for (int part = 0; part < 3 || (fewest != 0 && part < 100); ++part) {
    uint64_t faulted = faults();
    for (int r = 0; r < kPart; ++r, ++runs) OK(run(&c));
    if (faults() - faulted < fewest) fewest = faults() - faulted;
  }
  EQUAL(fewest, 0);
  EQUAL(allocations() - allocated, 0);
  EQUAL(used(), mapped);
  OK(graph_stats(c.graph, &s));
  EQUAL(s.executes, runs);
  EQUAL(s.copied_in_bytes, in * runs);
  EQUAL(s.copied_out_bytes, out * runs);
  EQUAL(s.copied_bytes, (in + out) * runs);
  EQUAL(s.reserved_bytes, at_finalize + at_execute);
  EQUAL(warnings, copied);

  Qnnrt_CopyRecord_t records[kTensors];
  uint32_t count = 0;
  OK(graph_copies(c.graph, records, kTensors, &count));
  EQUAL(count, copied);
  for (uint32_t k = 0, i = 0; k < count; ++k, ++i) {
    while (executed >> i & 1) ++i;
    EXPECT(strcmp(records[k].tensor, c.t[i].v1.name) == 0);
    EQUAL(records[k].direction, i == 2 ? QNNRT_COPY_OUT : QNNRT_COPY_IN);
    EQUAL(records[k].bytes, (uint64_t)kBytes * runs);
    EQUAL(records[k].count, runs);
    EXPECT(strcmp(records[k].reason, prepared >> i & 1 ? "prepared memhandle, executed raw"
                                                       : "prepared raw, executed raw") == 0);
  }
  close_client(&c);
}

static void table(void) {
  static Client warm; /* pools and tables come into being here */
  open_client(&warm);
  compose(&warm, 0, "g");
  OK(qnn.graphFinalize(warm.graph, NULL, NULL));
  close_client(&warm);
  uint64_t before = used();
  for (unsigned prepared = 0; prepared < 8; ++prepared) {
    for (unsigned executed = 0; executed < 8; ++executed) check_row(prepared, executed);
  }
  EQUAL(used(), before);
}

/* ---- the budget, which the environment set to 100,000 bytes ---- */

static void budget(void) {
  static Client c;
  Qnnrt_DomainInfo_t info;
  OK(domain_info(&info));
  EQUAL(info.budget_bytes, 100000);
  EQUAL(info.used_bytes, 0);
  open_client(&c);
  compose(&c, 0, "first");
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  EQUAL(used(), 3 * kPage); /* 12,000 bytes of tensors; the add and the relu are one: no arena */
  void* large = rpc_alloc(25, 1, 20 * kPage);
  Qnn_MemDescriptor_t d = descriptor(&c, QNN_MEM_TYPE_ION);
  d.ionInfo.fd = rpc_to_fd(large);
  Qnn_MemHandle_t h, no;
  OK(qnn.memRegister(c.context, &d, 1, &h));
  EQUAL(used(), 23 * kPage);
  /* 5,792 bytes are left: one page. */
  void* small = rpc_alloc(25, 1, 2 * kPage);
  d.ionInfo.fd = rpc_to_fd(small);
  REFUSED(qnn.memRegister(c.context, &d, 1, &no), QNN_MEM_ERROR_MAPPING);
  EXPECT(no == NULL);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "registered buffer"));
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'first'"));
  Qnn_GraphHandle_t first = c.graph;
  compose(&c, 0, "second");
  REFUSED(qnn.graphFinalize(c.graph, NULL, NULL), QNN_MEM_ERROR_MAPPING);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'second'"));
  compose(&c, 7, "third"); /* prepared memhandle: fits, until it is executed raw */
  OK(qnn.graphFinalize(c.graph, NULL, NULL));
  for (int i = 0; i < kTensors; ++i) use_raw(&c, i);
  REFUSED(run(&c), QNN_MEM_ERROR_MAPPING);
  EXPECT(said(QNN_MEM_ERROR_MAPPING, "staging of graph 'third'"));
  OK(qnn.memDeRegister(&h, 1)); /* room again */
  run_and_compare(&c, 1);
  c.graph = first;
  rpc_free(small);
  rpc_free(large);
  close_client(&c);
  EQUAL(used(), 0);
}

int main(int argc, char** argv) {
  if (argc != 4) FAIL("HTP_LIBRARY RPC_LIBRARY table|budget");
  load(argv[1], argv[2]);
  if (strcmp(argv[3], "table") == 0) {
    table();
  } else {
    budget();
  }
  printf("ok\n");
  return 0;
}
