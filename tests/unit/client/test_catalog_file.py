"""The file of catalogs: what it may say, what wins, and what bad input gets."""

from __future__ import annotations

import pickle
from pathlib import Path

import click
import pytest

from lakelog.cli.invocation import Invocation, LakelogCommand, shared_options
from lakelog.client.connection.catalog_file import MAX_FILE_BYTES, CatalogEntry, read_catalogs
from lakelog.client.connection.target import TlsFiles
from lakelog.client.connection.tokens import FileToken
from lakelog.config import read_connect_settings
from lakelog.errors import InvalidArgument, NotFound

CATALOGS = """
[sales]
target = "metastore.sales:7450"
token_file = "tokens/sales"
tls_ca = "/etc/ca.pem"

[web]
target = "metastore.web:7450"
reader = "reader.web:7460"
tls = true
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "catalogs.toml"
    path.write_text(CATALOGS)
    return {
        "LAKELOG_CATALOGS": str(path),
        "LAKELOG_TARGET": "elsewhere:7450",
        "LAKELOG_READER": "reader.elsewhere:7460",
        "LAKELOG_TOKEN": "secret",
    }


def test_an_entry_says_how_to_reach_a_catalog(environment: dict[str, str], tmp_path: Path) -> None:
    assert read_catalogs(environment["LAKELOG_CATALOGS"]) == {
        "sales": CatalogEntry("metastore.sales:7450", token_file=str(tmp_path / "tokens/sales"), tls_ca="/etc/ca.pem"),
        "web": CatalogEntry("metastore.web:7450", "reader.web:7460", tls=True),
    }
    sales = read_connect_settings(environment, catalog="sales")
    assert (sales.catalog, sales.target, sales.tls, sales.tls_ca) == (
        "sales",
        "metastore.sales:7450",
        True,
        "/etc/ca.pem",
    )
    assert sales.token == FileToken(str(tmp_path / "tokens/sales"))
    assert sales.reader == "", "the readers of another catalog cannot read this one"
    web = read_connect_settings(environment, catalog="web")
    assert (web.target, web.reader, web.tls, web.tls_ca) == ("metastore.web:7450", "reader.web:7460", True, None)
    assert web.token is None, "the token of another target is not sent there"


def test_the_token_of_the_environment_goes_where_the_environment_leads(tmp_path: Path) -> None:
    path = tmp_path / "catalogs.toml"
    path.write_text("[a]\ntarget='a:1'\n[b]\ntarget='b:1'\n[c]\ntarget='c:1'\ntoken='environment'\n")

    def tokens(**variables: str) -> list[object]:
        environment = {"LAKELOG_CATALOGS": str(path), **variables}
        return [read_connect_settings(environment, catalog=name).token for name in "abc"]

    assert tokens(LAKELOG_TOKEN="s") == [None, None, "s"]
    assert tokens(LAKELOG_TOKEN="s", LAKELOG_TARGET="b:1") == [None, "s", "s"]
    assert tokens(LAKELOG_TOKEN="s", LAKELOG_TARGET="b:1", LAKELOG_CATALOG="a") == ["s", None, "s"]
    assert tokens(LAKELOG_TOKEN_FILE="f", LAKELOG_CATALOG="b") == [None, FileToken("f"), FileToken("f")]


def test_what_wins(environment: dict[str, str]) -> None:
    named = environment | {"LAKELOG_CATALOG": "web"}
    assert read_connect_settings(environment).target == "elsewhere:7450"
    assert read_connect_settings(named).catalog == "web"
    assert read_connect_settings(named, catalog="sales").catalog == "sales"
    given = read_connect_settings(named, target="here:7450")
    assert (given.catalog, given.target, given.reader) == ("", "here:7450", "reader.elsewhere:7460")
    argument = read_connect_settings(environment, catalog="sales", token="mine", reader="", tls_ca="/my.pem")
    assert (argument.token, argument.reader, argument.tls_ca) == ("mine", "", "/my.pem")
    with pytest.raises(InvalidArgument, match="'here:7450' and the catalog 'web' are both given: leave one out"):
        read_connect_settings(environment, target="here:7450", catalog="web")


def test_the_command_takes_a_catalog_in_place_of_a_target(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    by_name = Invocation(target="elsewhere:7450", catalog_name="web", catalog_given=True)
    assert (by_name.address, by_name.tls is None) == ("metastore.web:7450", False)
    assert Invocation(catalog_name="web").address == "metastore.web:7450"
    assert Invocation(target="here:7450", target_given=True, catalog_name="web").address == "here:7450"
    both = Invocation(target="here:7450", target_given=True, catalog_name="web", catalog_given=True)
    with pytest.raises(InvalidArgument, match="leave one out"):
        _ = both.address


def test_the_command_sends_the_token_of_the_entry_and_not_of_the_environment(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("CA", "CERT", "KEY"):
        monkeypatch.setenv(f"LAKELOG_TLS_{name}", f"/own/{name}.pem")

    def call(*arguments: str) -> Invocation:
        found = Invocation()
        command = click.Group("lakelog", params=list(shared_options(hidden=False)))
        command.add_command(LakelogCommand("look", callback=lambda: None))
        command.main([*arguments, "look"], standalone_mode=False, obj=found)
        return found

    entry = call("--catalog", "sales")
    assert entry.sign_in == FileToken(str(tmp_path / "tokens/sales"))
    assert entry.tls == TlsFiles("/etc/ca.pem", None, None)
    # Control: without a catalog the environment counts, and the command line wins over both.
    own = call()
    assert (own.sign_in, own.tls) == ("secret", TlsFiles("/own/CA.pem", "/own/CERT.pem", "/own/KEY.pem"))
    given = call("--catalog", "sales", "--token", "mine", "--tls-ca", "/my.pem")
    assert (given.sign_in, given.tls) == ("mine", TlsFiles("/my.pem", None, None))


def test_an_unknown_catalog_is_refused_with_those_that_are_known(environment: dict[str, str]) -> None:
    with pytest.raises(NotFound, match=r"no catalog 'shop' in /.*catalogs\.toml\. It has: sales, web\. ") as refused:
        read_connect_settings(environment, catalog="shop")
    assert refused.value.reason == "CATALOG_NOT_FOUND"
    with pytest.raises(InvalidArgument, match="'shop' is not known: LAKELOG_CATALOGS names no file of catalogs"):
        read_connect_settings({}, catalog="shop")
    with pytest.raises(InvalidArgument, match="catalog is 7: give it as text, 'sales'"):
        read_connect_settings(environment, catalog=7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[sales", "it is no TOML"),
        (b"\xff", "it is no TOML"),
        ("sales = 'host:7450'", r"'sales' stands outside of a table. Write \[sales\]"),
        ("[sales]", r"\[sales\] has no target. Write target = \"host:port\""),
        ("[sales]\ntarget = 7450", r"target of \[sales\] must be text in quotes"),
        ("[sales]\ntarget = 'a:1'\ntls = 'yes'", r"tls of \[sales\] must be true or false"),
        ("[sales]\ntarget = 'a:1'\ntoken = 's3cret'", r"token of \[sales\] can only be \"environment\", [^3]*$"),
        (
            "[sales]\ntarget = 'a:1'\ntoken = 'environment'\ntoken_file = 'f'",
            r"\[sales\] has both token and token_file: leave one out",
        ),
        ("[sales]\naddress = 'a:1'", r"\[sales\] has the unknown key 'address'. Known are target, reader"),
        ("['sa-les']\ntarget = 'a:1'", "'sa-les' is no name of a catalog: use letters"),
        ("#" * (MAX_FILE_BYTES + 1), "it has more than 1000000 bytes"),
        ("\n".join(f"[c{n}]" for n in range(1001)), "it has 1001 catalogs, and 1000 is the limit"),
    ],
)
def test_a_file_that_cannot_be_used(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "catalogs.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidArgument, match=rf"The file of catalogs {path} cannot be used: {message}"):
        read_catalogs(str(path))


def test_a_file_that_is_not_there_is_refused_with_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "nix.toml"
    with pytest.raises(InvalidArgument, match=rf"{path} cannot be read: No such file .* LAKELOG_CATALOGS names it"):
        read_catalogs(str(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("token_file = 'nix'", r"/nix cannot be read: No such file or directory \(token_file of "),
        ("tls_ca = 'nix'", r"tls\.ca=/.*/nix cannot be read: No such file or directory \("),
        ("tls_cert = 'nix'", r"certificate and key only one is given \("),
        ("reader = 'nix'", ""),
    ],
)
def test_errors_of_what_an_entry_names_say_which_entry(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "catalogs.toml"
    path.write_text(f"[web]\ntarget = 'web:7450'\n{line}\n")

    def use_entry() -> None:
        settings = read_connect_settings({"LAKELOG_CATALOGS": str(path)}, catalog="web")
        if isinstance(settings.token, FileToken):
            pickle.loads(pickle.dumps(settings.token)).current()
        if settings.tls_files is not None:
            settings.tls_files.load_credentials()

    with pytest.raises(InvalidArgument, match=rf"{message}\[web\] of the file {path}"):
        use_entry()


def test_an_empty_name_is_refused_by_its_field(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="catalog='' names no catalog") as refused:
        read_connect_settings(environment, catalog="")
    assert refused.value.metadata["field"] == "catalog"
