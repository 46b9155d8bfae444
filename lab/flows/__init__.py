"""Flows: what a command does from end to end. tests/unit/test_layers.py says which may use which."""
