"""Rules that every manifest keeps. Each is a pure function from objects to problems in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from tests.unit.k8s.manifests import (
    Object,
    containers,
    data_of,
    labels,
    of_kind,
    own_variables,
    selects,
    show,
    templates,
)

SECRETS: dict[str, Sequence[str]] = {
    "metastore-database": ("url",),
    "metastore-tls": ("tls.crt", "tls.key", "ca.crt"),
    "reader-tls": ("tls.crt", "tls.key", "ca.crt"),
    "console-tls": ("tls.crt", "tls.key", "ca.crt"),
    "caller-tokens": ("tokens",),
    "warehouse-credentials": ("LAKELOG_S3_ACCESS_KEY_ID", "LAKELOG_S3_SECRET_ACCESS_KEY"),
    "writer-token": ("token",),
    "publisher-token": ("token",),
    "compactor-token": ("token",),
    "reader-token": ("token",),
    "streams-token": ("token",),
    "admin-token": ("token",),
    "kafka-secrets": (),
}
"""The Secrets that operators give, with their keys; docs/kubernetes.md lists them."""

LOCAL_SECRETS: dict[str, Sequence[str]] = {
    "postgres-password": ("password",),
    "certificate-authority": ("ca.crt", "ca.key"),
}
"""Those that the Job of the local overlay makes beside them."""

OPERATOR_SECRETS: dict[str, Sequence[str]] = {
    "metastore-db-app": ("uri",),
    "lakelog-kafka-user": ("password",),
    "lakelog-kafka-cluster-ca-cert": ("ca.crt",),
}
"""Those that operators of Postgres and Kafka make."""

ALL_SECRETS = {**SECRETS, **LOCAL_SECRETS, **OPERATOR_SECRETS}

GRACE_S = {"metastore": 20.0 + 5.0 + 4.0, "publisher": 30.0 + 4.0, "reader": 5.0 + 4.0, "console": 5.0 + 4.0}
"""How long a service takes at most to end in order, where it has a bound: its grace, and the last report."""

_WITH_COPIES = (["compactor", "run"], ["reader", "serve"], ["reader", "run"], ["writer", "run"], ["console", "serve"])
"""The services that make local copies of data files."""

WITH_API = {"credentials", "writer", "compactor", "reader-streams"}
"""Components whose pods may speak with the API of Kubernetes: the last three with Spark's executors only."""


def find_pod_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Restricted pod security and what else every pod has."""
    for owner, template in templates(objects):
        spec, name = template["spec"], show(owner)
        context = spec.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
            yield f"{name}: it may run as root"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: no seccomp profile"
        if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")):
            yield f"{name}: it shares something with its node"
        if any("hostPath" in volume for volume in spec.get("volumes", ())):
            yield f"{name}: it has a folder of its node"
        if spec.get("serviceAccountName", "default") == "default":
            yield f"{name}: it has no account of its own"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name}: the variables of services could be taken for settings"
        may_use_api = labels(template).get("app.kubernetes.io/component") in WITH_API
        if spec.get("automountServiceAccountToken") is not False and not may_use_api:
            yield f"{name}: it has a token for the API"
        for volume in spec.get("volumes", ()):
            if "emptyDir" in volume and "sizeLimit" not in (volume["emptyDir"] or {}):
                yield f"{name}: the folder {volume['name']} has no limit"
        for container in containers(template):
            yield from (f"{name}, {container['name']}: {problem}" for problem in _find_container_problems(container))


def _find_container_problems(container: Object) -> Iterator[str]:
    context = container.get("securityContext", {})
    if context.get("readOnlyRootFilesystem") is not True:
        yield "its root can be written"
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield "it can get more rights"
    if context.get("capabilities", {}).get("drop") != ["ALL"] or context.get("capabilities", {}).get("add"):
        yield "it has capabilities"
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
        yield "it lacks a request or a limit of memory"
    elif _bytes(resources["requests"]["memory"]) > _bytes(resources["limits"]["memory"]):
        yield "it requests more memory than it may have"
    name, _, tag = container["image"].rpartition(":")
    if not re.search(r"@sha256:[0-9a-f]{64}$", container["image"]) and (not name or tag == "latest" or "/" in tag):
        yield f"its image {container['image']} has no version"


def _bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()  # type: ignore[union-attr]  # Else it fails.
    return int(number) << {"Mi": 20, "Gi": 30}[unit]


def find_probe_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Probes of everything that runs for long: their ports exist, liveness asks nothing that depends on others."""
    for owner, template in templates(objects):
        component = labels(template).get("app.kubernetes.io/component", "")
        if owner["kind"] == "Job" or component == "shell":
            continue
        grace_s = template["spec"].get("terminationGracePeriodSeconds", 30)
        if grace_s <= GRACE_S.get(component, 0):
            yield f"{show(owner)}: it is killed after {grace_s} s, but may take {GRACE_S[component]:g} s to end"
        for container in template["spec"]["containers"]:
            name = f"{show(owner)}, {container['name']}"
            ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                probe = container.get(kind)
                if probe is None:
                    yield f"{name}: no {kind}"
                    continue
                asked = next((probe[how] for how in ("grpc", "httpGet", "tcpSocket") if how in probe), None)
                if asked is not None and asked["port"] not in (*ports, *ports.values()):
                    yield f"{name}: {kind} asks the port {asked['port']}, which it does not have"
            liveness = container.get("livenessProbe", {})
            depends = liveness.get("grpc", {}).get("service", "liveness") != "liveness"
            depends |= "exec" in liveness or liveness.get("httpGet", {}).get("path", "/livez") != "/livez"
            if depends:
                yield f"{name}: its liveness depends on others"
            if container["image"].startswith("lakelog/"):
                ready = container.get("readinessProbe", {})
                asks = ready.get("grpc", {}).get("service"), ready.get("httpGet", {}).get("path")
                if asks not in (("readiness", None), (None, "/healthz")):
                    yield f"{name}: its readiness does not say whether it can work"


