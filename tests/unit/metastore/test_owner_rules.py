"""Which topics and secrets owners may name."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidArgument, PermissionDenied
from metastore.config import ServeConfig, parse_command
from metastore.logs.owner_rules import EVERYTHING, OwnerRules, read_patterns
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
            assert may(EVERYTHING, kafka_topic=name)


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
