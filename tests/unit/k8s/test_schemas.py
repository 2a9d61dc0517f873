"""Every overlay and component builds, and what it builds is what the API of Kubernetes takes, to the last key."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

import kubernetes_validate.utils as schemas
import pytest

from tests.unit.k8s.custom import SPECS, find_problems
from tests.unit.k8s.manifests import COMPONENTS, K8S, VARIANTS, Object, build, of_kind, show

VERSION = "1.37"


@pytest.fixture(autouse=True, scope="module")
def schemas_read_once() -> Iterator[None]:
    """The schemas are read again for each object otherwise, which takes most of the time."""
    read = schemas.schema_contents
    schemas.schema_contents = functools.cache(read)
    yield
    schemas.schema_contents = read


def check(thing: Object) -> str:
    """What is wrong with an object; empty: nothing."""
    if (thing["apiVersion"], thing["kind"]) in SPECS:
        return "; ".join(find_problems(thing))
    try:
        schemas.validate(thing, VERSION, strict=True)
    except schemas.ValidationError as error:
        return str(error.message)
    return ""


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_is_as_the_api_has_it(variant: str) -> None:
    problems = {show(each): check(each) for each in build(variant)}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def changed(kind: str, path: tuple[Any, ...], value: object) -> Object:
    """A built object with one key more."""
    for variant in VARIANTS:
        found = of_kind(build(variant), kind)
        if found:
            thing = copy.deepcopy(found[0])
            place: Any = thing
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            return thing
    raise AssertionError(f"no {kind}")


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "readinesProbe"), {}, "readinesProbe"),
        ("Service", ("spec", "selectors"), {}, "selectors"),
        ("NetworkPolicy", ("spec", "ingres"), [], "ingres"),
        ("Role", ("rules", 0, "verb"), [], "verb"),
        ("ScaledObject", ("spec", "minReplicas"), 1, "minReplicas"),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "threshold"), 5, "threshold"),
        ("Kafka", ("spec", "kafka", "replicas"), 3, "replicas"),
        ("Cluster", ("spec", "instance"), 3, "instance"),
        ("PodMonitor", ("spec", "podMetricsEndpoints", 0, "targetPort"), 1, "targetPort"),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "query"), "x", "query"),
        ("Certificate", ("spec", "dnsName"), "x", "dnsName"),
    ],
)
def test_control_a_misspelt_key_is_refused_by_name(kind: str, path: tuple[Any, ...], value: object, said: str) -> None:
    assert said in check(changed(kind, path, value))


def test_each_folder_is_built_by_these_tests() -> None:
    named = {name for variant in VARIANTS for name in variant.split("+")}
    for overlay in ("local", "production"):
        text = (K8S / "overlays" / overlay / "kustomization.yaml").read_text()
        named |= {name for name in COMPONENTS if f"\n  - ../../components/{name}\n" in text}
    assert set(COMPONENTS) <= named


def test_names_of_objects_are_used_once() -> None:
    for variant in VARIANTS:
        names = [(each["apiVersion"], show(each)) for each in build(variant)]
        assert len(names) == len(set(names)), variant