def find_selector_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Selectors match the pods that they are for, and no others; named ports exist; spread and budgets too."""
    pods = [(show(owner), labels(template), template) for owner, template in templates(objects)]
    for owner, template in templates(objects):
        if owner["kind"] == "Job":
            continue
        matched = [name for name, found, _ in pods if selects(owner["spec"]["selector"], found)]
        if matched != [show(owner)]:
            yield f"{show(owner)}: its selector matches {matched}"
        for rule in template["spec"].get("topologySpreadConstraints", ()):
            if not selects(rule["labelSelector"], labels(template)):
                yield f"{show(owner)}: its spread does not match its own pods"
    for service in of_kind(objects, "Service"):
        selector = {"matchLabels": service["spec"]["selector"]}
        found = [template for _, label, template in pods if selects(selector, label)]
        if len(found) != 1:
            yield f"{show(service)}: it selects {len(found)} kinds of pods"
            continue
        named = {port["name"] for container in containers(found[0]) for port in container.get("ports", ())}
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in named:
                yield f"{show(service)}: its port {port['targetPort']} is none of its pods"
            if "appProtocol" not in port:
                yield f"{show(service)}: its port {port['name']} does not say what it speaks"
    covered: set[str] = set()
    for budget in of_kind(objects, "PodDisruptionBudget"):
        matched = [name for name, found, _ in pods if selects(budget["spec"]["selector"], found)]
        if len(matched) != 1:
            yield f"{show(budget)}: it selects {matched}"
        covered.update(matched)
    for owner, template in templates(objects):
        one_of_it = owner["kind"] == "Job" or labels(template).get("app.kubernetes.io/component") == "shell"
        if not one_of_it and show(owner) not in covered:
            yield f"{show(owner)}: no disruption budget"


def find_reference_problems(objects: Sequence[Object]) -> Iterator[str]:
    """ConfigMaps, Secrets, claims, accounts and mounts that are named exist, with their keys."""
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    claims = {each["metadata"]["name"] for each in of_kind(objects, "PersistentVolumeClaim")}
    for owner, template in templates(objects):
        spec, name = template["spec"], show(owner)
        if spec["serviceAccountName"] not in accounts:
            yield f"{name}: there is no account {spec['serviceAccountName']}"
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        volumes |= {each["metadata"]["name"]: {} for each in owner["spec"].get("volumeClaimTemplates", ())}
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume and volume["persistentVolumeClaim"]["claimName"] not in claims:
                yield f"{name}: there is no claim {volume['persistentVolumeClaim']['claimName']}"
            for kind, wanted, keys, optional in _sources_of_volume(volume):
                yield from (f"{name}: {problem}" for problem in _missing(objects, kind, wanted, keys, optional))
        used: set[str] = set()
        for container in containers(template):
            for mount in container.get("volumeMounts", ()):
                used.add(mount["name"])
                if mount["name"] not in volumes:
                    yield f"{name}: there is no volume {mount['name']}"
            for kind, wanted, keys in _sources_of_variables(container):
                yield from (f"{name}: {problem}" for problem in _missing(objects, kind, wanted, keys, False))
        for volume_name in volumes.keys() - used:
            yield f"{name}: nothing uses the volume {volume_name}"


def _sources_of_volume(volume: Object) -> Iterator[tuple[str, str, list[str], bool]]:
    for source in (volume, *volume.get("projected", {}).get("sources", ())):
        for field, kind in (("secret", "Secret"), ("configMap", "ConfigMap")):
            if source.get(field):
                named = source[field].get("secretName") or source[field]["name"]
                keys = [item["key"] for item in source[field].get("items", ())]
                yield kind, named, keys, source[field].get("optional", False)


def _sources_of_variables(container: Object) -> Iterator[tuple[str, str, list[str]]]:
    for source in container.get("envFrom", ()):
        kind, field = ("ConfigMap", "configMapRef") if "configMapRef" in source else ("Secret", "secretRef")
        yield kind, source[field]["name"], []
    for each in container.get("env", ()):
        for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
            if field in each.get("valueFrom", {}):
                reference = each["valueFrom"][field]
                yield kind, reference["name"], [reference["key"]]


def _missing(objects: Sequence[Object], kind: str, name: str, keys: Sequence[str], optional: bool) -> Iterator[str]:
    if kind == "Secret":
        known = ALL_SECRETS.get(name)
    else:
        found = data_of(objects, "ConfigMap", name)
        known = None if found is None else list(found)
    if known is None:
        if not optional:
            yield f"there is no {kind} {name}"
        return
    yield from (f"the {kind} {name} has no key {key}" for key in keys if key not in known)


def find_rollout_problems(objects: Sequence[Object]) -> Iterator[str]:
    """A pod that waits for a volume of another node cannot be waited for; all others are ready before old ones end."""
    with_volume = {
        show(owner)
        for owner, template in templates(objects)
        if any("persistentVolumeClaim" in volume for volume in template["spec"].get("volumes", ()))
    }
    for each in of_kind(objects, "Deployment"):
        rolling = each["spec"].get("strategy", {}).get("rollingUpdate", {"maxSurge": "25%", "maxUnavailable": "25%"})
        if show(each) in with_volume:
            if rolling != {"maxSurge": 0, "maxUnavailable": 1}:
                yield f"{show(each)}: a rollout could wait for its volume for ever"
        elif rolling != {"maxSurge": 1, "maxUnavailable": 0} and each["metadata"]["name"] != "shell":
            yield f"{show(each)}: a rollout takes a pod away before another one is ready"


def find_expansion_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Kubernetes puts in the values of variables that are known, before or in a ConfigMap; others stay as they are."""
    for owner, template in templates(objects):
        for container in containers(template):
            known = {
                name
                for source in container.get("envFrom", ())
                for name in (
                    data_of(objects, "ConfigMap", source["configMapRef"]["name"]) or {}
                    if "configMapRef" in source
                    else ALL_SECRETS[source["secretRef"]["name"]]
                )
            }
            for each in container.get("env", ()):
                for name in re.findall(r"\$\((\w+)\)", each.get("value", "")):
                    if name not in known:
                        yield f"{show(owner)}: {each['name']} names {name}, which is not known there"
                known.add(each["name"])
            for word in (*container.get("command", ()), *container.get("args", ())):
                for name in re.findall(r"\$\((\w+)\)", word):
                    if name not in known:
                        yield f"{show(owner)}: its command names {name}, which is not known"


