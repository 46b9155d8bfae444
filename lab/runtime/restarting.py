"""The restart of a service, with those that cannot live without it."""

from __future__ import annotations

from lab.runtime.active_faults import ActiveFaults
from lab.runtime.base import OnProgress, Runtime
from lab.services import HEAD, is_worker
from lab.topology import Progress, State


def restart(runtime: Runtime, service: str, on_progress: OnProgress) -> None:
    """Stop a service, if it runs, and start it again; see Lab.restart. Raises as `stop` and `start`."""
    status = runtime.status()
    restarted = [service]
    if service == HEAD and status.up and not runtime.spec().gcs_ft:
        restarted += [s.service for s in status.services if is_worker(s.service)]
    runtime.refuse_own(*restarted)
    if len(restarted) > 1:
        also = f"restarting it restarts {', '.join(restarted[1:])} too; running jobs end"
        on_progress(Progress(HEAD, State.RUNNING, also))
    for name in reversed(restarted):
        known = status.service(name)
        if known is not None and known.state not in (State.ABSENT, State.EXITED):
            runtime.stop(name)
    for name in restarted:
        runtime.start(name, on_progress)
    ActiveFaults(runtime.folder()).started(*restarted)
