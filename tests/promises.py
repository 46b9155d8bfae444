"""The promises of the README, and the tests with labs that show each once for real: what `labctl test` runs.

Unit tests run beside them; `labctl test --all` has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

PROMISES: Mapping[str, tuple[str, ...]] = {
    "one command starts the lab, trains, breaks it and proves the recovery, on both runtimes": (
        "e2e/test_demo.py",
        "e2e/compose/test_demo.py::test_one_command",
    ),
    "a script need not know labctl, and one that starts again at epoch 1 is exposed": (
        "e2e/test_scripts.py::test_a_script_that_resumes",
        "e2e/test_scripts.py::test_a_script_that_starts_from_scratch",
    ),
    "both runtimes do the same": (
        "contract/test_boot.py",
        "contract/test_faults.py::test_a_node_that_is_killed_or_stopped",
        "contract/test_teardown.py::test_down_stops",
    ),
    "all ports are on loopback; Ray, the store and Jupyter ask for a token or key": (
        "e2e/compose/test_hardening.py",
        "e2e/compose/test_store.py",
        "e2e/test_jupyter.py::TestJupyter::test_whoever_has_no_token",
    ),
    "GPUs, real or simulated": ("e2e/compose/test_gpu_config.py",),
    "Ray's own commands and drivers work": ("e2e/test_ray_tools.py", "e2e/test_course.py"),
    "Jupyter and the lessons": (
        "e2e/test_jupyter.py::TestJupyter::test_a_cell_trains",
        "e2e/test_lessons.py::TestLessons::test_a_lesson_passes_after_it_was_done_and_not_before[2]",
    ),
    "queues as in Kueue": ("e2e/test_queues.py",),
    "a class on one server": ("e2e/test_class.py::test_ann_and_ben",),
    "several people on one machine": ("e2e/test_two_labs.py",),
    "faults, commands and checks of one's own": ("e2e/test_extension.py",),
    "`down` and an interrupt leave nothing behind": ("e2e/test_interrupts.py::test_ctrl_c_during_a_fault",),
    "what cannot be is refused with the reason": ("e2e/test_bad_input.py",),
}
"""Promise -> beginnings of the ids of its tests below tests/."""


def shown_by(node: str) -> bool:
    """Tell whether the test with this id shows a promise."""
    return any(node.startswith(f"tests/{test}") for tests in PROMISES.values() for test in tests)
