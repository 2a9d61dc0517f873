"""The commands, a module each; `lakelog/cli/app.py` lists them."""
