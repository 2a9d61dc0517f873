"""The metastore as its clients see it: the protocol `Metastore`, and the parts that it inherits."""
