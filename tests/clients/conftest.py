"""Clients import their helpers from beside them and from beside the other tests."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.with_name("python"))]
