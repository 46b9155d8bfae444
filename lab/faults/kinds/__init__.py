"""One file per fault, or per family of them. What several families share is in `_probe` and `_queues`."""
