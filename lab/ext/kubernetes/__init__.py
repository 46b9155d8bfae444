"""Growing out: manifests for KubeRay and Kueue, their checks, faults and receipts there; plain Compose."""

from lab.extension import BREAK, GROW, Command, Extension, Runtime

EXTENSION = Extension(
    "kubernetes",
    commands=(
        Command(
            GROW,
            "export",
            "lab.ext.kubernetes.command",
            "Write the lab for Kubernetes or Compose; check manifests.",
        ),
        Command(
            BREAK,
            "receipt",
            "lab.ext.kubernetes.outside",
            "Judge a job of any cluster from its ledger alone.",
        ),
    ),
    runtimes=(Runtime("kubernetes", "lab.ext.kubernetes.outside"),),
    documents=("lab.ext.kubernetes.documents",),
)
