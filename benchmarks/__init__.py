"""Benchmarks: timings as ratios against a peer in the same run. Nothing here passes or fails.

    python -m benchmarks cli|up|submit|recovery|false-deaths [--runs N] [--json]
    python -m benchmarks soak [--minutes N] [--runtime local|compose] [--seed N] [--every SECONDS] [--json]

They need the environment that `labctl up` installs: `.venv/bin/python -m benchmarks ...`. Each uses labs of
its own in a temporary folder and takes them down again.
"""
