"""The report: what happened to a training, as one HTML page with pictures, to look at and to print."""

from lab.report.find import find_subject, read_evidence
from lab.report.model import Subject, Tale
from lab.report.tell import tell
from lab.report.write import Written, write_report

__all__ = ["Subject", "Tale", "Written", "find_subject", "read_evidence", "tell", "write_report"]
