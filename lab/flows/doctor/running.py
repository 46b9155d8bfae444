"""Checks of a lab that is up. Pure functions of what was seen."""

from __future__ import annotations

from lab.flows.doctor.machine import patches_fit
from lab.flows.doctor.model import ListeningPort, ProbedAddress, ProbedPage, RunningLab
from lab.services import PROXY, is_node
from lab.topology import Check, State
from lab.topology.address import bracketed

REFUSED = (401, 403)

SKEW_WARNING_SECONDS = 5.0
"""From here on the times in a receipt, some of labctl's clock and some of the lab's, tell a wrong story."""

SKEW_LIMIT_SECONDS = 900.0
"""S3 servers refuse requests that were signed more than 15 minutes ago, or later than now."""


RENEW_DAYS = 14
"""Days before the end of a certificate of one's own from which on it is to be renewed."""


def services(lab: RunningLab) -> Check:
    """Checks that every service is healthy."""
    ill = [s for s in lab.status.services if s.state is not State.HEALTHY]
    if not ill:
        return Check("services", "passed", f"{len(lab.status.services)} services are healthy")
    detail = ", ".join(f"{s.service} is {s.state.value}{f' ({s.detail})' if s.detail else ''}" for s in ill)
    return Check(
        "services", "failed", detail, f"`labctl logs {ill[0].service}` says more; `labctl up` repairs"
    )


def dashboard(lab: RunningLab) -> Check:
    """Checks that Ray's dashboard serves with the token, and only then."""
    if lab.dashboard.status != 200:
        detail = f"with the token: {_answer(lab.dashboard)}"
        return Check(
            "dashboard",
            "failed",
            detail,
            "look at `labctl logs ray-head`; then `labctl down` and `labctl up`",
        )
    if lab.anonymous.status not in REFUSED:
        detail = f"without the token: {_answer(lab.anonymous)}; whoever reaches it can run code"
        return Check("dashboard", "failed", detail, "stop the lab: labctl down")
    return Check("dashboard", "passed", "serves with the token, refuses without")


def nodes(lab: RunningLab) -> Check:
    """Checks that every node service has a living node in Ray."""
    if lab.nodes_error:
        return Check("nodes", "failed", lab.nodes_error, "look at `labctl logs ray-head`")
    wanted = [s.service for s in lab.status.services if is_node(s.service)]
    alive = [node.service for node in lab.nodes if node.alive]
    missing = [name for name in wanted if name not in alive]
    if missing:
        detail = f"not alive in Ray: {', '.join(missing)}"
        return Check("nodes", "failed", detail, f"`labctl restart {missing[0]}` brings it back")
    return Check("nodes", "passed", f"{len(wanted)} nodes are alive in Ray")


def store(lab: RunningLab) -> Check:
    """Checks that the object store keeps what is written to it."""
    if lab.store_error is None:
        return Check("object store", "skipped", "the gateway of a class does not lead to it")
    if lab.store_error:
        return Check("object store", "failed", lab.store_error, "look at `labctl logs minio`")
    server = f" ({lab.store_server})" if lab.store_server else ""
    if lab.store_server.startswith("moto"):
        server = f" ({lab.store_server}, standing in for MinIO)"
    return Check("object store", "passed", f"an object was written, read and deleted{server}")


def loopback(lab: RunningLab) -> Check:
    """Checks that the lab can be reached from this machine only."""
    if lab.listeners is None:
        return Check("ports", "skipped", "this user may not see which ports are open")
    exposed = [
        port for port in lab.listeners if not port.socket.on_loopback and not _meant(lab.address, port)
    ]
    if exposed:
        detail = ", ".join(f"{p.service} listens on {p.socket.address} port {p.socket.port}" for p in exposed)
        return Check("ports", "failed", detail, "stop the lab: labctl down; the network can reach it")
    but = " but the address of the class" if lab.address else ""
    return Check("ports", "passed", f"{len(lab.listeners)} open ports, all on loopback{but}")


def _meant(seen: ProbedAddress | None, port: ListeningPort) -> bool:
    """True for the port that a class is reached at."""
    wanted = (PROXY, seen.address.listen, seen.address.port) if seen else None
    return wanted == (port.service, port.socket.address, port.socket.port)


def address(seen: ProbedAddress) -> Check:
    """Checks that a class is reached at its address, with a certificate that lasts."""
    here = f"at {bracketed(seen.address.listen)} port {seen.address.port}"  # no names, for --report
    if not seen.known:
        hint = "add it to DNS; the machines of the class must resolve it, too"
        return Check("address", "failed", "the host of --address cannot be resolved here", hint)
    if seen.error:
        hint = "look at `labctl logs proxy`; is the clock right? a new certificate: `labctl restart proxy`"
        return Check("address", "failed", f"the class is not served {here}: {seen.error}", hint)
    if not seen.address.certificate:  # the proxy renews all others
        return Check("address", "passed", f"the class is served {here}; the certificate is renewed by itself")
    days = (seen.ends - seen.asked_at) / 86_400
    detail = f"the class is served {here}; its certificate ends in {days:.0f} days"
    if days < RENEW_DAYS:
        hint = "renew the file of --tls-cert, then `labctl restart proxy`"
        return Check("address", "warning", detail, hint)
    return Check("address", "passed", detail)


def lab_clock(lab: RunningLab) -> Check:
    """Checks that the lab has this machine's time; in a virtual machine that slept it may not."""
    answer = lab.dashboard if lab.dashboard.date is not None else lab.anonymous
    if answer.date is None:
        return Check("lab's clock", "skipped", "the dashboard does not report its time")
    skew = abs(answer.date - answer.asked_at)
    detail = f"{skew:.0f} s from this machine's"
    if skew > SKEW_LIMIT_SECONDS:
        hint = "set the clocks; a virtual machine that slept is put right by restarting it"
        return Check("lab's clock", "failed", f"{detail}: the object store refuses such requests", hint)
    if skew > SKEW_WARNING_SECONDS:
        return Check("lab's clock", "warning", f"{detail}: times in receipts will be wrong", "set the clocks")
    return Check("lab's clock", "passed", "the same as this machine's")


def running_checks(lab: RunningLab) -> tuple[Check, ...]:
    """Every check of a lab that is up."""
    return (
        services(lab),
        dashboard(lab),
        nodes(lab),
        store(lab),
        loopback(lab),
        lab_clock(lab),
        *((address(lab.address),) if lab.address else ()),
        patches_fit("lab's patches", lab.unfit, lab.unfit_error),
    )


def _answer(answer: ProbedPage) -> str:
    return f"HTTP {answer.status}" if answer.status is not None else answer.error or "no answer"
