"""The fork server: Ray's processes, and scripts, forked from one that has everything imported.

Starting a Python process of Ray and importing torch takes seconds of a core; forking takes milliseconds. A
node, or several nodes of one host together, has one server at two levels:

    python -m forkserver -- ray start --head


- `node`: Ray is imported. `ray start`, the dashboard, the agents and so on are forked from it.
- `train`: a fork of that one that has also imported what trainings use, at the lowest priority.

| module | is |
| --- | --- |
| application | what a program adds to all this: public |
| launcher | what Ray starts instead of a Python: asks for a fork, stands for it, ends as it ends: public |
| scripts | the same for `python train.py`, from sitecustomize: public |
| server | the processes of the two levels: what each imports, and when one is started anew: public |
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
| modules | what is imported ahead, and what processes were seen to import: public |
| commands | how Ray comes to start the launcher: public |
| children | psutil finds a fork where its launcher is: public |

Who uses it as a library imports the modules that are public. None imports Ray or torch at its top.
"""

from __future__ import annotations

import contextlib
import time


def log(text: str) -> None:
    """One line of a server's log. Raises nothing: the disk may be full."""
    with contextlib.suppress(OSError, ValueError):
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
