"""Facts of the C interface for Python, made from csrc/abi by tools/abi.py."""
