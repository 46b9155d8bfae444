"""Queues and quotas as Kueue has them: who is admitted, who is preempted, and why the others wait.

No module of this room reads a file or a clock. `reading` turns YAML text into a `Setup` and workloads,
`decide` makes one decision, `Engine` one after the other, and `simulate` lets a virtual clock run.
"""