def find_copy_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Local copies are in a folder of their own below a volume: any user may write to the mount point itself."""
    for owner, template in templates(objects):
        volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", ())}
        for container in containers(template):
            executor = container["name"] == "executor"
            if not executor and container.get("command", [])[2:4] not in _WITH_COPIES:
                continue
            folder = own_variables(objects, container, ALL_SECRETS).get("LAKELOG_CACHE_DIR")
            if folder is None:
                yield f"{show(owner)}: its local copies are in the folder for temporary files"
                continue
            mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container.get("volumeMounts", ())}
            if folder in mounted:
                yield f"{show(owner)}: its local copies are at the mount point {folder}, which others may write to"
            elif "emptyDir" not in mounted.get(folder.rpartition("/")[0], {}):
                yield f"{show(owner)}: its local copies, {folder}, are in no volume of the pod"


def find_scaler_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Targets of autoscalers exist, have no number of replicas of their own, and one scaler each."""
    targets: list[str] = []
    deployments = {each["metadata"]["name"]: each for each in of_kind(objects, "Deployment")}
    for scaler in of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject"):
        name = scaler["spec"]["scaleTargetRef"]["name"]
        if name not in deployments:
            yield f"{show(scaler)}: there is no Deployment {name}"
        elif "replicas" in deployments[name]["spec"]:
            yield f"{show(scaler)}: `kubectl apply` would undo what it decides"
        if name in targets:
            yield f"{show(scaler)}: {name} has two scalers"
        targets.append(name)


