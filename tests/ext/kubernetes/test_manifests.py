"""Objects of Kubernetes are read with their places, whatever form the YAML has."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import NotFoundError
from lab.ext.kubernetes.manifests import read_manifests, shown, texts_of


def test_an_object_knows_its_file_line_and_path() -> None:
    text = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers:\n  - name: b\n    image: c\n"
    (manifest,), wrong = read_manifests([("pod.yaml", text)])
    assert not wrong
    finding = manifest.finding("rule", "error", ("spec", "containers", 0, "image"), "bad")
    assert str(finding) == "pod.yaml:7: spec.containers[0].image: bad [rule]"


def test_what_is_not_there_is_told_at_what_would_hold_it() -> None:
    text = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec:\n  containers: []\n"
    (manifest,), _ = read_manifests([("f", text)])
    assert manifest.finding("r", "error", ("spec", "containers", 3, "image"), "").line == 5


def test_lists_and_app_wrappers_are_opened() -> None:
    text = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: one}}
- apiVersion: workload.codeflare.dev/v1beta2
  kind: AppWrapper
  metadata: {name: two, namespace: team}
  spec:
    components:
    - template: {apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: three}}
"""
    manifests, wrong = read_manifests([("f", text)])
    assert [(manifest.kind, manifest.metadata["name"], manifest.wrapped) for manifest in manifests] == [
        ("Secret", "one", False),
        ("AppWrapper", "two", False),
        ("RayCluster", "three", True),
    ]
    assert manifests[2].namespace == "team"
    assert not wrong


def test_merge_keys_octal_numbers_and_words_are_taken_as_kubectl_takes_them() -> None:
    text = """
kind: X
apiVersion: v1
base: &base {a: 1, b: 2}
spec: {<<: *base, b: 3, mode: 0755, on: yes, big: 1_000, real: 1.5, none: ~, word: "0755"}
"""
    (manifest,), _ = read_manifests([("f", text)])
    assert manifest.value["spec"] == {
        "a": 1, "b": 3, "mode": 0o755, "on": True, "big": 1000, "real": 1.5, "none": None, "word": "0755",
    }  # fmt: skip


def test_what_is_no_object_is_told_with_its_line() -> None:
    manifests, wrong = read_manifests([("f", "a: 1\n---\n- 2\n---\nkind: X\napiVersion: v1\nkind: Y\n")])
    assert [(finding.line, finding.message) for finding in wrong] == [
        (7, "comes twice"),
        (1, "apiVersion and kind missing: not an object of Kubernetes"),
        (3, "apiVersion and kind missing: not an object of Kubernetes"),
    ]
    assert [manifest.kind for manifest in manifests] == ["Y"]


def test_text_that_is_no_yaml_is_one_finding() -> None:
    manifests, wrong = read_manifests([("f", "a: [1\nb: 2\n")])
    assert not manifests
    assert len(wrong) == 1
    assert "not YAML" in wrong[0].message


def test_a_kustomization_is_no_object_of_the_cluster() -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
    assert read_manifests([("f", text)]) == ([], [])


def test_a_folder_stands_for_its_yaml_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.yaml", "b/c.yml", "b/readme.md"):
        (tmp_path / name).write_text("x")
    assert [Path(name).name for name, _ in texts_of([tmp_path])] == ["a.yaml", "c.yml"]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match=name):
        texts_of([tmp_path / name])


def test_a_path_is_shown_as_a_person_writes_it() -> None:
    assert shown(("spec", "a", 0, "b.c")) == "spec.a[0].b.c"
