// The versions that these declarations describe, and the names by which a program that was written
// for any version finds its function tables.
#pragma once

#include "qnn_interface.h"
#include "qnn_system.h"

// Of a QnnInterface_t: table = provider->QNN_INTERFACE_VER_NAME. Likewise of the system library's.
#define QNN_INTERFACE_VER_TYPE QnnInterface_ImplementationV2_32_t
#define QNN_INTERFACE_VER_NAME v2_32
#define QNN_SYSTEM_INTERFACE_VER_TYPE QnnSystemInterface_ImplementationV1_7_t
#define QNN_SYSTEM_INTERFACE_VER_NAME v1_7

#define QNN_SYSTEM_API_VERSION_MAJOR 1u
#define QNN_SYSTEM_API_VERSION_MINOR 7u
#define QNN_SYSTEM_API_VERSION_PATCH 0u

// ---- Of the backends' own declarations. A library may be newer: backendGetApiVersion says ----

#define QNN_CPU_API_VERSION_MAJOR 1u
#define QNN_CPU_API_VERSION_MINOR 1u
#define QNN_CPU_API_VERSION_PATCH 0u
#define QNN_GPU_API_VERSION_MAJOR 3u
#define QNN_GPU_API_VERSION_MINOR 12u
#define QNN_GPU_API_VERSION_PATCH 0u
#define QNN_HTP_API_VERSION_MAJOR 5u
#define QNN_HTP_API_VERSION_MINOR 43u
#define QNN_HTP_API_VERSION_PATCH 0u
#define QNN_IR_API_VERSION_MAJOR 0u
#define QNN_IR_API_VERSION_MINOR 1u
#define QNN_IR_API_VERSION_PATCH 0u
#define QNN_LPAI_API_VERSION_MAJOR 2u
#define QNN_LPAI_API_VERSION_MINOR 26u
#define QNN_LPAI_API_VERSION_PATCH 0u
#define QNN_SAVER_API_VERSION_MAJOR 1u
#define QNN_SAVER_API_VERSION_MINOR 1u
#define QNN_SAVER_API_VERSION_PATCH 0u

// A Qnn_ApiVersion_t: the core API's and one backend's.
#define QNNRT_API_VERSION_(core, backend)                                       \
  {                                                                             \
    {core##_VERSION_MAJOR, core##_VERSION_MINOR, core##_VERSION_PATCH}, {       \
      backend##_VERSION_MAJOR, backend##_VERSION_MINOR, backend##_VERSION_PATCH \
    }                                                                           \
  }
#define QNN_CPU_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_CPU_API)
#define QNN_GPU_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_GPU_API)
#define QNN_HTP_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_HTP_API)
#define QNN_IR_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_IR_API)
#define QNN_LPAI_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_LPAI_API)
#define QNN_SAVER_API_VERSION_INIT QNNRT_API_VERSION_(QNN_API, QNN_SAVER_API)

// ---- Structs with a version ----

// What every version of a tensor or an operation has lies in the same place in each.
#define QNN_TENSOR_VER_PTR(tensor) (&((tensor).v1))
#define QNN_OP_VER_PTR(op) (&((op).v1))

#define QNN_TENSOR_GET_ID(tensor) ((tensor).v1.id)
#define QNN_TENSOR_GET_NAME(tensor) ((tensor).v1.name)
#define QNN_TENSOR_GET_TYPE(tensor) ((tensor).v1.type)
#define QNN_TENSOR_GET_DATA_FORMAT(tensor) ((tensor).v1.dataFormat)
#define QNN_TENSOR_GET_DATA_TYPE(tensor) ((tensor).v1.dataType)
#define QNN_TENSOR_GET_QUANT_PARAMS(tensor) ((tensor).v1.quantizeParams)
#define QNN_TENSOR_GET_RANK(tensor) ((tensor).v1.rank)
#define QNN_TENSOR_GET_DIMENSIONS(tensor) ((tensor).v1.dimensions)
#define QNN_TENSOR_GET_MEM_TYPE(tensor) ((tensor).v1.memType)
#define QNN_TENSOR_GET_CLIENT_BUF(tensor) ((tensor).v1.clientBuf)
#define QNN_TENSOR_GET_MEM_HANDLE(tensor) ((tensor).v1.memHandle)

#define QNN_TENSOR_SET_ID(tensor, value) ((tensor).v1.id = (value))
#define QNN_TENSOR_SET_NAME(tensor, value) ((tensor).v1.name = (value))
#define QNN_TENSOR_SET_TYPE(tensor, value) ((tensor).v1.type = (value))
#define QNN_TENSOR_SET_DATA_FORMAT(tensor, value) ((tensor).v1.dataFormat = (value))
#define QNN_TENSOR_SET_DATA_TYPE(tensor, value) ((tensor).v1.dataType = (value))
#define QNN_TENSOR_SET_QUANT_PARAMS(tensor, value) ((tensor).v1.quantizeParams = (value))
#define QNN_TENSOR_SET_RANK(tensor, value) ((tensor).v1.rank = (value))
#define QNN_TENSOR_SET_DIMENSIONS(tensor, value) ((tensor).v1.dimensions = (value))
#define QNN_TENSOR_SET_MEM_TYPE(tensor, value) ((tensor).v1.memType = (value))
#define QNN_TENSOR_SET_CLIENT_BUF(tensor, value) ((tensor).v1.clientBuf = (value))
#define QNN_TENSOR_SET_MEM_HANDLE(tensor, value) ((tensor).v1.memHandle = (value))

#define QNN_OP_CFG_GET_NAME(op) ((op).v1.name)
#define QNN_OP_CFG_GET_PACKAGE_NAME(op) ((op).v1.packageName)
#define QNN_OP_CFG_GET_TYPE_NAME(op) ((op).v1.typeName)
#define QNN_OP_CFG_GET_NUM_PARAMS(op) ((op).v1.numOfParams)
#define QNN_OP_CFG_GET_PARAMS(op) ((op).v1.params)
#define QNN_OP_CFG_GET_NUM_INPUTS(op) ((op).v1.numOfInputs)
#define QNN_OP_CFG_GET_INPUTS(op) ((op).v1.inputTensors)
#define QNN_OP_CFG_GET_NUM_OUTPUTS(op) ((op).v1.numOfOutputs)
#define QNN_OP_CFG_GET_OUTPUTS(op) ((op).v1.outputTensors)

#define QNN_OP_CFG_SET_NAME(op, value) ((op).v1.name = (value))
#define QNN_OP_CFG_SET_PACKAGE_NAME(op, value) ((op).v1.packageName = (value))
#define QNN_OP_CFG_SET_TYPE_NAME(op, value) ((op).v1.typeName = (value))
#define QNN_OP_CFG_SET_NUM_PARAMS(op, value) ((op).v1.numOfParams = (value))
#define QNN_OP_CFG_SET_PARAMS(op, value) ((op).v1.params = (value))
#define QNN_OP_CFG_SET_NUM_INPUTS(op, value) ((op).v1.numOfInputs = (value))
#define QNN_OP_CFG_SET_INPUTS(op, value) ((op).v1.inputTensors = (value))
#define QNN_OP_CFG_SET_NUM_OUTPUTS(op, value) ((op).v1.numOfOutputs = (value))
#define QNN_OP_CFG_SET_OUTPUTS(op, value) ((op).v1.outputTensors = (value))
