"""A node: runs the pods that the scheduler binds to it as processes in namespaces, and reports what became of them."""
