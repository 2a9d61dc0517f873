"""What docs/kubernetes.md tells operators to do works: its commands for tokens, and settings of one pipeline."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakelog.serving.access import Role, parse_token_file
from tests.support.repository import ROOT
from tests.unit.k8s.manifests import Object, build, build_changed, of_kind
from tests.unit.k8s.rules import SECRETS

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()

PROGRAMS = {
    # Secrets are folders with a file for each key.
    "kubectl": """
case " $* " in *" apply "*) exit 0;; *" get secret "*) base64 -w0 "$SECRETS/$5/tokens"; exit 0;; esac
mkdir -p "$SECRETS/$6"
case $7 in
  --from-literal=token=*) printf %s "${7#--from-literal=token=}" >"$SECRETS/$6/token";;
  --from-file=tokens) cp -p tokens "$SECRETS/$6/tokens";;
esac
""",
    "openssl": "head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n'",
    "sleep": "exit 0",
}
"""What the commands of the page run here."""


def commands_with(text: str) -> str:
    """The block of commands on the page that has a text."""
    (found,) = [block for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S) if text in block]
    return str(found)


def run(commands: str, tmp_path: Path) -> Path:
    """Runs commands of the page in a folder; returns the folder of Secrets."""
    programs, work, secrets = (tmp_path / name for name in ("programs", "work", "secrets"))
    for folder in (programs, work, secrets):
        folder.mkdir(exist_ok=True)
    for name, body in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\nset -eu\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SECRETS": str(secrets)}
    subprocess.run(["/bin/sh", "-euc", commands], cwd=work, env=environment, check=True, timeout=30)
    return secrets


def listed_tokens(secrets: Path) -> dict[bytes, tuple[str, Role]]:
    """The callers and roles in the Secret `caller-tokens`, by the digest of their tokens."""
    listed = parse_token_file((secrets / "caller-tokens" / "tokens").read_text(), "tokens")
    return {entry.digest: (entry.caller.name, entry.caller.role) for entry in listed.tokens}


def token_of(secrets: Path, caller: str) -> bytes:
    """The digest of the token that the pods of a caller have."""
    return hashlib.sha256((secrets / f"{caller}-token" / "token").read_bytes()).digest()


def test_the_commands_make_a_token_for_each_caller_and_leave_none_on_disk(tmp_path: Path) -> None:
    secrets = run(commands_with("for caller in"), tmp_path)
    listed = listed_tokens(secrets)
    callers = {name.removesuffix("-token") for name in SECRETS if name.endswith("-token")}
    roles = {"admin": Role.ADMIN, "reader": Role.READER}
    assert {token_of(secrets, caller): (caller, roles.get(caller, Role.WRITER)) for caller in callers} == listed
    # While it was on disk, no other user could read it.
    assert (secrets / "caller-tokens" / "tokens").stat().st_mode & 0o077 == 0
    assert list((tmp_path / "work").iterdir()) == []


def test_a_token_changes_without_a_moment_in_which_servers_do_not_know_it(tmp_path: Path) -> None:
    secrets = run(commands_with("for caller in"), tmp_path)
    old = token_of(secrets, "publisher")
    commands = commands_with("# a second line for the same caller")
    run(commands.partition("sleep 120\n")[0], tmp_path)
    # Servers know both, and publishers still have the old one.
    known = [digest for digest, (name, _) in listed_tokens(secrets).items() if name == "publisher"]
    assert len(known) == 2
    assert token_of(secrets, "publisher") == old
    shutil.rmtree(tmp_path / "work")
    run(commands, tmp_path)
    assert token_of(secrets, "publisher") != old
    assert listed_tokens(secrets).keys() >= {old, token_of(secrets, "publisher")}


def add_pipeline(overlay: Path, settings: Object, merge_in: str) -> None:
    """A second pipeline, with a setting that is given in the overlay or in the pipeline's folder."""
    merged = {"name": "writer-settings", "behavior": "merge", "literals": ["LAKELOG_SPARK_MASTER=local[8]"]}
    folder = overlay / "pipelines" / "clicks"
    shutil.copytree(overlay / "pipelines" / "orders", folder)
    file = folder / "kustomization.yaml"
    own: Any = yaml.safe_load(
        file.read_text().replace("-orders", "-clicks").replace("pipeline: orders", "pipeline: clicks")
    )
    (own if merge_in == "folder" else settings)["configMapGenerator"].append(merged)
    file.write_text(yaml.safe_dump(own))
    settings["resources"].append("pipelines/clicks")


def test_one_of_two_pipelines_has_settings_of_its_own_in_its_folder() -> None:
    objects = build_changed("production", lambda overlay, settings: add_pipeline(overlay, settings, "folder"))
    masters = {
        each["metadata"]["labels"]["lakelog.io/pipeline"]: each["data"]["LAKELOG_SPARK_MASTER"]
        for each in of_kind(objects, "ConfigMap")
        if each["metadata"]["name"].startswith("writer-settings-")
    }
    assert masters == {"orders": "local[2]", "clicks": "local[8]"}
    with pytest.raises(AssertionError, match="found multiple objects"):
        build_changed("production", lambda overlay, settings: add_pipeline(overlay, settings, "overlay"))


def test_the_labels_of_the_commands_that_delete_find_all_objects_of_a_pipeline_and_of_autoscalers() -> None:
    removed = commands_with("delete hpa").splitlines()
    kinds = {line.split()[4]: line.split()[6] for line in removed}
    (of_pipeline,) = [key for key in kinds if "pvc" in key]
    long_names = {"pdb": "poddisruptionbudget", "pvc": "persistentvolumeclaim"}
    deleted = {long_names.get(kind, kind) for kind in of_pipeline.split(",")}
    found = [each for each in build("production") if each["metadata"]["name"].partition("-orders")[1]]
    assert {each["kind"].lower() for each in found} == deleted
    assert {each["metadata"]["labels"]["lakelog.io/pipeline"] for each in found} == {"orders"}
    for component, kind in (("hpa", "HorizontalPodAutoscaler"), ("keda", "ScaledObject")):
        for each in of_kind(build(f"production+{component}"), kind):
            assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "lakelog"
