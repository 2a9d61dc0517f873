"""Writes what is installed in a Python environment as a CycloneDX document: `python sbom.py NAME VERSION FILE`.

Build after build of the same lock it is the same, byte for byte.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import uuid
from pathlib import Path


def describe(name: str, version: str, packages: list[importlib.metadata.Distribution]) -> dict[str, object]:
    """The document of an image with some packages. Pure."""
    components = sorted(map(_to_component, packages), key=lambda each: str(each["purl"]))
    # Names the content, so that it is no other in the next build.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([name, version, components], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": f"{name}@{version}", "name": name, "version": version}
        },
        "components": components,
    }


def _to_component(package: importlib.metadata.Distribution) -> dict[str, object]:
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    purl = f"pkg:pypi/{name}@{package.version}"
    found: dict[str, object] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": package.version,
        "purl": purl,
    }
    if "License-Expression" in package.metadata:
        found["licenses"] = [{"expression": package.metadata["License-Expression"]}]
    return found


def main() -> int:
    """Describes the environment of the Python that runs this."""
    name, version, file = sys.argv[1:]
    document = describe(name, version, list(importlib.metadata.distributions()))
    Path(file).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
