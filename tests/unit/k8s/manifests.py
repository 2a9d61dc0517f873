"""Builds the manifests of k8s/ as `kubectl apply -k` would, and finds things in them."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.support.repository import ROOT

Object: TypeAlias = dict[str, Any]

K8S = ROOT / "k8s"
KUBECTL = Path(sys.executable).with_name("kubectl")
OVERLAYS = sorted(folder.name for folder in (K8S / "overlays").iterdir())
COMPONENTS = sorted(folder.name for folder in (K8S / "components").iterdir())
VARIANTS = (
    *OVERLAYS,
    *(f"production+{name}" for name in COMPONENTS if name not in ("network-policies", "certificates")),
    "local+spark-executors",
)
"""What people may apply: each overlay, and one with each component that it does not have already."""


@functools.cache
def build(variant: str) -> tuple[Object, ...]:
    """The objects of an overlay, or of `overlay+component`. Shared between tests: copy before a change."""
    overlay, _, component = variant.partition("+")
    if not component:
        return _kustomize(K8S / "overlays" / overlay)
    # As an operator does it: one line more in the overlay.
    return build_changed(overlay, lambda _, settings: settings["components"].append(f"../../components/{component}"))


def build_changed(overlay: str, change: Callable[[Path, Object], object]) -> tuple[Object, ...]:
    """The objects of a copy of an overlay after a change, which gets its folder and its kustomization."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name).resolve() / "k8s"
        shutil.copytree(K8S, tree)
        file = tree / "overlays" / overlay / "kustomization.yaml"
        settings = yaml.safe_load(file.read_text())
        change(file.parent, settings)
        file.write_text(yaml.safe_dump(settings))
        return _kustomize(file.parent)


def _kustomize(folder: Path) -> tuple[Object, ...]:
    done = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, f"warnings are errors: {done.stderr}"
    return tuple(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    """The objects of some kinds."""
    return [each for each in objects if each["kind"] in kinds]


def show(thing: Object) -> str:
    """An object's kind and name."""
    return f"{thing['kind']} {thing['metadata']['name']}"


def templates(objects: Sequence[Object]) -> Iterator[tuple[Object, Object]]:
    """Everything that makes pods, with the pods' template."""
    for each in of_kind(objects, "Deployment", "StatefulSet", "Job"):
        yield each, each["spec"]["template"]


def containers(template: Object, *, init: bool = True) -> list[Object]:
    """The containers of a pod."""
    spec = template["spec"]
    return [*(spec.get("initContainers", ()) if init else ()), *spec["containers"]]


def labels(thing: Object) -> Mapping[str, str]:
    """The labels of an object or a pod's template."""
    found: Mapping[str, str] = thing["metadata"].get("labels", {})
    return found


def selects(selector: Object, found: Mapping[str, str]) -> bool:
    """Whether a label selector matches."""
    for key, value in selector.get("matchLabels", {}).items():
        if found.get(key) != value:
            return False
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In", "the only operator that the manifests use"
        if found.get(rule["key"]) not in rule["values"]:
            return False
    return True


def data_of(objects: Sequence[Object], kind: str, name: str) -> Mapping[str, str] | None:
    """The data of a ConfigMap or Secret; None: there is none in the manifests."""
    found = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found[0].get("data", {}) if found else None


def own_variables(objects: Sequence[Object], container: Object, secrets: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The variables of a container with their values; those from a Secret have the value `(secret)`.

    Args:
        objects: The manifests.
        container: The container.
        secrets: The keys of Secrets that are not in the manifests.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            data = data_of(objects, "ConfigMap", source["configMapRef"]["name"])
            assert data is not None, source
            found.update(data)
        else:
            found.update(dict.fromkeys(secrets[source["secretRef"]["name"]], "(secret)"))
    for each in container.get("env", ()):
        found[each["name"]] = each.get("value", "(secret)" if "secretKeyRef" in each.get("valueFrom", {}) else "")
    return found
