"""Benchmarks: figures of this lab as ratios against a peer in the same run. They neither pass nor fail.

    python -m benchmarks up|demos|states|checkpoints|growth [--runs N] [--json]
    python -m benchmarks recovery [--runs N] [--cases NAME,NAME] [--json]
    python -m benchmarks false-deaths [--minutes N]

docs/benchmarks.md describes each of them. They need the environment that `labctl up` installs:
`.venv/bin/python -m benchmarks ...`. Each uses labs of its own in a temporary folder and takes them down.
"""
