"""The helper that slows down a container's network, over a kernel that is played."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from raylab_faults import network
from raylab_faults.network import CommandError

DEVICES = ["eth0"]


def interfaces() -> list[tuple[int, str]]:
    return [(1, "lo"), (2, "tunl0"), (7, "eth1")]


class Kernel:
    """Keeps the commands that worked; one that has a word of `lacks` does not."""

    def __init__(self, *lacks: str) -> None:
        self.lacks = set(lacks)
        self.done: list[str] = []

    def __call__(self, argv: Sequence[str]) -> None:
        lacking = self.lacks.intersection(argv)
        if lacking:
            raise CommandError(f"Error: Specified qdisc kind is unknown: {lacking.pop()}")
        self.done.append(" ".join(argv))

    def made(self) -> list[str]:
        """What was done but to clear."""
        return [line for line in self.done if " del " not in line and " -F " not in line]


def test_netem_does_everything_and_for_both_ways() -> None:
    kernel = Kernel()
    network.impair(kernel, DEVICES, delay_ms=100, loss_percent=1.5, rate_mbit=20)
    netem = "root netem limit 10000 delay 100ms loss 1.5% rate 20mbit"
    assert kernel.made()[0] == f"tc qdisc replace dev eth0 {netem}"
    assert kernel.made()[-1] == f"tc qdisc replace dev ifb0 {netem}"
    assert "iptables" not in " ".join(kernel.made())


def test_without_netem_a_rate_is_kept_by_tbf_and_packets_are_lost_by_iptables() -> None:
    kernel = Kernel("netem")
    network.impair(kernel, DEVICES, delay_ms=0, loss_percent=25, rate_mbit=20)
    made = kernel.made()
    lost = [line for line in made if line.startswith("iptables")]
    assert [line.split()[3:6] for line in lost] == [["INPUT", "-i", "eth0"], ["OUTPUT", "-o", "eth0"]]
    assert all("--probability 0.250000 -j DROP" in line for line in lost)
    limited = [line.split()[4] for line in made if "tbf rate 20mbit burst 50000b" in line]
    assert limited == ["eth0", "ifb0"]


def test_without_netem_loss_alone_needs_no_second_device() -> None:
    kernel = Kernel("netem", "tbf", "ifb")
    network.impair(kernel, DEVICES, delay_ms=0, loss_percent=1, rate_mbit=0)
    assert len(kernel.made()) == 2


def test_without_netem_a_delay_is_refused_and_nothing_stays() -> None:
    kernel = Kernel("netem")
    with pytest.raises(CommandError, match="a delay needs netem"):
        network.impair(kernel, DEVICES, delay_ms=50, loss_percent=1, rate_mbit=1)
    assert kernel.made() == []


def test_what_fails_half_way_is_taken_back() -> None:
    kernel = Kernel("ifb")
    with pytest.raises(CommandError, match="ifb"):
        network.impair(kernel, DEVICES, delay_ms=50, loss_percent=0, rate_mbit=0)
    assert kernel.done.count("tc qdisc del dev eth0 root") == 2, "before, and after the failure"


def test_clearing_goes_on_where_there_is_nothing_to_clear() -> None:
    kernel = Kernel("qdisc", "link")
    network.clear(kernel, DEVICES)
    assert kernel.done == ["iptables -w -F INPUT", "iptables -w -F OUTPUT"]


@pytest.mark.parametrize(
    ("lacks", "delay", "loss", "rate"),
    [
        ((), "", "", ""),
        (("netem",), network.NO_NETEM, "", ""),
        (("netem", "iptables"), network.NO_NETEM, "iptables", ""),
        (("netem", "tbf"), network.NO_NETEM, "", "tbf"),
    ],
)
def test_what_a_kernel_cannot_do_is_told(
    lacks: tuple[str, ...], delay: str, loss: str, rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.main(["abilities"], Kernel(*lacks)) == 0
    abilities = json.loads(capsys.readouterr().out)
    assert abilities["delay"] == delay
    assert (loss in abilities["loss"], rate in abilities["rate"]) == (True, True)
    assert (bool(abilities["loss"]), bool(abilities["rate"])) == (bool(loss), bool(rate))


def test_as_a_program_it_says_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert network.main(["impair", "--delay-ms=5"], Kernel("netem"), interfaces) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("a delay needs netem")
    kernel = Kernel()
    assert network.main(["clear"], kernel, interfaces) == 0
    assert kernel.made() == []


def test_the_interface_of_a_container_that_was_cut_off_and_connected_again_has_another_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = Kernel()
    assert network.main(["impair", "--rate-mbit=5"], kernel, interfaces) == 0
    assert "dev eth1 root netem" in kernel.made()[0]
    assert network.main(["impair", "--rate-mbit=5"], kernel, lambda: [(1, "lo")]) == 1
    assert capsys.readouterr().err == "the container is on no network\n"
    assert network.main(["clear"], kernel, lambda: [(1, "lo")]) == 0


def test_a_command_that_is_missing_or_fails_is_named() -> None:
    with pytest.raises(CommandError, match="no-such-command"):
        network.run(["no-such-command"])
    with pytest.raises(CommandError, match="`false`: 1"):
        network.run(["false"])
    network.run(["true"])
