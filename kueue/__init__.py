"""Queues and quotas as Kueue has them: who is admitted, who is preempted, and why the others wait.

No module of this package reads a file or a clock, but for `python -m kueue`. `reading` turns YAML text into a
`Setup` and workloads, `cycle` makes one decision, `Engine` one after the other, and `simulate` lets a virtual
clock run.

| module | has |
| --- | --- |
| model | objects of Kueue as plain data: quotas, queues, cohorts, flavors, priorities and workloads: public |
| quantity | quantities of Kubernetes, such as `500m` and `3Gi`, as whole numbers: public |
| reading | Kueue's YAML, v1beta1 and v1beta2, read strictly: public |
| reading.nodes | YAML values that know their place, readers that say what is wrong and where: public |
| reading.plain | YAML values in Python's types: public |
| writing | quotas, queues and workloads as Kueue's YAML in v1beta2: public |
| tree | arithmetic of quotas over the tree of cohorts: what is used, lent, borrowed and left: public |
| shares | dominant resource shares: public |
| engine | the state machine: workloads come and go, cycles decide, and time runs out: public |
| live | a live engine, its setup and its workloads from written objects: public |
| item | a workload inside the engine: public |
| places | who waits where, who holds quota, and the ways from one to the other: public |
| status | a workload of the engine as plain data, from which an engine goes on as before: public |
| capacity | quotas that give out more than there is, nodes and GPUs that take no work now: public |
| holders | quota that a waiting workload is short of, and who holds it: public |
| forecast | the earliest start of a workload: public |
| reasons | reasons as Kueue names them, and the forms of its messages: public |
| plainly | reasons in a sentence for people: public |
| simulate | a run of the queues on a virtual clock: public |
| trace | a simulation as a JSON document: public |
| story | a simulation in lines for a person: public |

The others are the engine's own: `cycle`, `flavors`, `snapshot`, `victims`, `pending` and so on.
"""
