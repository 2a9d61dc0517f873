"""Translates values whose fields match those of a message: a table of fields, made once from both types.

The table is complete by construction: it is made when its module is imported. That fails if a field of one side has no
counterpart, if only one side can be absent, or if a nested message has no translation. Messages that need more are
translated by hand.
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, TypeVar

from lakelog.rpc.messages import M, build, refusal

V = TypeVar("V")
E = TypeVar("E", bound=enum.Enum)
Translate = Callable[[Any], Any]


class Translation(Generic[V, M]):
    """A dataclass and the message that carries it. `to_proto` and `from_proto` are as in `lakelog.rpc.messages`.

    Scalars stay the same, repeated fields become tuples, maps become dicts, and an absent field becomes None.

    Args:
        value_type: The dataclass.
        message_type: The message.
        names: For fields with another name in the message: that name by the dataclass's.
        fields: For fields with their own translation (repeated fields: of each element): to the wire and back.
        apart: Fields that are not on the wire; `from_proto` takes them by name, or the dataclass has a default.

    Raises:
        TypeError: The two types do not match.
    """

    def __init__(
        self,
        value_type: type[V],
        message_type: type[M],
        *,
        names: Mapping[str, str] | None = None,
        fields: Mapping[str, tuple[Translate, Translate]] | None = None,
        apart: Sequence[str] = (),
    ) -> None:
        self._value_type = value_type
        self._message_type = message_type
        names, fields = names or {}, fields or {}
        known = [field.name for field in dataclasses.fields(typing.cast("Any", value_type)) if field.name not in apart]
        on_wire = message_type.DESCRIPTOR.fields_by_name
        if differing := {names.get(name, name) for name in known} ^ set(on_wire):
            raise TypeError(f"{value_type.__name__} and {message_type.__name__} differ in {sorted(differing)}.")
        hints = typing.get_type_hints(value_type)
        self._writers: list[tuple[str, Translate]] = []
        self._readers: list[tuple[str, Translate]] = []
        for name in known:
            field = on_wire[names.get(name, name)]
            can_be_none = NoneType in typing.get_args(hints[name])
            write, read = _translate_field(field, can_be_none, fields.get(name))
            self._writers.append((field.name, _of_attribute(name, write)))
            self._readers.append((name, _of_attribute(field.name, read, only_present=can_be_none)))

    def to_proto(self, value: V) -> M:
        """The message of a value."""
        return build(self._message_type, **{name: write(value) for name, write in self._writers})

    def from_proto(self, message: M, **apart: Any) -> V:
        """The value of a message; `apart` are the fields that are not on the wire."""
        return self._value_type(**{name: read(message) for name, read in self._readers}, **apart)

    @property
    def both(self) -> tuple[Callable[[V], M], Callable[[M], V]]:
        """Both directions, for `fields` of another translation."""
        return self.to_proto, self.from_proto


def translate_enum(
    numbers: Mapping[E, int], field: str, remedy: str, *, zero: str = "has the unknown value 0"
) -> tuple[Callable[[E], Any], Callable[..., E]]:
    """The translations of an enum to the wire and back.

    Args:
        numbers: The number of each member.
        field: The field for the error; `from_proto` takes another one as its second argument.
        remedy: What to send instead of an unknown number; a sentence without its full stop.
        zero: What is wrong with 0, if it is no member's number.

    Returns:
        `to_proto`, whose result fits the enum of the message; and `from_proto`, which raises InvalidArgument for a
            number that this version does not know.
    """
    members = {int(number): member for member, number in numbers.items()}

    def from_proto(number: int, field: str = field) -> E:
        member = members.get(number)
        if member is None:
            if number == 0:
                raise refusal(field, zero, remedy)
            # An answer of a newer metastore, or a request of a newer client.
            raise refusal(
                field,
                f"has the unknown value {number}",
                f"{remedy}; if a newer version of lakelog sent it, use that version on both sides",
            )
        return member

    return numbers.__getitem__, from_proto


def _translate_field(
    field: Any, can_be_none: bool, translate: tuple[Translate, Translate] | None
) -> tuple[Translate | None, Translate | None]:
    """The translations of a field's value to the wire and back; None: no translation."""
    is_message = field.message_type is not None
    if is_message and field.message_type.GetOptions().map_entry:
        return dict, dict
    if is_message and translate is None:
        raise TypeError(f"{field.full_name} is a message without a translation.")
    # Even a nested message that is always there has presence on the wire.
    if can_be_none != field.has_presence and not (is_message and field.has_presence):
        raise TypeError(f"Only one of {field.full_name} and the dataclass's field can be absent.")
    write, read = translate or (None, None)
    if field.is_repeated:
        return _each(write, list), _each(read, tuple)
    if write is not None and can_be_none:
        return (lambda value: None if value is None else write(value)), read
    return write, read


def _each(translate: Translate | None, collect: Translate) -> Translate:
    return collect if translate is None else lambda values: collect([translate(value) for value in values])


def _of_attribute(name: str, translate: Translate | None, *, only_present: bool = False) -> Translate:
    """A function from an object to the translation of one of its attributes."""
    get: Translate = attrgetter(name)
    change: Translate = get if translate is None else lambda value: translate(get(value))
    return (lambda message: change(message) if message.HasField(name) else None) if only_present else change
