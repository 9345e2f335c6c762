// What the recording backend does when it is told to be an LPAI one. Included by fake_backend.cc.
#pragma once

#include "abi/qnn_lpai.h"

namespace {

bool g_lpai = false;
uint32_t g_scratch_size = 1024;
uint32_t g_persistent_size = 512;

uint64_t LpaiBackendProperty(Qnn_BackendHandle_t, QnnBackend_Property_t** properties) {
  auto* custom = static_cast<QnnLpaiBackend_CustomProperty_t*>(properties[0]->customProperty);
  Note("backendGetProperty %u count=%d", custom->option, properties[1] == nullptr ? 1 : 2);
  switch (custom->option) {
    case QNN_LPAI_BACKEND_GET_PROP_ALIGNMENT_REQ:
      *static_cast<QnnLpaiBackend_BufferAlignmentReq_t*>(custom->property) = {256, 32};
      return 0;
    case QNN_LPAI_BACKEND_GET_PROP_REQUIRE_PERSISTENT_BINARY:
      *static_cast<bool*>(custom->property) = true;
      return 0;
    case QNN_LPAI_BACKEND_GET_PROP_ENPU_CORE_NUM:
      *static_cast<uint32_t*>(custom->property) = 2;
      return 0;
    default: {
      auto* info = static_cast<QnnLpaiBackend_eNPUCoreInfo_t*>(custom->property);
      info->macCnt = 512 + info->coreIndex;
      info->version = 6;
      return 0;
    }
  }
}

uint64_t LpaiGraphProperty(Qnn_GraphHandle_t, QnnGraph_Property_t** properties) {
  auto* custom = static_cast<QnnLpaiGraph_CustomProperty_t*>(properties[0]->customProperty);
  Note("graphGetProperty %u", custom->option);
  bool scratch = custom->option == QNN_LPAI_GRAPH_GET_PROP_SCRATCH_MEM_SIZE;
  *static_cast<uint32_t*>(custom->property) = scratch ? g_scratch_size : g_persistent_size;
  return 0;
}

void NoteLpaiGraph(const QnnLpaiGraph_CustomConfig_t& c) {
  if (c.option == QNN_LPAI_GRAPH_SET_CFG_PERF_CFG) {
    auto* p = static_cast<const QnnLpaiGraph_PerfCfg_t*>(c.config);
    Note("graphSetConfig perf fps=%u ftrt=%u client=%d", p->fps, p->ftrtRatio,
         static_cast<int>(p->clientType));
  } else if (c.option == QNN_LPAI_GRAPH_SET_CFG_CORE_AFFINITY) {
    auto* a = static_cast<const QnnLpaiGraph_CoreAffinity_t*>(c.config);
    Note("graphSetConfig affinity=%d cores=%u", static_cast<int>(a->affinity), a->coreSelection);
  } else if (c.option == QNN_LPAI_GRAPH_SET_CFG_PREPARE) {
    auto* p = static_cast<const QnnLpaiGraph_CustomConfigPrepare_t*>(c.config);
    Note("graphSetConfig prepare layers=%u cores=%s", p->enablePerLayer,
         p->enableCoreSelection ? p->enableCoreSelection : "none");
  } else {
    auto* m = static_cast<const QnnLpaiGraph_Mem_t*>(c.config);
    Note("graphSetConfig memory=%u type=%d size=%u aligned=%d given=%d", c.option,
         static_cast<int>(m->memType), m->size, reinterpret_cast<uintptr_t>(m->addr) % 256 == 0,
         m->addr != nullptr);
  }
}

uint64_t LpaiGraphSetConfig(Qnn_GraphHandle_t, const QnnGraph_Config_t** configs) {
  for (; *configs; ++configs) {
    NoteLpaiGraph(*static_cast<const QnnLpaiGraph_CustomConfig_t*>((*configs)->customConfig));
  }
  return 0;
}

void NoteLpaiBackend(const void* config) {
  auto* c = static_cast<const QnnLpaiBackend_CustomConfig_t*>(config);
  auto* hw = static_cast<const QnnLpaiBackend_CustomConfigHwInfo_t*>(c->config);
  Note("backendCreate hardware option=%u target=%d version=%d", c->option,
       static_cast<int>(hw->lpaiTarget), static_cast<int>(hw->hwVersion));
}

void NoteLpaiContext(const void* config) {
  auto* c = static_cast<const QnnLpaiContext_CustomConfig_t*>(config);
  Note("contextCreate lpai option=%u value=%u", c->option, *static_cast<uint32_t*>(c->config));
}

}  // namespace
