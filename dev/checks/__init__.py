"""One module a check: `TITLE` says what holds when it passes, `find_problems(root)` returns what does not, a line each.

A check of something that is not in the tree finds no problems in it. Adding a check is adding a module.
"""
