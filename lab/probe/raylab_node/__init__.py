"""Belongs to every node: processes beside it, the GPUs that it sees, and whether it or an address answers."""
