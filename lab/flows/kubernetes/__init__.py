"""The lab as objects of Kubernetes: written, checked without a cluster, and read back."""
