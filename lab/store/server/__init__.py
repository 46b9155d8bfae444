"""The stand-in S3 server, `python -m lab.store.server`: moto, with its objects on disk and keys checked."""
