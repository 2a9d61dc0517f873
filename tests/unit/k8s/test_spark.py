"""Spark's executors as pods: a driver has the rights that Spark uses, and its settings are ones that services take."""

from __future__ import annotations

import copy
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from compactor.config import parse_config
from lakelog.spark.session.gateway import find_spark_home
from tests.unit.k8s.manifests import K8S, Object, build, labels, of_kind, own_variables, templates
from tests.unit.k8s.rules import ALL_SECRETS

NEEDED = {
    # Makes executors, watches them, deletes them one by one and, at its end, all that are left.
    "pods": {"create", "get", "list", "watch", "delete", "deletecollection", "patch"},
    # Their settings.
    "configmaps": {"create", "get", "list", "delete", "deletecollection"},
}
"""What a driver does that runs in a pod, by `spark-kubernetes` of the version in the lock."""

VARIANTS = ("local+spark-executors", "production+spark-executors")
WITH_SPARK = {"writer", "reader-streams", "compactor"}


def missing_rights(objects: Sequence[Object], account: str) -> set[tuple[str, str]]:
    """What an account lacks of what Spark needs."""
    roles = {
        binding["roleRef"]["name"]
        for binding in of_kind(objects, "RoleBinding")
        if account in {subject["name"] for subject in binding["subjects"]}
    }
    rules = [rule for role in of_kind(objects, "Role") if role["metadata"]["name"] in roles for rule in role["rules"]]
    allowed = {(what, verb) for rule in rules for what in rule["resources"] for verb in rule["verbs"]}
    return {(what, verb) for what, verbs in NEEDED.items() for verb in verbs} - allowed


def drivers(objects: Sequence[Object]) -> dict[str, Any]:
    """The pods of services that use Spark, by component."""
    found = {labels(template)["app.kubernetes.io/component"]: template["spec"] for _, template in templates(objects)}
    return {component: spec for component, spec in found.items() if component in WITH_SPARK}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_driver_may_do_what_spark_does(variant: str) -> None:
    objects = build(variant)
    for component, spec in drivers(objects).items():
        assert missing_rights(objects, spec["serviceAccountName"]) == set(), component
        assert spec["automountServiceAccountToken"] is True


def test_control_a_right_that_is_taken_away_is_missed() -> None:
    objects = copy.deepcopy(build("local+spark-executors"))
    (role,) = [role for role in of_kind(objects, "Role") if role["metadata"]["name"] == "spark-driver"]
    role["rules"][0]["verbs"].remove("deletecollection")
    assert missing_rights(objects, "spark-driver") == {("pods", "deletecollection")}


def test_without_executors_no_service_has_a_token_for_the_api() -> None:
    for variant in ("local", "production"):
        for component, spec in drivers(build(variant)).items():
            assert spec["automountServiceAccountToken"] is False, component


@pytest.mark.parametrize("variant", VARIANTS)
def test_settings_are_ones_that_the_services_take(variant: str) -> None:
    objects = build(variant)
    for component, spec in drivers(objects).items():
        (container,) = spec["containers"]
        variables = own_variables(objects, container, ALL_SECRETS)
        conf = read_conf(variables["LAKELOG_SPARK_CONF"])
        ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
        assert conf["spark.driver.port"] == ports["spark-driver"]
        # Spark gives executors the one or the other as the address of their driver.
        assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "$(POD_IP)"
        assert conf["spark.driver.blockManager.port"] == ports["spark-blocks"]
        folder, _, file = conf["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        (source,) = [volume for volume in spec["volumes"] if volume["name"] == mounted[folder]]
        (found,) = [
            each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] == source["configMap"]["name"]
        ]
        assert file in found["data"]
        for key, value in conf.items():
            if ".secretKeyRef." in key:
                name, _, wanted = value.partition(":")
                assert wanted in ALL_SECRETS[name], f"{component}: {key}"
        master = "LAKELOG_COMPACTOR_SPARK_MASTER" if component == "compactor" else "LAKELOG_SPARK_MASTER"
        assert variables[master].startswith("k8s://")
        assert variables["SPARK_LOCAL_DIRS"] in mounted


@pytest.mark.parametrize("variant", VARIANTS)
def test_executors_have_no_way_to_the_metastore(variant: str) -> None:
    """Tasks never call it; with a writer's token, an executor that was taken over could commit."""
    for component, spec in drivers(build(variant)).items():
        (container,) = spec["containers"]
        (text,) = [each["value"] for each in container["env"] if each["name"] == "LAKELOG_SPARK_CONF"]
        given = {key.rpartition(".")[2] for key in read_conf(text) if "executorEnv." in key or "secretKeyRef." in key}
        assert given & {"LAKELOG_TOKEN", "LAKELOG_TOKEN_FILE", "LAKELOG_TARGET"} == set(), component
        assert {"LAKELOG_S3_ENDPOINT", "LAKELOG_S3_SECRET_ACCESS_KEY", "LAKELOG_SECRETS_DIR"} <= given
    template = (K8S / "components" / "spark-executors" / "executor.yaml").read_text()
    assert "metastore" not in template


def test_the_start_of_executors_fits_this_version_of_spark() -> None:
    """Spark gives what an executor needs in variables, and takes it in arguments; both are named in its classes."""
    (jar,) = (find_spark_home() / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        variables = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
        arguments = classes.read("org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend$.class")
        settings = classes.read("org/apache/spark/deploy/k8s/Config$.class")
    script = (K8S / "images" / "executor.sh").read_text()
    for name in set(re.findall(r"\$\{?(SPARK_[A-Z_]+)", script)) | {"SPARK_JAVA_OPT_"}:
        assert name.encode() in variables, name
    given = set(re.findall(r"--[a-zA-Z-]+", script))
    assert {"--driver-url", "--podName"} <= given
    for name in given:
        assert name.encode() in arguments, name
    text = (K8S / "components" / "spark-executors" / "settings.yaml").read_text()
    for key in re.findall(r"(spark\.kubernetes\.[\w.]+?)(?:\.LAKELOG_\w+)?=", text):
        assert key.encode() in settings, key


def read_conf(text: str) -> Mapping[str, str]:
    """Spark's settings as a service reads them."""
    return parse_config(["run"], {"LAKELOG_TARGET": "a:1", "LAKELOG_SPARK_CONF": text}).spark_conf


def secret_files(volumes: Sequence[Object]) -> dict[str, list[str]]:
    """The Secrets of the volume `secrets`, with the files that are named."""
    (volume,) = [each for each in volumes if each["name"] == "secrets"]
    sources = [source["secret"] for source in volume["projected"]["sources"]]
    return {source["name"]: [item["path"] for item in source.get("items", ())] for source in sources}


def test_executors_have_the_secrets_that_their_driver_has() -> None:
    template = yaml.safe_load((K8S / "components" / "spark-executors" / "executor.yaml").read_text())
    executor = secret_files(template["spec"]["volumes"])
    (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "secrets"]
    assert all(source["secret"]["optional"] for source in volume["projected"]["sources"])
    for component, spec in drivers(build("production+strimzi")).items():
        assert secret_files(spec["volumes"]) == executor, component
        assert "kafka-secrets" in executor


def test_containers_of_strimzi_keep_the_rules_of_the_namespace() -> None:
    objects = build("production+strimzi")
    (pool,) = of_kind(objects, "KafkaNodePool")
    (kafka,) = of_kind(objects, "Kafka")
    contexts = [
        pool["spec"]["template"]["kafkaContainer"]["securityContext"],
        kafka["spec"]["entityOperator"]["template"]["userOperatorContainer"]["securityContext"],
    ]
    restricted = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert contexts == [restricted, restricted]
