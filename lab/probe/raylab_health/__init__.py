"""Questions to a node that anybody may ask: does it live, does an address answer, which GPUs does it see.

The packages of `lab/probe` run inside the lab's Ray processes, not in labctl. They need only the standard
library, Ray and pyarrow. Their folder is on PYTHONPATH of the nodes, so that a student's `lab.py`
cannot hide them.
"""
