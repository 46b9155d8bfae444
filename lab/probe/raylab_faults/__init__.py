"""The hands of the faults, on the node of their target: processes, memory, disks, epochs, the network.

The packages of `lab/probe` run inside the lab's Ray processes, not in labctl. They need only the standard
library, Ray and pyarrow. Their folder is on PYTHONPATH of the nodes, so that a student's `lab.py`
cannot hide them.
"""
