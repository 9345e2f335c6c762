"""What performance profiles vote for."""

# corner, sleep latency, DCVS: as ONNX Runtime's QNN provider votes for its modes
VOTES = {
    "burst": ("MAX", 40, False),
    "sustained_high_performance": ("MAX", 40, False),
    "high_performance": ("TURBO", 100, False),
    "balanced": ("NOM_PLUS", 1000, True),
    "low_balanced": ("NOM", 1000, True),
    "high_power_saver": ("SVS_PLUS", 1000, True),
    "power_saver": ("SVS", 1000, True),
    "low_power_saver": ("SVS2", 1000, True),
    "extreme_power_saver": ("DISABLE", 1000, True),
}
