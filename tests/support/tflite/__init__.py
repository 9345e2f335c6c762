"""TFLite models made in memory, and what TFLite itself computes of them."""
