"""Runs the queues' controller: `python -m lab.daemons.queue --listen HOST:PORT --folder FOLDER`.

| variable | says |
| --- | --- |
| RAY_API_SERVER_ADDRESS | Ray's dashboard |
| RAY_AUTH_TOKEN_PATH | the file that holds Ray's token |
| AWS_ENDPOINT_URL | the object store |
| AWS_SHARED_CREDENTIALS_FILE | the file that holds its key, or: |
| AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY | its key |
| RAYLAB_GPU | the GPUs' vendor |
| RAYLAB_QUEUED_ONLY | 1: jobs that are submitted past the queues are stopped |
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.daemons.queue.server import make_app, make_server
from lab.errors import LabError, UsageError
from lab.host.files import make_private


def log(line: str) -> None:
    """One line on stderr, which is the service's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def listen_address(text: str) -> tuple[str, int]:
    """HOST:PORT. Raises UsageError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {text}: not HOST:PORT", "for example 127.0.0.1:8266")
    return host.strip("[]"), int(port)


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting."""
    parser = argparse.ArgumentParser(prog="lab.daemons.queue", description="Runs the queues' controller.")
    parser.add_argument("--listen", default="127.0.0.1:8266", metavar="HOST:PORT")
    parser.add_argument("--folder", required=True, type=Path, help="folder of its state")
    args = parser.parse_args(argv)
    try:
        host, port = listen_address(args.listen)
        make_private(args.folder)
        server = make_server(host, port, make_app())
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code

    def end(*_: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    log(f"serving http://{host}:{server.server_port}")
    server.serve_forever(poll_interval=0.2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
