"""Growing out: manifests for KubeRay and Kueue, checks of manifests, and a folder for plain Compose."""

from lab.extension import GROW, Command, Extension

EXTENSION = Extension(
    "kubernetes",
    commands=(
        Command(
            GROW,
            "export",
            "lab.ext.kubernetes.command",
            "Write the lab for Kubernetes or Compose; check manifests.",
        ),
    ),
    documents=("lab.ext.kubernetes.documents",),
)
