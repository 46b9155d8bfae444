"""A cluster of KubeRay, as far as a fault needs it: pods are deleted, machines cordoned, through kubectl."""

from lab.runtime.kubernetes.kubectl import Kubectl, Pod
from lab.runtime.kubernetes.runtime import KubernetesControl

__all__ = ["Kubectl", "KubernetesControl", "Pod"]
