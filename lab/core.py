"""The core as an extension: its commands, faults and documents go through the seam as everybody's do."""

from __future__ import annotations

from dataclasses import replace

from lab.extension import BREAK, LOOK, MACHINE, RUN, SHARE, Command, Extension
from lab.host.files import PROBE

_COMMANDS = (
    Command(RUN, "demo", "demo", "Start the lab, train, lose a node, and prove the recovery."),
    Command(RUN, "up", "lab", "Start the lab and wait until every service is healthy."),
    Command(RUN, "down", "lab", "Stop the lab, even one that is only half up."),
    Command(RUN, "restart", "lab", "Stop a service and start it again."),
    Command(RUN, "submit", "submit", "Submit a recipe or a command, and follow its log."),
    Command(RUN, "jobs", "jobs", "List the jobs and checkpoints; show, follow or stop a job."),
    Command(BREAK, "fault-inject", "faults", "Break something and follow the recovery to its receipt."),
    Command(BREAK, "heal", "faults", "Revert faults left by a crashed labctl."),
    Command(LOOK, "status", "lab", "Show services, their addresses, nodes and running jobs."),
    Command(LOOK, "top", "top", "Show what runs on each node, how busy it is, and who waits."),
    Command(LOOK, "logs", "lab", "Print what a service wrote."),
    Command(LOOK, "gpus", "gpus", "Show the GPUs, and which one each worker gets."),
    Command("", "health alerts", "alerts", "Show the alerts that fire."),
    Command("", "health silence", "alerts", "Silence an alert for a while: it is sent to nobody."),
    Command(SHARE, "queue", "queue", "Show the queues of a lab, and the jobs in them."),
    Command(SHARE, "class", "classroom", "Add, list and remove the people of a class."),
    Command(MACHINE, "doctor", "machine", "Check this machine, and the lab when it is up."),
    Command(MACHINE, "images", "images", "List, get, save and load the images of containers."),
    Command(MACHINE, "test", "machine", "Run labctl's own tests: all of them, or the parts named."),
    Command(MACHINE, "self", "own", "List or remove what labctl wrote here; completion."),
)
"""Each with its module of `lab.cli.commands`."""

_DOCUMENTS = (
    *("health", "people", "queue", "queue_requests", "quotas", "receipt", "recipe"),
    *("shown", "shown_here"),
)

EXTENSION = Extension(
    "core",
    commands=tuple(replace(command, module=f"lab.cli.commands.{command.module}") for command in _COMMANDS),
    faults=("lab.faults.kinds",),
    documents=tuple(f"lab.api.{name}" for name in _DOCUMENTS),
    probes=(PROBE,),
)
