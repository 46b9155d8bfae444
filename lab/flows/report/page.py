"""The page: one HTML file with everything in it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

from lab.faults import effect_of
from lab.flows.report import labels
from lab.flows.report.css import CSS
from lab.flows.report.draw import Picture
from lab.flows.report.model import Tale
from lab.version import __version__

PATH = re.compile(r"(?<![\w:/.])/(?:[\w.+-]+/)+")
"""The folders of an absolute path. An address such as s3://ray/run has none of them."""

TONES = {
    **{"recovered": "good", "as-expected": "good", "undisturbed": "plain"},
    **dict.fromkeys(("recovered, lab not whole", "as-expected, lab not whole"), "open"),
    **dict.fromkeys(("not-verified", "attempt lost", "not judged"), "open"),
}

Row = Sequence[str]


def page(tale: Tale, pictures: Iterable[Picture]) -> str:
    """The report as HTML, complete in itself."""
    shown = {picture.name: picture for picture in pictures}
    parts = [
        _head(tale),
        _happened(tale, shown),
        _workers(tale, shown),
        _curves(tale, shown),
        _breakdown(tale, shown),
        _ranks(shown),
        _usage(shown),
        _checks(tale),
        _checkpoint(tale),
        _environment(tale),
        _missing(tale),
    ]
    body = "\n".join(part for part in parts if part)
    title = escape(f"{tale.title}: {tale.job}")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<footer>Made by labctl {escape(__version__)}. Times are in UTC. Seconds count from "
        f"{'the fault' if tale.fault else 'the start of training'}, {_clock(tale.origin)}.</footer>\n"
        "</body>\n</html>\n"
    )


def private(text: str, hidden: Iterable[str]) -> str:
    """`text` without the folders of paths, and without these words."""
    text = PATH.sub("…/", text)
    for word in hidden:
        if word:
            text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", "…", text)
    return text


def _head(tale: Tale) -> str:
    tone = TONES.get(tale.headline, "bad")
    mark = labels.MARKS.get(tale.headline, "▶")
    meaning = labels.HEADLINES.get(tale.headline, ("", ""))[1]
    reason = f"<p>{escape(_sentence(tale.reason))}</p>" if tale.reason and tale.reason != meaning else ""
    facts = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for label, value, note in _facts(tale)
    )
    return (
        f'<header>\n<p class="what">{escape(_what(tale))}</p>\n'
        f'<div class="verdict {tone}"><span class="mark" aria-hidden="true">{mark}</span>'
        f"<div><h1>{escape(tale.title)}</h1><p>{escape(meaning)}</p>{reason}</div></div>\n"
        f'<dl class="facts">{facts}</dl>\n</header>'
    )


def _what(tale: Tale) -> str:
    job = f"Job {tale.job}" + (f" ({tale.command})" if tale.command else "")
    if tale.fault is None:
        return f"{job}, {_clock(tale.origin)}"
    return f"{job}. Fault: {tale.fault['kind']} {tale.fault['target']}, {_clock(tale.origin)}"


def _facts(tale: Tale) -> list[tuple[str, str, str]]:
    found = []
    first = next((m.seconds for m in tale.moments if m.key == "first_report"), None)
    if first is not None:
        found.append(("training went on after", labels.seconds(first), "from the fault to the next report"))
    if tale.lost is not None:
        done = "nothing" if tale.lost == 0 else labels.plural(tale.lost, tale.epoch_key)
        found.append(("work done twice", done, "since the last checkpoint"))
    if tale.checks:
        passed = sum(bool(check["passed"]) for check in tale.checks)
        found.append(("checks passed", f"{passed} of {len(tale.checks)}", "each is listed below"))
    if tale.curves is not None:
        same = {"equal": "same curves", "different": "other curves", "unknown": "not comparable"}
        value = "equal bit for bit" if tale.curves.exact else same[tale.curves.likeness]
        found.append(("against the control run", value, "the same training without a fault"))
    if tale.status:
        found.append(("the job", tale.status, "as Ray says"))
    return found


def _happened(tale: Tale, shown: dict[str, Picture]) -> str:
    if tale.fault is None:
        return ""
    text = f"{tale.fault['target']} {effect_of(tale.fault)}. "
    text += "The list says what followed. Blue lines belong to the recovery; dotted ones to the fault itself."
    rows = [(m.label, "–" if m.seconds is None else labels.after(m.seconds), m.meaning) for m in tale.moments]
    expected = (
        f"<p><strong>What should happen:</strong> {escape(tale.expected)}.</p>" if tale.expected else ""
    )
    table = _table(("moment", "when", "what it means"), rows, numbers=(1,))
    return _section("What happened", text, expected, _figure(shown.get("timeline")), table)


def _workers(tale: Tale, shown: dict[str, Picture]) -> str:
    if not tale.attempts:
        return ""
    rows = [
        (
            f"attempt {a['attempt']}",
            ", ".join(f"rank {rank}: {service}" for rank, service in enumerate(a["nodes"])) or "not known",
            _span(a["first_epoch"], a["last_epoch"]),
            "–" if a["started_at"] is None else labels.after(a["started_at"]),
            "–" if a["ended_at"] is None else labels.after(a["ended_at"]),
        )
        for a in tale.attempts
    ]
    text = (
        "Each bar is one training process (a rank) on one service. White ticks are reports, one for each "
        f"{tale.epoch_key}. An attempt is one start of the training."
    )
    if tale.down is not None and tale.down.lost:
        text += " The crossed box is the time in which the node was gone."
    table = _table(("attempt", "where", f"{tale.epoch_key}s", "started", "ended"), rows, numbers=(3, 4))
    return _section("Which worker trained when", text, _figure(shown.get("workers")), table)


