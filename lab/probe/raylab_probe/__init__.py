"""What runs inside the lab's Ray processes, not in labctl.

It lives in an import root of its own (`lab/probe` is put on PYTHONPATH of the nodes) so that a student's
`lab.py` in a job's working directory cannot hide it. It needs only the standard library, Ray and pyarrow.
"""
