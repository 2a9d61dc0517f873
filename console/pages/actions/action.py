"""The way of every action: a page that says what will happen, then a form that does it.

1. Only a caller that may is asked: the metastore decides, and refuses again when the form is sent.
2. The page has the state that it saw in hidden fields, so a form is refused if that has changed since, or if another
   table has the name by then.
3. An error comes back to the form, with the values that were typed.
4. If the answer to an action is lost, the page says that its outcome is not known, and has no button to repeat it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import Effect, InvalidArgument, LakelogError, PermissionDenied
from lakelog.health.problem import say_remedy
from lakelog.privacy.redaction import blot_out

from ..page import FORM_TOKEN, Page, PageRequest, Redirect

CONFIRMED_NAME = "confirmed_name"
"""The field with the table's name, which has to be typed."""

_TARGET_ID = "target_id"
"""The hidden field that says which table the page was about: by its name it can be another one by now."""

_Target = TypeVar("_Target")


@dataclass(frozen=True)
class Field:
    """A field of a form.

    Args:
        name: Its name in the form and in the address.
        label: What people read.
        value: What it has at first, or had when the form was sent.
        hint: What may be typed.
        is_flag: It is a check box.
    """

    name: str
    label: str
    value: str = ""
    hint: str = ""
    is_flag: bool = False


@dataclass(frozen=True)
class Question:
    """What the page of an action says before it is done.

    Args:
        sentences: What will happen.
        command: The words of the command line that does the same, after `lakelog`.
        fields: What can be typed.
        hidden: The state that the page saw, and what the action is about.
        parts: Facts and listings that help to decide.
        typed_name: The name that has to be typed; empty: none.
        is_dangerous: Readers or users notice it at once.
        command_names: The last words of the command line, which others named, such as a consumer.
    """

    sentences: Sequence[str]
    command: Sequence[str]
    fields: Sequence[Field] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    typed_name: str = ""
    is_dangerous: bool = False
    command_names: Sequence[str] = ()


_NOTHING = Question((), ())
"""The page has no form."""


@dataclass(frozen=True)
class Action(Generic[_Target]):
    """An action on a table or a job.

    Args:
        title: What it does, as on its button.
        find: Finds what it is about; raises for callers that may not.
        ask: What the page says; raises if it cannot be done at all.
        do: Does it; returns a sentence about it.
        name_target: The target for people.
        back: The address that follows.
        identify: What tells the target from another one that gets its name later.
        area: The entry of the navigation.
    """

    title: str
    find: Callable[[PageRequest], _Target]
    ask: Callable[[PageRequest, _Target], Question]
    do: Callable[[PageRequest, _Target], str]
    name_target: Callable[[_Target], str]
    back: Callable[[_Target], str]
    identify: Callable[[_Target], str] = lambda _: ""
    area: str = "tables"

    def show(self, request: PageRequest) -> Page:
        """The page that asks."""
        _check_offered(request)
        target = self.find(request)
        return self._to_page(request, target, self.ask(request, target))

    def act(self, request: PageRequest) -> Page | Redirect:
        """Does it, or asks again with what was wrong."""
        _check_offered(request)
        target = self.find(request)
        try:
            self._check_confirmed(request, target)
            return Redirect(self.back(target), self.do(request, target))
        except LakelogError as error:
            if error.reason == UNAUTHENTICATED:
                raise
            return self._explain(request, target, error)

    def _check_confirmed(self, request: PageRequest, target: _Target) -> None:
        if request.form.get(_TARGET_ID, "") != self.identify(target):
            raise InvalidArgument(
                f"This form was about another one of the name {self.name_target(target)}: read the page again.",
                metadata={"field": _TARGET_ID},
            )
        wanted = self.ask(request, target).typed_name
        if request.form.get(CONFIRMED_NAME, "").strip() != wanted:
            raise InvalidArgument(f"Type {wanted} to confirm.", metadata={"field": CONFIRMED_NAME})

    def _explain(self, request: PageRequest, target: _Target, error: LakelogError) -> Page:
        """What was wrong, with the form unless it cannot be sent again as things are."""
        message = blot_out(error.message)
        if error.effect is Effect.UNKNOWN:
            problem = (
                "The answer was lost, so it is not known whether this was done: go back, and look before you try "
                f"again. {message}"
            )
            return self._to_page(request, target, _NOTHING, problem, HTTPStatus.GATEWAY_TIMEOUT)
        status = HTTPStatus.SERVICE_UNAVAILABLE if error.retryable else HTTPStatus.BAD_REQUEST
        problem = f"Nothing was done: try again in a moment. {message}" if error.retryable else message
        try:
            question = self.ask(request, target)
        except LakelogError:
            question = _NOTHING
        return self._to_page(request, target, question, problem, status)

    def _to_page(
        self,
        request: PageRequest,
        target: _Target,
        question: Question,
        problem: str = "",
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Page:
        name = self.name_target(target)
        said = {"problem": problem} if problem else {}
        return Page(
            "act/form.html",
            f"{self.title}: {name}",
            {"question": {**said, "sentences": list(question.sentences), **question.parts}},
            crumbs=((name, self.back(target)),),
            area=self.area,
            extra={
                "asked": question,
                "hidden": {**question.hidden, _TARGET_ID: self.identify(target)},
                "problem": problem,
                "button": self.title,
                "back": self.back(target),
                "command": say_remedy(*question.command, names=question.command_names) if question.command else "",
                "form_token": secrets.token_urlsafe(16),
                "token_field": FORM_TOKEN,
                "name_field": CONFIRMED_NAME,
                "typed": request.form.get(CONFIRMED_NAME, ""),
            },
            status=status,
        )


def value_of(request: PageRequest, name: str, otherwise: str = "") -> str:
    """A value of the form if one was sent, else of the address."""
    given = request.form.get(name, "") if request.form else request.query.get(name, otherwise)
    return given.strip()


def number_of(request: PageRequest, name: str, label: str, least: int = 0) -> int:
    """A whole number of the form or the address.

    Raises:
        InvalidArgument: It is none.
    """
    text = value_of(request, name)
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):
        raise InvalidArgument(f"{label}: {text!r:.80} is no whole number from {least} on.", metadata={"field": name})
    return int(text)


def _check_offered(request: PageRequest) -> None:
    if not request.settings.actions:
        raise PermissionDenied("This console only shows: its operator has not switched actions on (--actions).")
