"""Queues of Kueue that go along: the lab's own files of queues, and Kueue's own configuration."""

from __future__ import annotations

from dataclasses import replace

from kueue.model import Config, Setup
from kueue.reading.nodes import meant
from kueue.writing import objects
from lab.errors import UsageError
from lab.ext.kubernetes.export.request import ExportRequest, Object
from lab.flows.queues.files import read_files

CONFIGURATION = "kueue/controller_manager_config.yaml"
"""File of Kueue's own configuration, called as its key in the ConfigMap that Kueue reads."""
FRAMEWORKS = ("batch/job", "ray.io/rayjob", "ray.io/raycluster", "workload.codeflare.dev/appwrapper")


def queues_of(request: ExportRequest) -> Setup:
    """Queues of files, among which that of the lab must be. Raises UsageError, NotFoundError."""
    read = read_files(request.queue_files, request.space)
    if read.errors:
        more = f" (and {len(read.errors) - 1} more)" if len(read.errors) > 1 else ""
        raise UsageError(f"{read.errors[0]}{more}", read.errors[0].hint or "labctl queue check shows all")
    names = [name for space, name in read.setup.local_queues if space == request.space]
    if request.queue and request.queue_files and request.queue not in names:
        raise _unknown(
            f"--queue {request.queue}: namespace {request.space} has no such LocalQueue", request.queue, names
        )
    classes = [known.name for known in read.setup.priority_classes if not known.pods]
    if request.priority and request.priority not in classes:
        message = f"--priority {request.priority}: there is no such WorkloadPriorityClass in --queues"
        raise _unknown(message, request.priority, classes)
    return read.setup


def _unknown(message: str, word: str, known: list[str]) -> UsageError:
    return UsageError(message, meant(word, known) or f"there are: {', '.join(known) or 'none'}")


def configuration(setup: Setup) -> list[Object]:
    """Kueue's own configuration, where the queues have one; it is no object of the API server.

    Kueue takes a configuration whole, and manages only batch/job where no framework is named.
    """
    configured = objects(Setup(config=setup.config))
    return [{**settings, "integrations": {"frameworks": list(FRAMEWORKS)}} for settings in configured]


def queue_objects(setup: Setup) -> list[Object]:
    """The queues as objects of Kueue; settings of Kueue itself and namespaces are none of them."""
    return list(objects(replace(setup, config=Config(), namespaces={})))
