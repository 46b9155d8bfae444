"""Liveness of the nodes: who is gone, told to Ray's head by a judge beside it.

Ray (2.60) asks each node by the head's own clock and counts what was late: one that was late itself loses
nodes that live. The patch `liveness` leaves that check at its patient stock values and judges here.

| module | is |
| --- | --- |
| model | a node, and the sign of it that a witness gives |
| judge | pure: from signs to deaths, with the judge's own delays taken off |
| raylets | the witness that asks every node's raylet whether it serves |
| kernel | the witness that sees which raylets of this machine were stopped |
| head | what the head knows of its nodes, and how it is told of a death |
| start | the process beside the head that does all this |
| train | the same delays taken off what a training's controller counts against its ranks |
"""
