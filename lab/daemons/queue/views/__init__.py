"""Documents of the queues: lists, one workload, why it waits, the queues, and what would be.

They are a public contract: fields are added, not renamed or removed. Times are seconds since the epoch,
amounts natural: cores of cpu, bytes of memory, whole units of the rest. Places are counted from 0, as Kueue
does.
`why` and `dry_run` take the lock by themselves, and only for a moment.
"""

from lab.daemons.queue.views.prospects import dry_run, why
from lab.daemons.queue.views.queues import queues
from lab.daemons.queue.views.workloads import describe, workloads

__all__ = ["describe", "dry_run", "queues", "why", "workloads"]
