"""A real Kubernetes control plane on one machine, and nodes that run pods as processes in namespaces.

Everything is inside namespaces of its own: network, mounts, processes. It needs no container runtime, and root only
where user namespaces are off. It ends with the process that started it.
"""
