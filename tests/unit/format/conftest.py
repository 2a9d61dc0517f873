from hypothesis import settings

# Deadlines measure the machine, not the code: the first example pays for imports, and other work shares the cores.
settings.register_profile("format", deadline=None)
settings.load_profile("format")
