"""Records what trainings do, in the ledger; the one thing it does to them is to fail where a fault was armed.

The packages of `lab/probe` run inside the lab's Ray processes, not in labctl. They need only the standard
library, Ray and pyarrow. Their folder is on PYTHONPATH of the nodes, so that a student's `lab.py`
cannot hide them.
"""
