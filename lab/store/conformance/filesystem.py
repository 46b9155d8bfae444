"""The same store through pyarrow's file system, as Ray Train uses it."""

from __future__ import annotations

import importlib.util
from urllib.parse import urlsplit

from lab.errors import StoreError
from lab.store.conformance.bench import Bench, SkippedError, same

SECONDS = 20.0
"""After this long without an answer pyarrow gives up."""


def file_system(bench: Bench) -> str:
    """Make, write, look at, read, move and delete as Ray Train does. Raises DeviationError, SkippedError."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SkippedError("pyarrow is not installed here; the requests it makes are asked above")
    from pyarrow import fs

    parts = urlsplit(bench.client.endpoint_url)
    key = bench.client.credentials
    try:
        files = fs.S3FileSystem(
            access_key=key.access_key,
            secret_key=key.secret_key,
            endpoint_override=parts.netloc,
            scheme=parts.scheme,
            region=bench.client.region,
            connect_timeout=SECONDS,
            request_timeout=SECONDS,
        )
        folder = f"{bench.bucket}/{bench.key('fs')}"
        files.create_dir(f"{folder}/checkpoint", recursive=True)
        data = b"0123456789" * 1_200_000  # more than pyarrow sends at once, so that it uploads in parts
        with files.open_output_stream(f"{folder}/checkpoint/data") as stream:
            stream.write(data)
        found = files.get_file_info(fs.FileSelector(folder, recursive=True))
        kinds = sorted((info.base_name, info.type.name, info.size or 0) for info in found)
        same(kinds, [("checkpoint", "Directory", 0), ("data", "File", len(data))], "the listing")
        with files.open_input_file(f"{folder}/checkpoint/data") as source:
            same(source.read_at(10, 11_999_990), data[-10:], "the end of the file")
        files.move(f"{folder}/checkpoint/data", f"{folder}/checkpoint/moved")
        info = files.get_file_info(f"{folder}/checkpoint/data")
        same(info.type.name, "NotFound", "the old name of a moved file")
        files.delete_dir(folder)
        same(files.get_file_info(folder).type.name, "NotFound", "a deleted folder")
    except OSError as error:
        first = str(error).splitlines()[0][:300]
        raise StoreError(f"pyarrow cannot use the store: {first}", "see the failed checks above") from error
    return "folders, a file of 12 MB in parts, listing, reading at an offset, moving, deleting"
