"""This machine: files and locks, external commands, HTTP, secrets, GPUs, the Python environment."""