def find_right_problems(objects: Sequence[Object]) -> Iterator[str]:
    """Each binding names a role and an account that exist; no role has more than it says, none a wildcard."""
    roles = {each["metadata"]["name"]: each for each in of_kind(objects, "Role")}
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    if of_kind(objects, "ClusterRole", "ClusterRoleBinding"):
        yield "there are rights beyond the namespace"
    for binding in of_kind(objects, "RoleBinding"):
        if binding["roleRef"]["name"] not in roles:
            yield f"{show(binding)}: there is no role {binding['roleRef']['name']}"
        for subject in binding["subjects"]:
            if subject["name"] not in accounts:
                yield f"{show(binding)}: there is no account {subject['name']}"
    for role in roles.values():
        for rule in role["rules"]:
            if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]):
                yield f"{show(role)}: it may do everything"
            reads = {"get", "list", "watch"} & set(rule["verbs"])
            if "secrets" in rule["resources"] and reads and not rule.get("resourceNames"):
                yield f"{show(role)}: it may read all Secrets"


def expressions(objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    """Where metrics are named, and the expression: scalers, alerts and dashboards."""
    for scaler in of_kind(objects, "ScaledObject"):
        for trigger in scaler["spec"]["triggers"]:
            if trigger["type"] == "prometheus":
                yield show(scaler), trigger["metadata"]["query"]
    for rules in of_kind(objects, "PrometheusRule"):
        for group in rules["spec"]["groups"]:
            for rule in group["rules"]:
                yield rule["alert"], rule["expr"]
    for each in of_kind(objects, "ConfigMap"):
        if "grafana_dashboard" in labels(each):
            for text in each["data"].values():
                for panel in json.loads(text)["panels"]:
                    for target in panel.get("targets", ()):
                        yield f"panel {panel['title']}", target["expr"]


LABELS_OF_ALL = frozenset({"le", "instance"})
"""Labels of histograms, and those that Prometheus adds to whatever it scrapes."""


def find_metric_problems(objects: Sequence[Object], samples: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Every metric that is named exists, with the labels that are named.

    Args:
        objects: The manifests.
        samples: The names of samples, as Prometheus has them, with their labels.
    """
    for where, expression in expressions(objects):
        for name in re.findall(r"\blakelog_[a-z0-9_]+", expression):
            if name not in samples:
                yield f"{where}: nothing measures {name}"
        known = set().union(*(samples.get(name, frozenset()) for name in re.findall(r"lakelog_[a-z0-9_]+", expression)))
        named = set(re.findall(r"[{,]\s*([a-z_]+)\s*=", expression))
        for group in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", expression):
            named |= {label.strip() for label in group.split(",")}
        for label in named - known - LABELS_OF_ALL:
            yield f"{where}: no metric of it has the label {label}"


def find_setting_problems(
    objects: Sequence[Object], declared: Mapping[str, frozenset[str]], platform: frozenset[str]
) -> Iterator[str]:
    """Every variable of a service's container is a setting of that service.

    Args:
        objects: The manifests.
        declared: The variables of each module of `python -m`, by the words after it, as `metastore serve`.
        platform: Variables that belong to Kubernetes, Java or Spark.
    """
    for owner, template in templates(objects):
        for container in containers(template):
            command = container.get("command", [])
            if not container["image"].startswith("lakelog/") or command[:2] != ["python", "-m"]:
                continue
            service = " ".join(command[2:4])
            if service not in declared:
                yield f"{show(owner)}: there is no service {service}"
                continue
            variables = own_variables(objects, container, ALL_SECRETS)
            for name in variables.keys() - declared[service] - platform:
                yield f"{show(owner)}, {container['name']}: {name} is no setting of {service}"
