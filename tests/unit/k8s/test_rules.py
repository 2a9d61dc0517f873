"""What all manifests keep: pod security, probes, selectors, references, rights, scalers. Each rule has a control."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from lakelog.errors import PermissionDenied
from lakelog.storage.lookup.copy_cache import find_cache_folder
from tests.unit.k8s.manifests import K8S, VARIANTS, Object, build, containers, labels, of_kind, show, templates
from tests.unit.k8s.rules import (
    find_copy_problems,
    find_expansion_problems,
    find_pod_problems,
    find_probe_problems,
    find_reference_problems,
    find_right_problems,
    find_rollout_problems,
    find_scaler_problems,
    find_selector_problems,
)

Rule: TypeAlias = Callable[[Sequence[Object]], Iterable[str]]

RULES: tuple[Rule, ...] = (
    find_pod_problems,
    find_probe_problems,
    find_selector_problems,
    find_reference_problems,
    find_expansion_problems,
    find_scaler_problems,
    find_right_problems,
    find_rollout_problems,
    find_copy_problems,
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_rule_holds(variant: str) -> None:
    assert [problem for rule in RULES for problem in rule(build(variant))] == []


def named(objects: Sequence[Object], name: str) -> Any:
    """A Deployment."""
    return next(each for each in of_kind(objects, "Deployment") if each["metadata"]["name"] == name)


def metastore(objects: Sequence[Object]) -> Any:
    return named(objects, "metastore")


def pod(objects: Sequence[Object]) -> Any:
    return metastore(objects)["spec"]["template"]["spec"]


def main(objects: Sequence[Object]) -> Any:
    return pod(objects)["containers"][0]


def first(objects: Sequence[Object], kind: str) -> Any:
    return of_kind(objects, kind)[0]


def settings(objects: Sequence[Object], name: str) -> Any:
    """The data of a ConfigMap, whose name ends in a hash."""
    return next(each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"].startswith(name))["data"]


def set_cache(objects: Sequence[Object], service: str, folder: str) -> None:
    settings(objects, f"{service}-settings")["LAKELOG_CACHE_DIR"] = folder


CHANGES: list[tuple[str, Callable[[Sequence[Object]], object], str]] = [
    ("local", lambda o: pod(o)["securityContext"].pop("runAsNonRoot"), "may run as root"),
    ("local", lambda o: pod(o)["securityContext"].pop("seccompProfile"), "no seccomp profile"),
    ("local", lambda o: pod(o).update(hostNetwork=True), "shares something with its node"),
    ("local", lambda o: pod(o)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}), "a folder of its node"),
    ("local", lambda o: pod(o).pop("enableServiceLinks"), "variables of services"),
    ("local", lambda o: pod(o).pop("automountServiceAccountToken"), "a token for the API"),
    ("local", lambda o: pod(o)["volumes"][0]["emptyDir"].pop("sizeLimit"), "has no limit"),
    ("local", lambda o: main(o)["securityContext"].pop("readOnlyRootFilesystem"), "root can be written"),
    ("local", lambda o: main(o)["securityContext"].pop("allowPrivilegeEscalation"), "can get more rights"),
    ("local", lambda o: main(o)["securityContext"].update(capabilities={}), "has capabilities"),
    ("local", lambda o: main(o)["resources"].pop("limits"), "lacks a request or a limit"),
    ("local", lambda o: main(o)["resources"]["requests"].update(memory="2Gi"), "more memory than it may have"),
    ("local", lambda o: main(o).update(image="lakelog/metastore:latest"), "has no version"),
    ("local", lambda o: main(o).update(image="registry:5000/lakelog/metastore"), "has no version"),
    ("local", lambda o: main(o).pop("livenessProbe"), "no livenessProbe"),
    ("local", lambda o: main(o)["livenessProbe"]["grpc"].update(port=7450 + 9), "which it does not have"),
    ("local", lambda o: main(o)["livenessProbe"]["grpc"].update(service="readiness"), "liveness depends on others"),
    ("local", lambda o: main(o)["readinessProbe"]["grpc"].update(service="liveness"), "whether it can work"),
    ("local", lambda o: pod(o).update(terminationGracePeriodSeconds=20), "is killed after 20 s"),
    ("local", lambda o: first(o, "Service")["spec"]["ports"][0].update(targetPort="http"), "none of its pods"),
    ("local", lambda o: first(o, "Service")["spec"].update(selector={"a": "b"}), "selects 0 kinds of pods"),
    ("local", lambda o: labels(first(o, "Deployment")["spec"]["template"]).clear(), "its selector matches []"),  # type: ignore[attr-defined]
    ("local", lambda o: first(o, "PodDisruptionBudget")["spec"]["selector"].clear(), "it selects ["),
    ("local", lambda o: first(o, "PodDisruptionBudget").update(kind="Other"), "no disruption budget"),
    ("local", lambda o: main(o)["envFrom"][0]["configMapRef"].update(name="x"), "there is no ConfigMap x"),
    ("local", lambda o: main(o)["env"][0]["valueFrom"]["secretKeyRef"].update(key="x"), "has no key x"),
    ("local", lambda o: pod(o)["volumes"][1]["secret"].update(secretName="x"), "there is no Secret x"),
    ("local", lambda o: main(o)["volumeMounts"].pop(), "nothing uses the volume"),
    ("local", lambda o: main(o)["volumeMounts"][0].update(name="x"), "there is no volume x"),
    ("local", lambda o: main(o)["env"].append({"name": "X", "value": "$(Y)"}), "names Y, which is not known there"),
    ("local", lambda o: metastore(o)["spec"].pop("strategy"), "takes a pod away before another one is ready"),
    ("local", lambda o: named(o, "writer")["spec"].pop("strategy"), "could wait for its volume for ever"),
    ("local", lambda o: main(o)["command"].append("--x=$(Y)"), "its command names Y"),
    ("local", lambda o: pod(o).update(serviceAccountName="x"), "there is no account x"),
    ("local", lambda o: first(o, "PersistentVolumeClaim")["metadata"].update(name="x"), "there is no claim"),
    ("local", lambda o: first(o, "RoleBinding")["roleRef"].update(name="x"), "there is no role x"),
    ("local", lambda o: first(o, "Role")["rules"][1].pop("resourceNames"), "may read all Secrets"),
    ("local", lambda o: first(o, "Role")["rules"][0].update(verbs=["*"]), "may do everything"),
    ("local", lambda o: set_cache(o, "compactor", "/var/cache/lakelog"), "at the mount point /var/cache/lakelog"),
    ("local", lambda o: set_cache(o, "reader", "/opt/copies"), "are in no volume of the pod"),
    ("local", lambda o: settings(o, "writer-settings").pop("LAKELOG_CACHE_DIR"), "in the folder for temporary files"),
    ("production+hpa", lambda o: metastore(o)["spec"].update(replicas=1), "would undo what it decides"),
    ("production+keda", lambda o: metastore(o)["metadata"].update(name="x"), "no Deployment metastore"),
]


@pytest.mark.parametrize(("variant", "change", "said"), CHANGES, ids=[said for _, _, said in CHANGES])
def test_control_each_rule_finds_what_breaks_it(
    variant: str, change: Callable[[Sequence[Object]], object], said: str
) -> None:
    objects = copy.deepcopy(build(variant))
    change(objects)
    assert said in "\n".join(problem for rule in RULES for problem in rule(objects))


def test_the_local_overlay_needs_no_custom_resource_and_no_rights_beyond_its_namespace() -> None:
    groups = {each["apiVersion"] for each in build("local")}
    known = {"v1", "apps/v1", "batch/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"}
    assert groups <= known
    assert all(each["metadata"].get("namespace") == "lakelog" for each in build("local") if each["kind"] != "Namespace")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_namespace_asks_for_restricted_pods(variant: str) -> None:
    (namespace,) = of_kind(build(variant), "Namespace")
    assert labels(namespace)["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_secret_is_in_a_manifest(variant: str) -> None:
    assert of_kind(build(variant), "Secret") == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_has_the_recommended_labels(variant: str) -> None:
    wanted = {"name", "component", "part-of", "instance"}
    for owner, template in templates(build(variant)):
        for thing in (owner, template):
            found = {key.removeprefix("app.kubernetes.io/") for key in labels(thing)}
            assert wanted <= found, f"{show(owner)}: {wanted - found}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_container_that_ends_says_why_in_the_status_of_its_pod(variant: str) -> None:
    for _, template in templates(build(variant)):
        for container in containers(template):
            if container["image"].startswith("lakelog/"):
                assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_executors_keep_the_rules_of_the_namespace() -> None:
    template = yaml.safe_load((K8S / "components" / "spark-executors" / "executor.yaml").read_text())
    # Spark adds image, memory and processors.
    container = template["spec"]["containers"][0]
    container |= {"image": "x:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}
    executor = {"kind": "Deployment", "metadata": {"name": "executor"}, "spec": {"template": template}}
    assert list(find_pod_problems([executor])) == []
    assert list(find_copy_problems([executor])) == []
    for each in container["env"]:
        each["value"] = "/var/cache/lakelog"
    assert len(list(find_copy_problems([executor]))) == 1


def test_a_folder_below_one_that_all_may_write_to_is_made_for_its_user_alone(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    # As the kubelet makes an emptyDir: with the group of the pod, which folders in it get too.
    volume.chmod(0o2777)
    copies = find_cache_folder(str(volume / "copies"))
    assert copies.parent == volume / "copies"
    assert copies.parent.stat().st_mode & 0o777 == 0o700
    # Control: the volume itself is refused.
    with pytest.raises(PermissionDenied, match="may be written to by others"):
        find_cache_folder(str(volume))
