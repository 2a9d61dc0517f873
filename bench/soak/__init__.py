"""A soak: writers with faults, readers of every mode that stop and come back, and in the end each must know the table.

What a reader knows it has from the stream alone: each old row that a change names must be the one it holds. So a change
that is lost, doubled, torn or told against another state is found where it happens, not only in the end.
"""
