"""Starts children of every kind, prints their process ids and waits: who stops the job ends them all."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import time

LONG = 900


def wait() -> None:
    time.sleep(LONG)


def ignore() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LONG)


def main() -> None:
    sleep = ("sleep", str(LONG))
    daemon = multiprocessing.Process(target=wait, daemon=True)
    deaf = multiprocessing.Process(target=ignore)
    for process in (daemon, deaf):
        process.start()
    shell = subprocess.Popen(["sh", "-c", f"sleep {LONG} & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    ids = {
        "script": os.getpid(),
        "child": subprocess.Popen(sleep).pid,
        "child with a session of its own": subprocess.Popen(sleep, start_new_session=True).pid,
        "daemon of multiprocessing": daemon.pid,
        "process that ignores SIGTERM": deaf.pid,
        "shell": shell.pid,
        "grandchild": int(shell.stdout.readline()),
    }
    print("family", json.dumps(ids), flush=True)
    wait()


if __name__ == "__main__":
    main()
