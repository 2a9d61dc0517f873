"""Which topics and secrets owners may name."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidArgument, PermissionDenied
from metastore.config import ServeConfig, parse_command
from metastore.logs.owner_rules import NEEDS_ADMIN, OwnerRules, read_patterns
from metastore.server.startup import StartupFailure

TOPIC, SECRET = "kafka.topic", "kafka.sasl.password"


def may(rules: OwnerRules, database: str = "shop", **options: str) -> bool:
    try:
        rules.check({key.replace("_", "."): value for key, value in options.items()}, database)
    except PermissionDenied:
        return False
    return True


def test_by_default_nothing_may_be_named() -> None:
    assert may(OwnerRules(), log_system="kafka", bucket="4")
    assert not may(OwnerRules(), kafka_topic="orders")
    assert not may(OwnerRules(), kafka_sasl_password="secret:team")
    # Also in an option that is not known yet.
    assert not may(OwnerRules(), some_option="secret:team")


@pytest.mark.parametrize(
    ("patterns", "allowed", "refused"),
    [
        ("{database}.*", ["shop.a", "shop."], ["shop", "shop2.a", "a.shop.b", "other.a", "shopx"]),
        ("cdc.{database}", ["cdc.shop"], ["cdc.shop.a", "cdc.shop2", "cdc"]),
        ("{database}-*,public.*", ["shop-a", "public.x"], ["other-a", "publicx"]),
        ("orders", ["orders"], ["orders2", "order"]),
        ("*", ["anything"], []),
    ],
)
def test_patterns(patterns: str, allowed: list[str], refused: list[str]) -> None:
    read = read_patterns(patterns, "owner-topics")
    for names, is_allowed in ((allowed, True), (refused, False)):
        for name in names:
            assert may(OwnerRules(topics=read), kafka_topic=name) is is_allowed, name
            assert may(OwnerRules(secrets=read), kafka_sasl_password=f"secret:{name}") is is_allowed, name
            # Rules for topics are none for secrets, and the other way round.
            assert not may(OwnerRules(secrets=read), kafka_topic=name)
            assert not may(OwnerRules(topics=read), kafka_sasl_password=f"secret:{name}")
            assert may(OwnerRules(("*",), ("*",)), kafka_topic=name)


OF_ADMIN = {
    "kafka.security.protocol": "sasl_ssl",
    "kafka.ssl.ca.pem": "secret:ca",
    SECRET: "secret:root",
    "bucket": "4",
}


@pytest.mark.parametrize(
    ("set_options", "unset_options", "refused"),
    [
        ({"kafka.security.protocol": "sasl_plaintext"}, [], "kafka.security.protocol"),
        ({}, ["kafka.security.protocol"], "kafka.security.protocol"),
        ({"kafka.sasl.mechanism": "plain"}, [], "kafka.sasl.mechanism"),
        ({"kafka.sasl.username": "other"}, [], "kafka.sasl.username"),
        # Without it the machine's certificates are trusted.
        ({}, ["kafka.ssl.ca.pem"], "kafka.ssl.ca.pem"),
        # The controls: nothing changes, other options, and no secret stays.
        ({"kafka.security.protocol": "sasl_ssl"}, [], None),
        ({"kafka.linger.ms": "5", "bucket": "8"}, [], None),
        ({}, ["kafka.sasl.username"], None),
        ({"kafka.security.protocol": "plaintext"}, [SECRET, "kafka.ssl.ca.pem"], None),
    ],
)
def test_owners_do_not_weaken_the_way_of_a_secret_that_they_may_not_name(
    set_options: dict[str, str], unset_options: list[str], refused: str | None
) -> None:
    for rules in (OwnerRules(), OwnerRules(secrets=("{database}.*",))):
        if refused is None:
            rules.check_change(OF_ADMIN, set_options, unset_options, "shop")
            continue
        with pytest.raises(PermissionDenied, match="ask an admin to change it") as caught:
            rules.check_change(OF_ADMIN, set_options, unset_options, "shop")
        assert caught.value.reason == NEEDS_ADMIN
        assert caught.value.metadata["option"] == refused
    # The control: an owner who may name the secrets decides about them.
    OwnerRules(secrets=("root", "ca")).check_change(OF_ADMIN, set_options, unset_options, "shop")


def test_what_owners_set_is_judged_also_in_a_change() -> None:
    with pytest.raises(PermissionDenied, match="may not name the secret 'x'"):
        OwnerRules().check_change({}, {SECRET: "secret:x"}, [], "shop")


def test_a_refusal_names_option_and_remedy() -> None:
    with pytest.raises(PermissionDenied) as caught:
        OwnerRules(topics=("{database}.*",)).check({TOPIC: "payments"}, "shop")
    assert caught.value.reason == "OPTION_NEEDS_ADMIN"
    assert "topic 'payments' ('kafka.topic'): name one of shop.*, or ask an admin" in caught.value.message
    with pytest.raises(PermissionDenied, match=r"leave it out, or ask an admin.*--owner-secrets"):
        OwnerRules().check({SECRET: "secret:x"}, "shop")


@pytest.mark.parametrize("pattern", ["*a", "a*b", "{database}*", "{database}x", "{database}_a", "x y", "{other}", "a?"])
def test_patterns_that_could_stand_for_other_databases_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="--owner-topics has the pattern"):
        read_patterns(pattern, "owner-topics")


def test_the_settings() -> None:
    given = ["serve", "--database-url", "postgresql://h/d", "--warehouse", "/w", "--insecure-dev"]
    config = parse_command(given, {}).config
    assert isinstance(config, ServeConfig)
    assert (config.owner_topics, config.owner_secrets) == ((), ())
    config = parse_command(given, {"LAKELOG_OWNER_TOPICS": "{database}.*, cdc", "LAKELOG_OWNER_SECRETS": "a"}).config
    assert isinstance(config, ServeConfig)
    assert (config.owner_topics, config.owner_secrets) == (("{database}.*", "cdc"), ("a",))
    with pytest.raises(StartupFailure, match="--owner-secrets has the pattern"):
        parse_command([*given, "--owner-secrets", "*x"], {})
