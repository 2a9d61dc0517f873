"""Makes messages from values, and refuses incomplete messages: what all translations here share.

A translation is called `to_proto_*` or `from_proto_*`, is pure, and loses nothing: for every value v of
`lakelog.format`, `from_proto(to_proto(v)) == v`. Both directions raise only `InvalidArgument`, naming the field.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from lakelog.errors import InvalidArgument

M = TypeVar("M", bound=Message)

_SHOWN_CHARACTERS = 100
# All integers of our messages are signed.
_BITS: Final = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}


def build(message_type: type[M], **fields: Any) -> M:
    """Makes a message; the error names the field whose value does not fit its wire type.

    Raises:
        InvalidArgument: A number is out of range, text is not valid Unicode, or a value has the wrong type.
    """
    try:
        return message_type(**fields)
    except (TypeError, ValueError) as error:
        _refuse_fields(message_type, fields, error)


def _refuse_fields(message_type: type[Message], fields: dict[str, Any], error: Exception) -> NoReturn:
    # Protobuf says what is wrong but not where. So this error path tries the fields one by one.
    for name, value in fields.items():
        try:
            message_type(**{name: value})
        except (TypeError, ValueError) as cause:
            shown = ascii(value)[:_SHOWN_CHARACTERS]
            problem = _what_fits(message_type.DESCRIPTOR.fields_by_name[name], value) or str(cause)
            raise InvalidArgument(f"{name} cannot be {shown}. {problem}.", metadata={"field": name}) from error
    raise InvalidArgument(f"{message_type.DESCRIPTOR.name} cannot be made: {error}.") from error


def _what_fits(field: Any, value: Any) -> str | None:
    """What a field accepts, if that explains why it refuses the value."""
    if isinstance(value, str):
        return "Leave out surrogates without their partner: they are no characters"
    bits = _BITS.get(field.cpp_type)
    if bits is not None:
        return f"Use whole numbers from {-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1}"
    return None


def parse(message_type: type[M], data: bytes) -> M:
    """Reads a message from its wire form.

    Raises:
        InvalidArgument: The bytes are not such a message.
    """
    message = message_type()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"{len(data)} bytes are not a {message_type.DESCRIPTOR.full_name}: {error}.") from error
    return message


def refusal(field: str, problem: str, remedy: str) -> InvalidArgument:
    """The error for a message that is refused because of one field.

    Args:
        field: Path of the field inside the request, for instance `changes[0].kind`.
        problem: What is wrong with it; the end of a sentence that begins with the field.
        remedy: What to send instead; a sentence without its full stop.
    """
    return InvalidArgument(f"{field} {problem}. {remedy}.", metadata={"field": field})
