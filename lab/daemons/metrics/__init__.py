"""The lab's own metrics for Prometheus: what Ray's metrics and the store's do not tell.

    python -m lab.daemons.metrics --listen 127.0.0.1:9101

reads Ray's HTTP API and the ledgers in the object store, and serves `/metrics`. docs/metrics.md names every
metric. A source that does not answer costs only its own metrics: `raylab_source_up` says so.
"""
