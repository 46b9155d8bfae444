"""The report: what happened to a training, as one HTML page with pictures, to look at and to print."""

from lab.flows.report.build import build_report
from lab.flows.report.find import find_subject, read_evidence
from lab.flows.report.model import ReportData
from lab.flows.report.write import Written, write_report

__all__ = [
    "ReportData",
    "Written",
    "build_report",
    "find_subject",
    "read_evidence",
    "write_report",
]
