"""The console on a real control plane: reached by its service over TLS with a token, and replaced while it is read."""

from __future__ import annotations

import json
import textwrap

import pytest

from dev.kube.lab import Cluster
from tests.support.clusters import wait_until_ready

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]

COMPONENT = "app.kubernetes.io/component"
READ = textwrap.dedent(
    """
    import json, os, ssl, sys, urllib.error, urllib.request

    trust = ssl.create_default_context(cafile=os.environ["LAKELOG_TLS_CA"])
    answers = []
    for address, is_signed_in in json.loads(sys.argv[1]):
        token = open(os.environ["LAKELOG_TOKEN_FILE"]).read().strip()
        headers = {"authorization": f"Bearer {token}"} if is_signed_in else {}
        request = urllib.request.Request(f"https://console:7480{address}", headers=headers)
        try:
            with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
                answers.append([answer.status, answer.url, answer.read().decode()])
        except urllib.error.HTTPError as error:
            answers.append([error.code, error.url, error.read().decode()])
    print(json.dumps(answers))
    """
)


def _read(cluster: Cluster, *addresses: tuple[str, bool]) -> list[tuple[int, str, str]]:
    """Status, last address and text of each page, as the pod of the shell sees them."""
    (shell,) = cluster.get("pods", "-n", "lakelog", "-l", f"{COMPONENT}=shell")["items"]
    output = cluster.execute(shell["metadata"]["name"], "shell", ["python", "-c", READ, json.dumps(addresses)])
    return [tuple(answer) for answer in json.loads(output.splitlines()[-1])]


def test_its_pages_ask_for_a_token_and_show_the_services(cluster: Cluster) -> None:
    (_, address, sign_in), (status, _, overview), (missing, _, _) = _read(
        cluster, ("/", False), ("/", True), ("/tables/no_such", True)
    )
    assert "/sign-in" in address
    assert 'type="password"' in sign_in
    assert status == 200
    assert all(service in overview for service in ("metastore", "compactor", "publisher"))
    assert missing == 404


def test_it_is_scaled_and_replaced_while_it_is_read(cluster: Cluster) -> None:
    def all_answer() -> bool:
        return [status for status, _, _ in _read(cluster, *[("/", True)] * 10)] == [200] * 10

    cluster.kubectl("scale", "deployment/console", "--replicas=2", "-n", "lakelog")
    wait_until_ready(cluster)
    assert all_answer()
    cluster.kubectl("rollout", "restart", "deployment/console", "-n", "lakelog")
    while "successfully rolled out" not in cluster.kubectl(
        "rollout", "status", "deployment/console", "-n", "lakelog", "--watch=false"
    ):
        assert all_answer()
    assert all_answer()
    cluster.kubectl("scale", "deployment/console", "--replicas=1", "-n", "lakelog")
    wait_until_ready(cluster)
