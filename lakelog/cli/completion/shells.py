"""The scripts for bash, zsh and fish, and how each shell passes on what is typed and gets the answer.

They follow click's scripts, and differ in three points. In bash a word ends at `=` and `:`, so the line itself is read.
Words that are to be continued (`shop.`, `bucket=`) get no space. And names come from other users: what a shell would
run or expand is quoted.
"""

from __future__ import annotations

import os
from typing import Any, Final

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

VARIABLE: Final = "_LAKELOG_COMPLETE"
"""The variable by which a script asks the command for completions."""
OPEN: Final = "open"
"""The type of a completion that is to be continued."""

_WORDS: Final = ("plain", OPEN)
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-")
_IN_DOUBLE_QUOTES: Final = frozenset('"\\$`')

_BASH: Final = """\
%(complete_func)s() {
    local response type value
    response=$(env %(complete_var)s=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" \\
        COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            open) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH: Final = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain open described response
    local type key descr
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env %(complete_var)s=zsh_complete COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(prog_name)s 2>/dev/null)}")
    for type key descr in "${response[@]}"; do
        case $type in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            open) open+=("$key") ;;
            plain) if [[ $descr == _ ]]; then plain+=("$key"); else described+=("$key:$descr"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#open )) && compadd -U -S '' -V continued -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u; }
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH: Final = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp | string collect) \\
        COMP_CWORD=(commandline -ct | string collect) %(prog_name)s 2>/dev/null)
    for completion in $response
        set -l parts (string split -m 1 "," -- $completion)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case open plain
                echo $parts[2]
        end
    end
end

complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


@add_completion_class
class LineOfBash(BashComplete):
    """Bash, by its line up to the cursor."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the last one, and the last one, without quotes."""
        return join_option(*split_line(os.environ.get("COMP_LINE", "")))

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """The part of a completion that replaces what bash takes for the word, quoted as the word is."""
        if item.type not in _WORDS:
            return f"{item.type},"
        line = os.environ.get("COMP_LINE", "")
        return f"{item.type},{to_bash_word(str(item.value), line, os.environ.get('COMP_WORDBREAKS', ''))}"


@add_completion_class
class WordsOfZsh(ZshComplete):
    """Zsh, which quotes completions itself."""

    source_template = _ZSH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one at the cursor, and that one, without quotes."""
        args, self._typed = super().get_completion_args()
        return join_option(args, self._typed)

    def format_completion(self, item: CompletionItem[str]) -> str:
        """The whole word, with its option if it is joined to it."""
        return super().format_completion(_with_option(item, self._typed))


@add_completion_class
class WordsOfFish(FishComplete):
    """Fish, which quotes completions itself, and adds no space after `.` and `=`."""

    source_template = _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """As of zsh."""
        args, self._typed = super().get_completion_args()
        return join_option(args, self._typed)

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """As of zsh."""
        return super().format_completion(_with_option(item, self._typed))


def _with_option(item: CompletionItem[Any], typed: str) -> CompletionItem[Any]:
    option = typed[: -len(_value_of(typed)) or None] if typed.startswith("-") and "=" in typed else ""
    return CompletionItem(option + item.value, item.type, item.help) if option and item.type in _WORDS else item


def _value_of(typed: str) -> str:
    """A word without the option that is joined to it, as in `--columns=id`. Pure."""
    return typed.partition("=")[2] if typed.startswith("-") and "=" in typed else typed


def join_option(args: list[str], incomplete: str) -> tuple[list[str], str]:
    """Joins an option to the value that is being typed. Pure.

    click reads the words before the value by themselves. An option without its value is an error there, and of all
    the others, for instance the name of the table, nothing is left.
    """
    if args and args[-1].startswith("-") and args[-1].strip("-"):
        return args[:-1], f"{args[-1]}={incomplete}"
    return args, incomplete


def split_line(line: str) -> tuple[list[str], str]:
    """The words after the command's name, and the one at the end of the line; quotes may still be open. Pure."""
    # The mark joins the last word, or is one if the line ends with a space.
    words = split_arg_string(line + "\x01")
    return words[1:-1], words[-1].removesuffix("\x01")


def to_bash_word(value: str, line: str, breaks: str) -> str:
    """A completion as bash has to insert it.

    Args:
        value: The whole word, without quotes.
        line: What is typed.
        breaks: The characters after which bash begins a new word.
    """
    quote = find_quote(line)
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{each}" if each in _IN_DOUBLE_QUOTES else each for each in value)
    typed = _value_of(split_line(line)[1])
    cut = 1 + max((typed.rfind(each) for each in breaks if each in "=:@"), default=-1)
    return "".join(each if each in _PLAIN or not each.isascii() else f"\\{each}" for each in value[cut:])


def find_quote(line: str) -> str:
    """The quote that is open at the end of a line; empty: none. Pure."""
    quote, escaped = "", False
    for each in line:
        if escaped:
            escaped = False
        elif each == "\\" and quote != "'":
            escaped = True
        elif not quote and each in "'\"":
            quote = each
        elif each == quote:
            quote = ""
    return quote
