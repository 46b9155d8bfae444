"""The fork server: Ray's processes, and the scripts of jobs, forked from one that has everything imported.

Starting a Python process of Ray and importing torch takes seconds of a core; forking takes milliseconds. A
node, or all nodes of a lab of plain processes together, has one server at two levels:

- `node`: Ray is imported. `ray start`, the dashboard, the agents and so on are forked from it.
- `train`: a fork of that one that has also imported what trainings use, at the lowest priority.

| module | is |
| --- | --- |
| launcher | what Ray starts instead of a Python: asks for a fork, stands for it, ends as it ends |
| scripts | the same for `python train.py`, from sitecustomize |
| server | the processes of the two levels: what each imports, and when one is started anew |
| preload | imports ahead, and says whether the process can be forked then |
| reads | the variables that modules look up as they are imported |
| installed | the packages of the environment, and whether others have come |
| listener | listens, forks, reaps |
| conversation | the server's side of a conversation with a launcher |
| tree | ends a process with all that descends from it |
| refusal | why a request is not forked but started in the ordinary way, for every doubt |
| child | turns a fork into the process that was asked for |
| command_line | lets `ps` show the command of a fork |
| program | runs the program of a fork to its end |
| marks | the two values that Ray's C++ library reads as it is loaded |
| identity | the ids that Ray makes up, each fork its own |
| modules | what is imported ahead, and what ranks were seen to import |
| commands | how Ray comes to start the launcher |
| children | psutil finds a fork where its launcher is |
| learn | tells `modules` what a rank has imported after its first report |

Nothing here imports Ray or torch at its top, and nothing of it imports `lab`.
"""

from __future__ import annotations

import contextlib
import time


def log(text: str) -> None:
    """One line of a server's log. Raises nothing: the disk may be full."""
    with contextlib.suppress(OSError, ValueError):
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
