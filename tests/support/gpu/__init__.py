"""OpenCL devices and drivers for the tests of the gpu backend."""
