"""An open runtime for QNN's zero-copy memory model."""

__version__ = "0.1.0"
