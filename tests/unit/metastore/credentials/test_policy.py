"""The policy of vended keys, and signatures compared with the examples that Amazon has published."""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.credentials import find_table_uuid, make_location
from lakelog.format.tables.paths import MAX_LOCATION_BYTES
from metastore.credentials.policy import find_partition, make_policy
from metastore.credentials.signing import SigningKeys, sign_request

UUID = "0123456789abcdef" * 2
LOCATION = f"s3://lake/warehouse/{UUID}/"
EXAMPLE = SigningKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def allows(policy: str, action: str, resource: str, **context: str) -> bool:
    """Whether a policy allows a request: the rules for what is used here, written for this test."""

    def matches(statement: dict[str, Any]) -> bool:
        conditions = statement.get("Condition", {}).get("StringLike", {})
        return (
            statement["Effect"] == "Allow"
            and action in statement["Action"]
            and any(fnmatch.fnmatchcase(resource, each) for each in statement["Resource"])
            and all(
                key in context and any(fnmatch.fnmatchcase(context[key], each) for each in values)
                for key, values in conditions.items()
            )
        )

    return any(matches(statement) for statement in json.loads(policy)["Statement"])


@pytest.mark.parametrize("writes", [False, True])
def test_a_policy_allows_the_table_and_nothing_else(writes: bool) -> None:
    policy = make_policy("aws", LOCATION, writes=writes)
    own, bucket = f"arn:aws:s3:::lake/warehouse/{UUID}/data/a/0.parquet", "arn:aws:s3:::lake"
    others = [
        f"arn:aws:s3:::lake/warehouse/{UUID[:-1]}0/data/a/0.parquet",
        f"arn:aws:s3:::lake/warehouse/{UUID}",
        f"arn:aws:s3:::lake/warehouse/{UUID}x/data/a/0.parquet",
        f"arn:aws:s3:::lake/{UUID}/data/a/0.parquet",
        f"arn:aws:s3:::other/warehouse/{UUID}/data/a/0.parquet",
        f"arn:aws-cn:s3:::lake/warehouse/{UUID}/data/a/0.parquet",
    ]
    assert allows(policy, "s3:GetObject", own)
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"):
        assert allows(policy, action, own) is writes, action
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert not any(allows(policy, action, other) for other in others), action
    for action in ("s3:PutObjectAcl", "s3:DeleteBucket", "s3:PutBucketPolicy", "s3:GetObjectVersion", "sts:AssumeRole"):
        assert not allows(policy, action, own), action
        assert not allows(policy, action, bucket), action
    assert allows(policy, "s3:ListBucket", bucket, **{"s3:prefix": f"warehouse/{UUID}/data/"})
    assert not allows(policy, "s3:ListBucket", bucket)
    for prefix in ("", "warehouse/", f"warehouse/{UUID}", f"warehouse/{UUID[:-1]}0/"):
        assert not allows(policy, "s3:ListBucket", bucket, **{"s3:prefix": prefix}), prefix


def test_the_longest_policy_has_room_in_amazons_bound() -> None:
    location = f"s3://{'b' * 63}/{'w' * (MAX_LOCATION_BYTES - 34)}/{UUID}/"
    assert len(make_policy("aws-iso-b", location, writes=True)) < 1100


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/",
        "s3://lake",
        f"file:///warehouse/{UUID}/",
        f"s3://lake/a*/{UUID}/",
        f"s3://lake/a?/{UUID}/",
        f"s3://lake/a$b/{UUID}/",
        f"s3://lake/${{aws:username}}/{UUID}/",
        f"s3://lake/a//{UUID}/",
        f"s3://lake/../{UUID}/",
        f"s3://lake/ä/{UUID}/",
        f"s3://la*e/a/{UUID}/",
        f"s3://key:secret@lake/a/{UUID}/",
        f"s3://lake/a/{UUID}/?endpoint=http://x",
    ],
)
def test_a_location_that_would_be_a_wildcard_is_refused(location: str) -> None:
    with pytest.raises(InvalidArgument, match="No keys can be vended for the location"):
        make_policy("aws", location, writes=False)


@pytest.mark.parametrize(
    ("role", "partition"),
    [
        ("arn:aws:iam::123456789012:role/tables", "aws"),
        ("arn:aws-cn:iam::123456789012:role/a/b", "aws-cn"),
        ("arn:aws:iam::role/tables", "aws"),
        ("arn:aws:iam:::role/tables", "aws"),
    ],
)
def test_roles(role: str, partition: str) -> None:
    assert find_partition(role) == partition


@pytest.mark.parametrize(
    "role", ["", "tables", "arn:aws:iam::1:user/x", "arn:aws:iam::1:role/x y", 'arn:a":iam::role/x']
)
def test_what_is_no_role_is_refused(role: str) -> None:
    with pytest.raises(InvalidArgument, match="is not the ARN of a role"):
        find_partition(role)


def test_the_table_of_a_location() -> None:
    assert find_table_uuid(make_location("s3://lake/warehouse", UUID)) == UUID
    assert find_table_uuid(f"{LOCATION}?endpoint=http://127.0.0.1:1") == UUID
    for location in (f"file:///warehouse/{UUID}/", "s3://lake/warehouse/", f"s3://lake/{UUID}x/", f"s3://{UUID}/"):
        assert find_table_uuid(location) is None, location


@pytest.mark.parametrize(
    ("headers", "body", "token", "signed", "signature"),
    [
        # post-vanilla, post-x-www-form-urlencoded, post-sts-header-before
        ({}, b"", None, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            {"Content-Type": "application/x-www-form-urlencoded"},
            b"Param1=value1",
            None,
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            {},
            b"",
            "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8Y"
            "UuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6f"
            "E8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQw"
            "j2ICCR/oLxBA==",
            "host;x-amz-date;x-amz-security-token",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
    ],
)
def test_signatures_are_those_of_amazons_examples(
    headers: dict[str, str], body: bytes, token: str | None, signed: str, signature: str
) -> None:
    keys = SigningKeys(EXAMPLE.access_key_id, EXAMPLE.secret_access_key, token)
    made = sign_request(
        keys,
        host="example.amazonaws.com",
        headers=headers,
        body=body,
        region="us-east-1",
        service="service",
        now=dt.datetime(2015, 8, 30, 12, 36, tzinfo=dt.UTC),
    )
    assert made["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders={signed}, Signature={signature}"
    )
    assert "wJalr" not in repr(keys) + repr(made)
