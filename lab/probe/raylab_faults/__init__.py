"""Hands of the faults, on the node of their target: processes, memory, disks, epochs, the network."""
