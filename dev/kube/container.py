"""Runs one container: `python container.py SPEC`, in the network namespace of its pod. Needs only the standard library.

    this process (stands for the container: its end has the container's exit status)
      └ process 1 of a namespace of its own: root, user and limits as the pod's spec says, then the command

The root is a file system in memory that holds the machine's programs read-only and the pod's volumes, so that what a
spec forbids (to write to the root, to gain privileges, another user's files) fails here too.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_NEW_MOUNTS, _NEW_IPC, _NEW_HOST_NAME, _NEW_PROCESSES = 0x20000, 0x8000000, 0x4000000, 0x20000000
_SET_PARENT_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES, _DROP_CAPABILITY = 1, 38, 24

_libc = ctypes.CDLL(None, use_errno=True)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data and data.encode()), f"mount {source} at {target}")


def _bind(source: str, target: str, read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT, 0o644))
    _mount(source, target, None, _MS_BIND | _MS_REC)
    if read_only:
        # Flags of the mount below stay: in a user namespace they cannot be taken away.
        locked = os.statvfs(target).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        _mount("none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | locked)


def _make_root(spec: dict[str, Any]) -> None:
    root = spec["root"]
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", root, "tmpfs", 0, "mode=755")
    for link, target in spec["links"].items():
        os.makedirs(os.path.dirname(root + link), exist_ok=True)
        os.symlink(target, root + link)
    for source, target, read_only in spec["binds"]:
        _bind(source, root + target, read_only)
    for path, text in spec["files"].items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(root + "/dev/shm", exist_ok=True)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    for link, target in (("fd", "/proc/self/fd"), ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
        os.symlink(target, f"{root}/dev/{link}")
    _mount("tmpfs", root + "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777,size=64m")
    os.makedirs(root + "/proc", exist_ok=True)
    _mount("proc", root + "/proc", "proc", 0)
    os.makedirs(root + spec["cwd"], exist_ok=True)
    if not spec["read_only"]:
        os.makedirs(root + "/tmp", exist_ok=True)
        os.chmod(root + "/tmp", 0o1777)
    else:
        _mount("none", root, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    os.chroot(root)
    os.chdir(spec["cwd"])


def _drop_rights(spec: dict[str, Any]) -> None:
    if spec["drop_all"]:
        for capability in range(64):
            _libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)
    if spec["switch_user"]:
        os.setgroups(spec["groups"])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if spec["no_new_privileges"]:
        _check(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")
    _check(_libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "signal at the parent's death")
    os.umask(0o022)


def _start(spec: dict[str, Any]) -> int:
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_HOST_NAME | _NEW_PROCESSES), "new namespaces")
    child = os.fork()
    if child:
        return child
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        name = spec["hostname"].encode()
        _check(_libc.sethostname(name, len(name)), "host name")
        _make_root(spec)
        _drop_rights(spec)
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        # As a container runtime says that a command is not there.
        sys.stderr.write(f"container could not start: {' '.join(spec['argv'])[:200]}: {error}\n")
        os._exit(127)


def main() -> None:
    """Ends with the status of the command, or 128 and the number of the signal that killed it."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    forwarded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*forwarded, signal.SIGCHLD})
    child = _start(spec)
    with open(sys.argv[1] + ".pid", "w", encoding="utf-8") as file:
        file.write(str(child))
    while True:
        received = signal.sigwait({*forwarded, signal.SIGCHLD})
        if received != signal.SIGCHLD:
            os.kill(child, received)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
