"""The only access to the object store, whichever S3 server serves it.

Whatever goes wrong comes out as a StoreError that names the endpoint, the cause and what to do.
"""

from lab.store.base import MissingObjectError, Store, StoredObject
from lab.store.s3 import ObjectStore

__all__ = ["MissingObjectError", "ObjectStore", "Store", "StoredObject"]
