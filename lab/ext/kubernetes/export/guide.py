"""Files for people: the README with the order of commands, the script for the secrets, the Dockerfile."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from string import Template

from kueue.quantity import shown
from lab.ext.kubernetes.clusters import RAY_VERSION
from lab.ext.kubernetes.export.pods import HEAD_CPU, HEAD_MEMORY, PROBE_FOLDER, secret_name
from lab.ext.kubernetes.export.request import JOB_FOLDER, VARIANTS, ExportRequest
from lab.host.quantities import plural
from lab.host.secrets import RANDOM_IN_SHELL
from lab.version import __version__

HERE = Path(__file__).parent
KUBERAY, KUEUE = "1.7", "0.19"

KUEUE_SETTINGS = (
    "kubectl -n kueue-system create configmap kueue-manager-config --from-file=kueue --dry-run=client -o yaml"
    " | kubectl apply --server-side --force-conflicts -f - && "
    "kubectl -n kueue-system rollout restart deployment/kueue-controller-manager"
)

WHAT = {
    "namespaces.yaml": "the namespace of the lab, and those of the queues",
    "probe.yaml": "recorder and patches of the lab, as a ConfigMap on PYTHONPATH of every node",
    "code.yaml": f"the job's code, as a ConfigMap mounted at {JOB_FOLDER}",
    "queues.yaml": "quotas and queues of Kueue",
    "redis.yaml": "Redis, which keeps the state of Ray's head",
    "raycluster.yaml": "the cluster of Ray",
    "rayjob.yaml": "the job, with a cluster of Ray of its own",
    "appwrapper.yaml": "the same inside of an AppWrapper, which starts it again after a fault",
    "secrets.sh": "makes the Secrets; no key is in these files",
    "kustomization.yaml": "what is this lab's alone, for `kubectl apply -k` and `kubectl delete -k`",
    "kueue": "settings of Kueue itself, which its manager reads from a ConfigMap",
    "monitoring": "PodMonitors and Ray's dashboards, for the operator of Prometheus",
    "image": "an image with the code: build and push it first",
}
"""File or folder -> what is in it, in the order of the README."""


def readme(request: ExportRequest, paths: Sequence[str]) -> str:
    """What is here, and the commands in their order."""
    spec = request.spec
    there = {path.partition("/")[0] for path in paths}
    files = "\n".join(f"| `{name}` | {words} |" for name, words in WHAT.items() if name in there)
    gpu = f" and one `{request.gpu}`" if request.gpu else ""
    kueue = f"Kueue {KUEUE}, " if request.queue else ""
    versions = f"KubeRay {KUBERAY}, {kueue}Ray {RAY_VERSION}"
    worker = f"{spec.cpus_per_worker} CPUs, {shown('memory', request.worker_memory)}"
    submitter = "; the pod that submits the job has 500m CPU and 200Mi" if request.code else ""
    store = f"{request.storage} at {request.endpoint}" if request.endpoint else request.storage
    queues = " and queues" if request.queue else ""
    volume = ", the volume of Redis" if spec.gcs_ft else ""
    listed = _steps(request, there)
    commands = "\n\n".join(
        f"{place}. {words}:\n\n       {step}" for place, (words, step) in enumerate(listed, 1)
    )
    text = Template((HERE / "readme.txt").read_text(encoding="utf-8"))
    return text.substitute(
        name=spec.name, version=__version__, versions=versions, head_cpu=HEAD_CPU,
        head_memory=shown("memory", HEAD_MEMORY), submitter=submitter, workers=plural(spec.workers, "worker"),
        worker=f"{worker}{gpu}", image=request.nodes_image, store=store, files=files, commands=commands,
        queues=queues, volume=volume,
    )  # fmt: skip


def _receipt(request: ExportRequest) -> str:
    """The command for a receipt; the id of a job is known once KubeRay has submitted it."""
    job = "ID"
    if request.code is not None:
        known = f"kubectl -n {request.space} get rayjob {request.code.name} -o jsonpath='{{.status.jobId}}'"
        job = f'"$({known})"'
    where = f" --endpoint {request.endpoint}" if request.endpoint else ""
    return f"labctl receipt {job} --storage {request.storage}{where}"


def _steps(request: ExportRequest, there: Container[str]) -> list[tuple[str, str]]:
    """What each command is for, and the command."""
    spec, space, code = request.spec, request.space, request.code
    kubectl = f"kubectl -n {space}"
    kind, name = ("rayjob", code.name) if code else ("raycluster", spec.name)
    outer = "appwrapper" if request.app_wrapper else kind
    image = request.nodes_image
    steps = []
    if request.in_image:
        steps.append(("Build the image and push it", f"docker build -t {image} image && docker push {image}"))
    elif not request.image:
        push = f"docker tag {image} REGISTRY/{image} && docker push REGISTRY/{image}"
        reason = "Push the lab's image to where the cluster finds it, and name it there with `--image`"
        steps.append((reason, push))
    if "kueue" in there:
        reason = (
            "Whoever runs Kueue: its settings, which replace all that it has; add what else it needs there"
        )
        steps.append((reason, KUEUE_SETTINGS))
    shared = "namespaces.yaml -f queues.yaml" if request.queue else "namespaces.yaml"
    what = "Namespaces and queues, which others may use too" if request.queue else "The namespace"
    steps += [
        (what, f"kubectl apply --server-side -f {shared}"),
        ("The Secrets", "AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... sh secrets.sh"),
        ("Everything else", "kubectl apply --server-side -k ."),
        ("See it start", f"{kubectl} get {outer} {name} --watch"),
    ]
    if request.queue:
        steps.append(("See why Kueue lets it wait", f"{kubectl} describe workloads.kueue.x-k8s.io"))
    if code:
        steps.append(("Follow the job", f"{kubectl} logs -f -l job-name={code.name}"))
    else:
        steps += [
            ("Reach the dashboard", f"{kubectl} port-forward service/{spec.name}-head-svc 8265:8265"),
            (
                "Take the token",
                f"export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$({kubectl} get secret "
                f"{secret_name(request, 'token')} -o go-template='{{{{.data.auth_token | base64decode}}}}')",
            ),
            (
                "Submit a job",
                "ray job submit --address http://127.0.0.1:8265 --working-dir . -- python job.py",
            ),
        ]
    steps.append(("Judge a recovery, also long afterwards", _receipt(request)))
    if "monitoring" in there:
        reason = "Let the operator of Prometheus scrape it, where there is one"
        steps.append((reason, "kubectl apply --server-side -k monitoring"))
    return steps


def secrets_script(request: ExportRequest) -> str:
    """A shell script that makes the Secrets: keys come from the environment or are new, and touch no file."""
    new = [f"new {secret_name(request, 'token')} auth_token"]
    if request.spec.gcs_ft:
        new.append(f"new {secret_name(request, 'redis')} password")
    text = (
        (HERE / "secrets.sh")
        .read_text(encoding="utf-8")
        .replace("RANDOM", RANDOM_IN_SHELL)
        .replace("NEW", "\n".join(new))
    )
    text = text.replace("STORE", secret_name(request, "s3"))
    return text.replace("KUBECTL", f"kubectl -n {request.space}")


def image_files(request: ExportRequest, probe: Mapping[str, bytes]) -> dict[str, bytes]:
    """A folder to build an image from: the lab's image with recorder, patches and the job's code."""
    base = f"raylab/ray:{__version__}-{VARIANTS.get(request.spec.gpu.vendor, 'cpu')}"
    lines = [f"FROM {base}", f"COPY probe {PROBE_FOLDER}"]
    files = {f"image/probe/{path}": content for path, content in probe.items()}
    if request.code is not None and request.code.files:
        lines.append(f"COPY job {JOB_FOLDER}")
        files |= {f"image/job/{path}": content for path, content in request.code.files.items()}
    return {"image/Dockerfile": ("\n".join(lines) + "\n").encode(), **files}
