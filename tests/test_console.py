import io
import sys

import pytest
from rich.console import Console

from acova.console import plain_table, printable, say
from acova.training.progress import progress_bar

HARMFUL = (
    "[/red]",
    "[red]x",
    "a[b]",
    r"\[x]",
    "ends\\",
    ":smile:",
    "\x1b[2J",
    "two\nlines",
    "\u202egnp",
    "caf\xe9",
    "\udc80",
)


def shown(table) -> str:
    stream = io.StringIO()
    Console(file=stream, width=300).print(table)
    return stream.getvalue()


@pytest.mark.parametrize("name", HARMFUL)
def test_names_are_shown_as_they_are_wherever_they_stand(name):
    text = shown(plain_table([name, "n"], [[name, 1]], title=f"of {name}"))
    assert text.count(printable(name)) == 3
    assert "\x1b" not in text
    text.encode()


def test_only_what_acts_on_a_terminal_is_escaped():
    assert printable("Größe 5 µm, 漢字, [b]") == "Größe 5 µm, 漢字, [b]"
    assert printable("a\nb\x1b[2J\udc80") == r"a\nb\x1b[2J\udc80"
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"


def test_a_narrow_encoding_loses_no_line(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    say("caf\xe9 [b]\x1b")
    assert stream.buffer.getvalue() == rb"caf\xe9 [b]\x1b" + b"\n"


def test_the_progress_bar_knows_no_markup(capsys):
    with progress_bar("[/red] a[b]", 2, shown=True) as report:
        report("[/train]", 1, 2, [{"total": 1.0}])
    err = capsys.readouterr().err
    assert "[/red] a[b] [/train]" in err
