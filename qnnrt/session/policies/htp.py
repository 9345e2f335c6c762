"""HTP: an accelerator that sees shared buffers alone."""

from __future__ import annotations

from ...abi.constants import QNN_BACKEND_ID_HTP
from .base import MemoryPolicy


class HtpPolicy(MemoryPolicy):
    """RAW memory is staged: copied into, or from, buffers that the accelerator sees."""

    ID = QNN_BACKEND_ID_HTP
    SEES = "shared buffers"
