"""Structs of the C interface, made by tools/abi.py; do not edit: csrc/abi has them."""

from .layout import Layout

# fmt: off
QnnGpuGraph_CustomConfig_t = Layout(8, {
    "precision": (0, "I"), "disableMemoryOptimizations": (4, "B"),
    "disableNodeOptimizations": (5, "B"), "disableQueueRecording": (6, "B"),
})
QnnHtpContext_CustomConfig_t = Layout(24, {
    "option": (0, "I"), "weightSharingEnabled": (8, "?"), "groupRegistration": (8, "QQ"),
    "fileReadMemoryBudgetInMb": (8, "Q"), "dspMemoryProfilingEnabled": (8, "?"),
    "shareResources": (8, "?"), "ioMemEstimation": (8, "?"), "isPrepareOnly": (8, "?"),
    "initAcceleration": (8, "?"), "skipValidationOnBinarySection": (8, "?"),
    "shareResOptType": (8, "I"), "useExtendedUdma": (8, "?"),
    "concurrentGroupRegistration": (8, "QQ"), "loraWeightSharingEnabled": (8, "?"),
    "graphSplitting": (8, "?"), "numPrepareThreads": (8, "I"),
})
QnnHtpContext_CustomProperty_t = Layout(16, {
    "option": (0, "I"), "bufferStartAlignment": (8, "Q"), "spillfillBufferSize": (8, "Q"),
    "weightsBufferSize": (8, "Q"),
})
QnnHtpDevice_CustomConfig_t = Layout(12, {
    "option": (0, "I"), "socModel": (4, "I"), "arch": (4, "II"),
    "useSignedProcessDomain": (4, "I?3x"), "useSecureProcessDomain": (4, "I?3x"),
})
QnnHtpGraph_CustomConfig_t = Layout(56, {
    "option": (0, "I"), "optimizationOption": (8, "If"), "precision": (8, "I"),
    "vtcmSizeInMB": (8, "I"), "foldReluActivationIntoConvOff": (8, "?"),
    "shortDepthConvOnHmxOff": (8, "?"), "numHvxThreads": (8, "Q"), "reserved": (8, "Q"),
    "finalizeConfig": (8, "24s"), "numCores": (8, "I"),
    "parallelGraphExecutionConfig": (8, "IIIIIIIIIII"), "vtcmSizeInBytes": (8, "I"),
    "hmxBoundingInfo": (8, "ff"), "weightsPacking": (8, "?"), "assumeSameQuant": (8, "?"),
    "shareIOBuffer": (8, "?"), "advancedActivationFusion": (8, "?"),
    "highPrecisionSigmoid": (8, "?"), "monolithicLstm": (8, "?"), "fp16ClampOverflow": (8, "?"),
})
QnnHtpPerfInfrastructure_DcvsV3_t = Layout(64, {
    "contextId": (0, "I"), "setDcvsEnable": (4, "I"), "dcvsEnable": (8, "I"),
    "powerMode": (12, "I"), "setSleepLatency": (16, "I"), "sleepLatency": (20, "I"),
    "setSleepDisable": (24, "I"), "sleepDisable": (28, "I"), "setBusParams": (32, "I"),
    "busVoltageCornerMin": (36, "I"), "busVoltageCornerTarget": (40, "I"),
    "busVoltageCornerMax": (44, "I"), "setCoreParams": (48, "I"), "coreVoltageCornerMin": (52, "I"),
    "coreVoltageCornerTarget": (56, "I"), "coreVoltageCornerMax": (60, "I"),
})
QnnHtpSystemContext_ContextBlobInfo_t = Layout(8, {
    "version": (0, "I"), "contextBinaryContextBlobInfoV1": (4, "I"),
})
QnnHtpSystemContext_GraphBlobInfo_t = Layout(40, {
    "version": (0, "I"), "contextBinaryGraphBlobInfoV1": (8, "QIIB7xQ"),
})
QnnHtpSystemContext_GraphBlobInfoV1_t = Layout(32, {
    "spillFillBufferSize": (0, "Q"), "vtcmSize": (8, "I"), "optimizationLevel": (12, "I"),
    "htpDlbc": (16, "B"), "numHvxThreads": (24, "Q"),
})
QnnHtpSystemContext_GraphBlobInfoV2_t = Layout(72, {
    "version": (0, "I"), "nativeKChannelSize": (8, "Q"), "nativeVChannelSize": (16, "Q"),
    "isSafeShareIO": (24, "I"), "ioTensorSize": (32, "Q"), "opDataSize": (40, "Q"),
    "constSize": (48, "Q"), "ddrTensorSize": (56, "Q"), "sharedWeightsSize": (64, "Q"),
})
Qnnrt_ArenaItem_t = Layout(24, {
    "first": (0, "I"), "last": (4, "I"), "size": (8, "Q"), "alignment": (16, "Q"),
})
Qnnrt_GraphConfig_t = Layout(16, {
    "magic": (0, "I"), "option": (4, "I"), "numThreads": (8, "I"), "kernels": (8, "I"),
    "strict": (8, "I"), "excludeIo": (8, "I"), "planMilliseconds": (8, "I"), "precision": (8, "I"),
    "float32Node": (8, "Q"), "releaseConstants": (8, "I"), "keepConstants": (8, "I"),
    "shareWeights": (8, "I"), "tf32": (8, "I"), "byteActivations": (8, "I"),
})
