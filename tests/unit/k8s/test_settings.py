"""Variables and metrics of the manifests exist in the code, and docs/kubernetes.md has all of them."""

from __future__ import annotations

import copy
import re

import pytest

from dev.declared_metrics import samples
from lakelog.config import CATALOG_VARIABLE, CATALOGS_VARIABLE
from lakelog.tracing.spans import TRACES_VARIABLE
from tests.support.repository import ROOT
from tests.unit.k8s.declared import CONFIGS, of_client, of_command, of_config, of_files
from tests.unit.k8s.manifests import COMPONENTS, VARIANTS, build, containers, of_kind, own_variables, templates
from tests.unit.k8s.rules import ALL_SECRETS, LOCAL_SECRETS, SECRETS, find_metric_problems, find_setting_problems

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
PLATFORM = frozenset({"SPARK_LOCAL_DIRS", "POD_IP", "POD_NAME", "POD_NAMESPACE", "TOKEN_SECRET"})
"""Variables of Spark, and those that others are put together from."""

DECLARED = {command: of_command(command) for command in CONFIGS}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variable_is_a_setting_of_its_service(variant: str) -> None:
    assert list(find_setting_problems(build(variant), DECLARED, PLATFORM)) == []


def test_control_a_variable_of_another_service_is_found() -> None:
    objects = copy.deepcopy(build("local"))
    (publisher,) = [each for each in of_kind(objects, "Deployment") if each["metadata"]["name"] == "publisher"]
    publisher["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "LAKELOG_MAX_CALLS", "value": "1"})
    assert list(find_setting_problems(objects, DECLARED, PLATFORM)) == [
        "Deployment publisher, publisher: LAKELOG_MAX_CALLS is no setting of writer publish"
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_metric_that_is_named_exists(variant: str) -> None:
    assert list(find_metric_problems(build(variant), samples())) == []


@pytest.mark.parametrize(
    ("name", "gone", "said"),
    [
        ("production+keda", "lakelog_metastore_publish_lag_seconds", "ScaledObject publisher: nothing measures"),
        ("production+monitoring", "lakelog_metastore_waiting_commits", "LakelogCommitsWait: nothing measures"),
        ("production+monitoring", "lakelog_server_rotation_refused", "LakelogRotationRefused: nothing measures"),
        ("production+monitoring", "lakelog_reader_subscriptions", "panel Subscriptions: nothing measures"),
    ],
)
def test_control_a_metric_that_is_gone_is_found(name: str, gone: str, said: str) -> None:
    left = {key: value for key, value in samples().items() if key != gone}
    problems = list(find_metric_problems(build(name), left))
    assert f"{said} {gone}" in problems


def test_control_a_label_that_is_gone_is_found() -> None:
    left = samples() | {"lakelog_metastore_log_lag_seconds": frozenset({"of"})}
    problems = list(find_metric_problems(build("production+monitoring"), left))
    assert "LakelogLogLate: no metric of it has the label table" in problems


def variables_in(section: str) -> dict[str, set[str]]:
    """The variables of each row of the table in a section of the page."""
    body = PAGE.partition(f"\n### {section}\n")[2].partition("\n#")[0]
    rows = [line.split("|") for line in body.splitlines() if line.startswith("| ") and "`LAKELOG_" in line]
    return {row[1].strip().strip("`"): set(re.findall(r"`(LAKELOG_[A-Z0-9_]+)`", row[2])) for row in rows}


def test_the_page_lists_every_setting_and_no_other() -> None:
    wanted = {f"python -m {command}": set(of_config(kind)) for command, kind in CONFIGS.items()}
    # What clients have in common stands in rows of its own.
    own = {command: variables - of_client() for command, variables in wanted.items()}
    own["clients of the metastore"] = set(of_client() - of_files())
    own["users of the SDK and the command"] = {CATALOG_VARIABLE, CATALOGS_VARIABLE}
    own["all that touch files"] = set(of_files())
    own["all"] = {"LAKELOG_UMASK", TRACES_VARIABLE}
    own["python -m metastore serve"] |= {"LAKELOG_SECRETS_DIR"}
    assert variables_in("All variables") == own


def test_the_page_lists_every_secret_and_no_other() -> None:
    body = PAGE.partition("\n### Secrets\n")[2].partition("\n#")[0]
    rows = [line.split("|") for line in body.splitlines() if line.startswith("| `")]
    listed = {row[1].strip().strip("`"): re.findall(r"`([^`]+)`", row[2]) for row in rows}
    assert listed == {name: list(keys) for name, keys in SECRETS.items()}


def test_services_listen_where_their_probes_and_services_ask() -> None:
    ports = {"metastore": (7450, 7451, 9090), "reader": (7460, 7461, 9090)}
    for owner, template in templates(build("local")):
        name = owner["metadata"]["name"]
        for container in containers(template, init=False):
            if name in ports:
                variables = own_variables(build("local"), container, ALL_SECRETS | LOCAL_SECRETS)
                prefix = "LAKELOG_READER" if name == "reader" else "LAKELOG"
                listened = (
                    int(variables[f"{prefix}_LISTEN"].removeprefix("0.0.0.0:")),
                    int(variables[f"{prefix}_HEALTH_PORT"]),
                    int(variables[f"{prefix}_METRICS_PORT"]),
                )
                assert listened == ports[name]
                assert tuple(port["containerPort"] for port in container["ports"]) == ports[name]


def test_the_page_lists_every_component_and_every_alert() -> None:
    rows = set(re.findall(r"^\| `([^`]+)` \|", PAGE, re.M))
    assert set(COMPONENTS) <= rows
    (rules,) = of_kind(build("production+monitoring"), "PrometheusRule")
    alerts = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}
    assert alerts == {row for row in rows if row.startswith("Lakelog")}
