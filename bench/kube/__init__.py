"""KUBE: W14 and W15 on a real Kubernetes control plane, with the processes that `dev/kube` runs as pods."""
