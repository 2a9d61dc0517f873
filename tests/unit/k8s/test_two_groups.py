"""Two groups of metastores on one cluster: a copy of an overlay in another namespace shares no object with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.unit.k8s.manifests import Object, build, build_changed, of_kind


def in_namespace(change: Callable[[Object], object] = lambda _: None) -> tuple[Object, ...]:
    """The production overlay as docs/operations/scaling.md says to copy it."""

    def move(_: object, settings: Object) -> None:
        settings["namespace"] = "lakelog-web"
        change(settings)

    return build_changed("production", move)


def find_shared(first: Sequence[Object], second: Sequence[Object]) -> set[tuple[str, str, str]]:
    def keys(objects: Sequence[Object]) -> set[tuple[str, str, str]]:
        metadata = [(each["kind"], each["metadata"]) for each in objects]
        return {(kind, each.get("namespace", ""), each["name"]) for kind, each in metadata}

    return keys(first) & keys(second)


def test_another_namespace_is_all_that_a_second_group_needs() -> None:
    second = in_namespace()
    assert find_shared(build("production"), second) == set()
    assert {each["metadata"].get("namespace", "lakelog-web") for each in second} == {"lakelog-web"}
    names = [name for each in of_kind(second, "Certificate") for name in each["spec"]["dnsNames"]]
    assert "metastore.lakelog-web.svc" in names
    assert "reader.lakelog-web.svc.cluster.local" in names
    assert not [name for name in names if "lakelog" in name and "lakelog-web" not in name]


def test_control_certificates_that_name_the_first_group_are_found() -> None:
    second = in_namespace(lambda settings: settings.pop("replacements"))
    names = [name for each in of_kind(second, "Certificate") for name in each["spec"]["dnsNames"]]
    assert "metastore.lakelog.svc" in names


@pytest.mark.parametrize("namespace", ["lakelog", "lakelog-web"])
def test_an_object_in_the_same_place_is_found(namespace: str) -> None:
    one: Object = {"kind": "Service", "metadata": {"name": "metastore", "namespace": "lakelog"}}
    other: Object = {"kind": "Service", "metadata": {"name": "metastore", "namespace": namespace}}
    assert bool(find_shared([one], [other])) is (namespace == "lakelog")
