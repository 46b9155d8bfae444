"""Print the JSON Schemas of the documents: `python -m lab.api > lab/api/schema.json`."""

from __future__ import annotations

import json
import sys

from typing_extensions import is_typeddict

from lab.api import (
    chaos,
    health,
    inference,
    ladder,
    lesson,
    queue,
    queue_requests,
    quotas,
    receipt,
    recipe,
    shown,
    shown_here,
)
from lab.api.base import schemas

DOCUMENTS: tuple[type[object], ...] = (
    queue_requests.JobRequest,
    queue_requests.OrderRequest,
    queue_requests.ApplyRequest,
    queue_requests.DeleteRequest,
    queue_requests.Accepted,
    queue_requests.Phase,
    queue_requests.Changed,
    queue_requests.Refused,
    queue.Listing,
    queue.Description,
    queue.Why,
    queue.DryRun,
    queue.QueueEvent,
    quotas.QueuesView,
    health.AgentReport,
    health.Orders,
    health.CheckRequest,
    health.Ordered,
    health.Override,
    health.Lift,
    health.HealthView,
    receipt.ReceiptDocument,
    inference.BatchEvidence,
    inference.BatchReceipt,
    ladder.LadderDocument,
    lesson.ReportDocument,
    recipe.RecipeManifest,
    chaos.ScheduleForm,
    chaos.ChaosDocument,
    *filter(is_typeddict, (*vars(shown).values(), *vars(shown_here).values())),
)
"""Every document that stands alone; those inside them come along."""


def text() -> str:
    """The schemas as one document, a line for each shape."""
    comment = "Made by `python -m lab.api` from lab/api."
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": comment}
    lines = [
        f" {json.dumps(name)}: {json.dumps(shape)}" for name, shape in sorted(schemas(DOCUMENTS).items())
    ]
    return f'{json.dumps(head)[:-1]}, "$defs": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.stdout.write(text())
