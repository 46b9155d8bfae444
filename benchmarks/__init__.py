"""Benchmarks: timings as ratios against a peer in the same run. Figures, not tests: nothing here passes or fails.

    python -m benchmarks cli|up|submit|recovery|false-deaths [--runs N] [--json]

They need the environment that `labctl up` installs: `.venv/bin/python -m benchmarks ...`. Each uses labs of its own
below a temporary RAYLAB_HOME and takes them down again.
"""
