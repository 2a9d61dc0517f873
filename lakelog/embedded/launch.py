"""The first code of a child process: ties its life to its parent, gives up root on request, becomes its command.

It runs as a file, by a bare interpreter (`python -I -S launch.py PARENT SIGNAL USER GROUP PIPE COMMAND...`), so it
imports nothing of lakelog. A `preexec_fn` would do the same in fewer lines. But it runs Python between fork and exec,
which can deadlock in a parent with threads (gRPC has many).
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`: the signal that this process gets when the thread that made it ends."""


def main(arguments: list[str]) -> None:
    """Becomes the command; returns only if `os.exec` raises.

    Args:
        arguments: The parent's process id; the number of the signal to get when the parent dies; the user id and group
            id to change to (-1 and -1: no change); a file descriptor to close when all this is done; then the command,
            an absolute path or a name on PATH, with its arguments.
    """
    parent_pid, death_signal, user_id, group_id, pipe = (int(word) for word in arguments[:5])
    command = arguments[5:]
    os.set_inheritable(pipe, False)
    if user_id >= 0:
        os.setgroups([])
        os.setgid(group_id)
        os.setuid(user_id)
    # SUBTLE: after the change of user, because that change clears the setting.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent_pid:
        # The parent died before the line above: no one would ever stop us.
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