def _curves(tale: Tale, shown: dict[str, Picture]) -> str:
    if "curves" not in shown:
        return ""
    text = "Each point is one report. "
    if tale.fault is not None:
        text += "The dashed line is the fault. "
    if tale.control_job:
        text += (
            f"The wide grey line is the control run, job {tale.control_job}: the same training without a "
            "fault. Where the thin line lies on it, nothing was lost. "
        )
    if tale.repeated is not None:
        begin, end = tale.repeated
        done = f"{tale.epoch_key} {begin}" if begin == end else f"{tale.epoch_key}s {begin} to {end}"
        text += f"Hatched: {done}, done twice. "
    rows = []
    for metric in tale.metrics:
        control = f"{metric.control[-1][1]:.6g}" if metric.control else "–"
        rows.append((metric.name, f"{metric.lines[-1].points[-1][1]:.6g}", control))
    columns = 3 if tale.control_job else 2
    head = ("metric", "last value", "last value of the control run")[:columns]
    compared = ""
    if tale.curves is not None:
        compared = f"<p><strong>Compared:</strong> {escape(tale.curves.detail)}.</p>"
    figure = _figure(shown["curves"])
    return _section(
        "Loss and accuracy", text, figure, compared, _table(head, [row[:columns] for row in rows], (1, 2))
    )


def _breakdown(tale: Tale, shown: dict[str, Picture]) -> str:
    if "breakdown" not in shown:
        return ""
    total = sum(part.seconds for part in tale.parts) or 1.0
    rows = [
        (part.label, labels.seconds(part.seconds), f"{100 * part.seconds / total:.0f} %", part.meaning)
        for part in tale.parts
    ]
    table = _table(("part", "took", "share", "what it is"), rows, numbers=(1, 2))
    text = "The time from the fault to the next report, cut into its parts."
    return _section("Where the seconds went", text, _figure(shown["breakdown"]), table)


def _ranks(shown: dict[str, Picture]) -> str:
    if "ranks" not in shown:
        return ""
    text = "An elastic training goes on with fewer ranks while a node is gone, and grows when it is back."
    return _section("How many ranks trained", text, _figure(shown["ranks"]))


def _usage(shown: dict[str, Picture]) -> str:
    if "usage" not in shown:
        return ""
    text = "What all processes of a service used together, measured about every two seconds."
    return _section("Resource use", text, _figure(shown["usage"]))


def _checks(tale: Tale) -> str:
    if not tale.checks:
        return ""
    text = "labctl answers these questions from evidence alone. What could not be answered is not passed."
    rows = ""
    for check in tale.checks:
        passed = bool(check["passed"])
        rows += (
            f'<tr><td class="mark {"yes" if passed else "no"}">{" ".join(labels.CHECKS[passed])}</td>'
            f'<th scope="row">{escape(str(check["name"]))}</th><td>{escape(str(check["detail"]))}</td></tr>'
        )
    head = '<th scope="col">answer</th><th scope="col">question</th><th scope="col">why</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return _section("Checks", text, f'<div class="scroll">{table}</div>')


def _checkpoint(tale: Tale) -> str:
    proof = tale.checkpoint
    if not proof:
        return ""
    rows = [
        ("where", str(proof["uri"])),
        (tale.epoch_key, "not known" if proof["epoch"] is None else str(proof["epoch"])),
        ("SHA-256 as saved", proof["saved_sha256"] or "not known"),
        ("SHA-256 as loaded", proof["loaded_sha256"] or "nothing was loaded"),
    ]
    text = "What training had to go on from. Equal SHA-256 mean: not one bit differs."
    return _section("Checkpoint", text, _pairs(rows, code=True))


def _environment(tale: Tale) -> str:
    if not tale.environment:
        return ""
    text = "What it ran on. Times depend on the machine: compare only reports of the same one."
    return _section("Environment", text, _pairs(tale.environment))


def _missing(tale: Tale) -> str:
    if not tale.missing:
        return ""
    rows = "".join(f"<li>{escape(_sentence(line))}</li>" for line in tale.missing)
    return f'<section><h2>What is missing</h2><ul class="missing">{rows}</ul></section>'


def _section(title: str, text: str, *parts: str) -> str:
    inner = "\n".join(part for part in parts if part)
    return f'<section>\n<h2>{escape(title)}</h2>\n<p class="lead">{escape(text)}</p>\n{inner}\n</section>'


def _figure(picture: Picture | None) -> str:
    if picture is None:
        return ""
    data = base64.b64encode(picture.svg).decode()
    return f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.alt)}"></figure>'


def _table(head: Row, rows: Iterable[Row], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)

    def cell(tag: str, place: int, text: str) -> str:
        scope = {"th": ' scope="col"'}.get(tag, "")
        return f"<{tag}{scope}{' class=number' if place in right else ''}>{escape(text)}</{tag}>"

    top = "".join(cell("th", place, text) for place, text in enumerate(head))
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(cell("td", place, text) for place, text in enumerate(row[1:], 1))
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _pairs(rows: Iterable[tuple[str, Any]], *, code: bool = False) -> str:
    opening, closing = ("<code>", "</code>") if code else ("", "")
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{opening}{escape(str(value))}{closing}</td></tr>'
        for name, value in rows
    )
    return f"<table><tbody>{body}</tbody></table>"


def _span(first: Any, last: Any) -> str:
    if first is None:
        return "no report"
    return f"{first}" if first == last or last is None else f"{first} to {last}"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
