"""How the stand-in S3 server says no."""

from __future__ import annotations


class RefusalError(Exception):
    """A request that gets an S3 error as its answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
