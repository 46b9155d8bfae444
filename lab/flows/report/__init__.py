"""The report: what happened to a training, as one HTML page with pictures, to look at and to print."""

from lab.flows.report.build import tell
from lab.flows.report.find import find_subject, read_evidence
from lab.flows.report.model import Subject, Tale
from lab.flows.report.write import Written, write_report

__all__ = ["Subject", "Tale", "Written", "find_subject", "read_evidence", "tell", "write_report"]
