"""The version of raylab, and nothing else: everything may import it."""

__version__ = "0.1.0"
