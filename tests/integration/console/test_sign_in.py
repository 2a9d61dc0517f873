"""Who gets in: tokens in a cookie or in the header, and no way to be led elsewhere."""

from __future__ import annotations

import re

import pytest

from console.http import callers
from lakelog.client.connection.retry import RetryPolicy
from lakelog.testing.proxy import TcpProxy
from tests.support.running_console import RunningConsole, running_console, token_of

FROM_HERE = {"Sec-Fetch-Site": "same-origin"}


def test_a_token_is_tried_and_kept_in_a_cookie(console: RunningConsole) -> None:
    answer = console.send("POST", "/sign-in?to=/jobs", body={"token": f" {token_of('root')} "}, headers=FROM_HERE)
    assert answer.status == 303
    assert answer.headers["location"] == "/jobs"
    (cookie,) = answer.cookies
    assert cookie.startswith(f"lakelog_token={token_of('root')};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert console.send("GET", "/jobs", cookie=token_of("root")).status == 200


def test_behind_a_proxy_that_ends_tls_the_cookie_is_for_https_alone(console: RunningConsole, target: str) -> None:
    with running_console(target, "--tls-by-proxy") as behind_proxy:
        answer = behind_proxy.send("POST", "/sign-in", body={"token": token_of("root")}, headers=FROM_HERE)
    assert "; Secure" in answer.cookies[0]
    assert answer.headers["strict-transport-security"].startswith("max-age=")
    plain = console.send("POST", "/sign-in", body={"token": token_of("root")}, headers=FROM_HERE)
    assert "Secure" not in plain.cookies[0], "a browser would not send it back"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("wrong-token-0123456789", "does not know this token"),
        ("", "Paste a token"),
        ("a token with spaces", "visible ASCII"),
        ("x" * 3801, "browsers keep 3800"),
        ("x" * 9000, "browsers keep 3800"),
    ],
)
def test_other_tokens_are_refused_and_not_shown(console: RunningConsole, token: str, words: str) -> None:
    answer = console.send("POST", "/sign-in", body={"token": token}, headers=FROM_HERE)
    assert answer.status == 401
    assert words in answer.text
    assert not answer.cookies
    assert not token or token not in answer.text


def test_pages_lead_to_the_sign_in_and_back(console: RunningConsole) -> None:
    for cookie in (None, "expired-token-0123456789"):
        answer = console.send("GET", "/jobs?kind=compact", cookie=cookie)
        assert (answer.status, answer.headers["location"]) == (303, "/sign-in?to=%2Fjobs%3Fkind%3Dcompact")
    for form in ("json", "csv"):
        assert console.send("GET", f"/jobs?as={form}&part=jobs", cookie="expired-token-0123456789").status == 401


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "evil", "/a\nb"]
)
def test_no_one_is_led_elsewhere(console: RunningConsole, to: str) -> None:
    from urllib.parse import quote

    answer = console.send(
        "POST", f"/sign-in?to={quote(to, safe='')}", body={"token": token_of("root")}, headers=FROM_HERE
    )
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_signing_out_takes_the_cookie_away(console: RunningConsole) -> None:
    answer = console.send("POST", "/sign-out", body={}, cookie=token_of("root"), headers=FROM_HERE)
    assert answer.status == 303
    assert 'lakelog_token=""' in answer.cookies[0]
    assert "Max-Age=0" in answer.cookies[0]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_of_another_page_leads_here_once_more_before_it_leads_to_the_sign_in(
    console: RunningConsole, site: str
) -> None:
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}
    path = "/tables/shop/orders?filter=%22%3E%3Cb%3E;'url=//evil"
    answer = console.send("GET", path, headers=followed)
    assert answer.status == 200
    (target,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]*)"', answer.text)
    assert target == path.replace("'", "&#39;")
    assert "shop" not in answer.text.replace(target, "")
    again = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
    assert console.send("GET", path, headers=again).headers["location"].startswith("/sign-in?to=")
    assert console.send("GET", path, cookie="expired-token-0123456789", headers=followed).status == 303
    for use in ("image", "iframe", "empty", "script"):
        for address in (path, "/query?sql=SELECT+1", "/live?page=/jobs"):
            fetched = console.get(address, headers={**followed, "Sec-Fetch-Dest": use})
            assert fetched.status == 403, "no other page runs statements or holds streams"


def test_over_https_no_sibling_can_sign_people_in_and_no_stranger_reads_the_metastores_address(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "_RETRIES", RetryPolicy(total_s=0.1))
    with TcpProxy(int(target.rpartition(":")[2])) as proxy, running_console(proxy.target, "--tls-by-proxy") as console:
        signed_in = console.send("POST", "/sign-in", body={"token": token_of("root")}, headers=FROM_HERE)
        (cookie,) = signed_in.cookies
        assert cookie.startswith(f"__Host-lakelog_token={token_of('root')};")
        assert "Secure" in cookie
        assert "Path=/;" in cookie
        assert "Domain" not in cookie
        kept = {"Cookie": f"__Host-lakelog_token={token_of('root')}"}
        assert console.send("GET", "/jobs", headers=kept).status == 200
        assert console.send("GET", "/jobs", cookie=token_of("root")).status == 303, "what a sibling has set"
        (gone,) = console.send("POST", "/sign-out", body={}, headers={**kept, **FROM_HERE}).cookies
        assert gone.startswith('__Host-lakelog_token="";')
        assert "Secure" in gone, "otherwise browsers ignore it"
        proxy.refuse()
        for path in ("/jobs", "/jobs?as=json", "/search?q=x"):
            away = console.send("GET", path, headers=kept)
            assert away.status == 503
            assert "lakelog doctor" in away.text
            assert "127.0.0.1" not in away.text
        statement = console.send("GET", "/query?sql=SELECT+id+FROM+shop.orders", headers=kept)
        assert "Run the statement again" in statement.text
        assert "127.0.0.1" not in statement.text
