"""The variables of a container, and the fields of a pod that they can name."""

from __future__ import annotations

import base64
import re
from typing import Final

from dev.kube.api import NOT_FOUND, Api, ApiException, Object
from dev.kube.network import API_SERVICE

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def field_of(pod: Object, path: str) -> str:
    """The text of a field that the downward API knows; raises LookupError for others."""
    found = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if found:
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return str(pod["metadata"][path.partition(".")[2]])
    if path in ("spec.nodeName", "spec.serviceAccountName"):
        return str(pod["spec"][path.partition(".")[2]])
    if path in ("status.podIP", "status.podIPs"):
        return str(pod["status"]["podIP"])
    if path in ("status.hostIP", "status.hostIPs"):
        return str(pod["status"]["hostIP"])
    raise LookupError(f"the downward API has no field {path}")


def expand(text: str, known: dict[str, str]) -> str:
    """Replaces `$(NAME)` where the name is known, and `$$` by `$`."""
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else known.get(m[1], m[0]), text)


def make_environment(api: Api, pod: Object, container: Object) -> dict[str, str]:
    """All variables that a pod gives to a container; raises LookupError if a source is missing."""
    namespace = pod["metadata"]["namespace"]
    made = {"KUBERNETES_SERVICE_HOST": API_SERVICE, "KUBERNETES_SERVICE_PORT": "443"}
    made |= {"HOSTNAME": pod["metadata"]["name"]}
    for source in container.get("envFrom", []):
        kind = "configMap" if "configMapRef" in source else "secret"
        reference = source[f"{kind}Ref"]
        data = _read(api, namespace, kind, reference["name"], reference.get("optional", False))
        made |= {source.get("prefix", "") + key: text for key, text in data.items()}
    for variable in container.get("env", []):
        origin = variable.get("valueFrom")
        if origin is None:
            made[variable["name"]] = expand(variable.get("value", ""), made)
        else:
            text = _resolve(api, pod, container, origin)
            if text is not None:
                made[variable["name"]] = text
    return made


def _resolve(api: Api, pod: Object, container: Object, origin: Object) -> str | None:
    if "fieldRef" in origin:
        return field_of(pod, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        kind, _, name = origin["resourceFieldRef"]["resource"].partition(".")
        divisor = _quantity(origin["resourceFieldRef"].get("divisor", "1"))
        return str(int(-(-_quantity(str(container["resources"][kind][name])) // (divisor or 1))))
    kind = "configMap" if "configMapKeyRef" in origin else "secret"
    reference = origin[f"{kind}KeyRef"]
    optional = reference.get("optional", False)
    data = _read(api, pod["metadata"]["namespace"], kind, reference["name"], optional)
    if reference["key"] not in data:
        if optional:
            return None
        raise LookupError(f"couldn't find key {reference['key']} in {kind} {reference['name']}")
    return data[reference["key"]]


def _read(api: Api, namespace: str, kind: str, name: str, optional: bool) -> dict[str, str]:
    try:
        data = api.get(f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{name}").get("data", {})
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
        if optional:
            return {}
        raise LookupError(f'{kind.lower()} "{name}" not found') from None
    return {key: base64.b64decode(text).decode() if kind == "secret" else text for key, text in data.items()}


_UNITS: Final = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _quantity(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()  # type: ignore[union-attr]  # The server has checked it.
    return float(number) * _UNITS[unit]
