"""A process of the agent's own in which checks run, one at a time: one that hangs is killed with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from typing import Any

from raylab_health.examine import examine
from raylab_health.model import Check, Context, NotHereError

Answer = dict[str, Any]
"""`{"result": ...}`, `{"missing": why}`, or `{"devices": [...]}`."""


class Runner:
    """The process, started when it is needed. Raises OSError when it cannot be forked."""

    def __init__(self, work: Callable[[Mapping[str, Any]], Answer], prepare: Callable[[], None]) -> None:
        """`work` answers a request; `prepare` is called in the new process first."""
        self._work, self._prepare = work, prepare
        self._pid = 0
        self._line, _ = Pipe()

    def begin(self, request: Mapping[str, Any]) -> None:
        """Hand over a request; the last one was answered, or ended by `kill`."""
        for _ in range(2):
            if not self._pid:
                self._start()
            try:
                self._line.send_bytes(json.dumps(request).encode())
                return
            except OSError:  # it has died since
                self.kill()

    def poll(self, seconds: float) -> Answer | None:
        """The answer, waited for at most this long; None when there is none yet."""
        if not self._pid:
            return {"died": "it could not be started"}
        try:
            if not self._line.poll(max(0.0, seconds)):
                return None
            answer: Answer = json.loads(self._line.recv_bytes())
            return answer
        except (EOFError, OSError, ValueError):
            self.kill()
            return {"died": "its process has died"}

    def kill(self) -> None:
        """End the process and whatever it has started; the next request makes another."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # one in the driver's hands may never end
                os.waitpid(self._pid, os.WNOHANG)
        self._line.close()
        self._pid = 0

    def _start(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        self._line.close()
        ours, its = Pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                ours.close()
                os.setpgid(0, 0)
                self._prepare()
                while True:
                    answer = self._work(json.loads(its.recv_bytes()))
                    its.send_bytes(json.dumps(answer).encode())
            except (EOFError, OSError, ValueError):
                code = 0  # the agent has ended
            finally:
                os._exit(code)
        its.close()
        self._pid, self._line = pid, ours


def worker(checks: Mapping[str, Check], context: Context) -> Callable[[Mapping[str, Any]], Answer]:
    """What a runner's process answers, for checks by their names."""

    def work(request: Mapping[str, Any]) -> Answer:
        if not request["check"]:
            from raylab_health.devices import devices

            return {"devices": devices(context, int(request["gpus"]))}
        context.facts = request["facts"]
        try:
            return {"result": examine(checks[request["check"]], request["device"], context)}
        except NotHereError as error:
            return {"missing": str(error)}

    return work
