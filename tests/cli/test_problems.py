"""Problems are one line with the way out; help is complete; environment variables are heard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attncli import __version__
from attncli.analyses import model_list as models_analysis
from tests.seq2seq import seq2seq

COMMANDS = [
    ["heads"],
    ["inspect"],
    ["compare"],
    ["explain"],
    ["tokens"],
    ["schema"],
    ["models"],
    ["models", "list"],
    ["models", "info"],
    ["models", "pack"],
    ["models", "init"],
]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["hi", "-l", "9"], 2, "--layer 9: valid layers are 0 to 5"),
        (["hi", "-l", "-7"], 2, "valid layers are 0 to 5"),
        (["hi", "-H", "3.12"], 2, "--head 12: valid heads are 0 to 11"),
        (["hi", "-H", "2-1"], 2, "ends before it begins"),
        (["hi", "-H", "one"], 2, "expected a number, a range such as 0-2, or all"),
        (["hi", "-l", "2", "-H", "3.1"], 2, "name different layers"),
        (["hi", "-q", "his"], 2, "--query his: not in the text (words: hi). Did you mean hi?"),
        (["hi", "-q", "3"], 2, "valid tokens are 0 to 2"),
        (["jam jam", "-q", "jam#3"], 2, "so #1 to #2"),
        (["hi", "-q", "[CLS]", "--special", "hide"], 2, "use --special show"),
        (["hi", "--top", "0"], 2, "0 is not in the range"),
        (["hi", "--by", "size"], 2, "'size' is not one of 'contribution', 'weight'"),
        (["hi", "-f", "xml"], 2, "'xml' is not one of"),
        (["hi", "--heat"], 2, "No such option: --heat"),
        (["hi", "-q"], 2, "requires an argument"),
        (["hi", "-m", "minilmm"], 1, "Did you mean minilm?"),
        (["hi", "-m", "absent/folder"], 1, "absent/folder: no such path or model on this machine"),
        (["hi", "-m", "random:d_model=7,heads=2"], 2, "7 does not divide by 2 heads"),
        (["hi", "-m", "random:depth=3"], 2, "'depth=3' not understood"),
        (["word " * 600], 1, "602 tokens, minilm takes at most 512"),
    ],
)
def test_wrong_choice_is_one_line_that_says_what_is_right(attn, arguments, code, said) -> None:
    ran = attn("inspect", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert ran.err.startswith("attn: ")
    assert said in ran.err


def test_wrong_option_names_the_help_of_its_command(attn) -> None:
    assert attn("tokens", "hi", "--heat").err.endswith(". See attn tokens --help.\n")
    assert attn("inspekt", "hi").err == (
        "attn: No such command 'inspekt'. Did you mean 'inspect'? See attn --help.\n"
    )


def test_output_into_a_missing_folder_is_named(attn, tmp_path: Path) -> None:
    ran = attn("inspect", "hi", "-o", str(tmp_path / "absent" / "file"))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "absent/file: cannot be written (No such file or directory)" in ran.err


def test_folder_that_is_no_model_says_what_is_missing(attn, tmp_path: Path) -> None:
    ran = attn("inspect", "hi", "-m", str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "config.json" in ran.err


def test_internal_error_asks_for_a_report_and_debug_shows_where(attn, monkeypatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(models_analysis, "list_models", broken)
    short = attn("models", "list")
    assert (short.code, short.out, short.err.count("\n")) == (1, "", 1)
    assert "internal error: ZeroDivisionError: by nought. Please report it" in short.err
    long = attn("models", "list", "--debug")
    assert long.code == 1
    assert "Traceback (most recent call last)" in long.err
    assert "in broken" in long.err


def test_debug_keeps_the_exit_code_of_a_wrong_choice(attn) -> None:
    ran = attn("inspect", "hi", "-l", "9", "--debug")
    assert ran.code == 2
    assert "Traceback" in ran.err


def test_interrupt_leaves_with_130_and_no_traceback(attn, monkeypatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models_analysis, "list_models", interrupted)
    ran = attn("models", "list")
    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_verbose_speaks_on_standard_error_only(attn) -> None:
    quiet, loud = attn("tokens", "hi", "--json"), attn("tokens", "hi", "--json", "-v")
    assert loud.out == quiet.out
    assert quiet.err == ""
    assert "minilm: BERT, Q8, from" in loud.err


def test_model_of_the_environment_is_used_unless_one_is_named(
    attn, bert_folder: Path, monkeypatch
) -> None:
    monkeypatch.setenv("ATTN_MODEL", str(bert_folder))
    assert attn("tokens", "the dog", "--json").document["model"]["name"] == "tiny"
    ran = attn("tokens", "the dog", "-m", "minilm", "--json")
    assert ran.document["model"]["name"] == "minilm"
    monkeypatch.setenv("ATTN_MODEL", "absent")
    assert attn("tokens", "the dog").code == 1


def test_columns_of_the_environment_bound_every_line(attn, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = attn("inspect", "We were stuck in a traffic jam for hours").out.splitlines()
    assert max(map(len, lines)) <= 40
    assert "(no room at this width for:" in "\n".join(lines)


def test_colour_is_forced_and_forbidden(attn, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in attn("tokens", "hi").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in attn("tokens", "hi").out
    assert "\x1b" not in attn("tokens", "hi", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in attn("tokens", "hi").out


def test_version_is_the_packages(attn) -> None:
    ran = attn("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"attn {__version__}\n", "")


def test_no_arguments_show_the_help(attn) -> None:
    ran = attn()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == attn("--help").out
    assert ran.out.startswith("Usage: attn ")


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help_ends_with_an_example(attn, command: list[str]) -> None:
    ran = attn(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    _, _, example = ran.out.partition("Example:\n")
    assert example.strip().startswith(("attn ", "cat "))


VALUES = {
    "--model": "minilm",
    "--pair": "no jam",
    "--target": "der hund",
    "--attention": "self",
    "--layer": "1",
    "--head": "2",
    "--reduce": "max",
    "--query": "jam",
    "--key": "jam",
    "--top": "2",
    "--by": "weight",
    "--special": "fold",
    "--format": "jsonl",
    "--shade": "log",
    "--word": "jam",
    "--to": "food",
    "--state": "L3",
    "--neighbours": "2",
    "--dtype": "f32",
    "--engine": "numpy",
    "--d-model": "8",
    "--heads": "2",
    "--layers": "1",
    "--seed": "3",
}

# a word that reads and one that is read are given together
HEADS = {
    "--sort": ["self"],
    "--role": ["sink"],
    "--grid": ["self"],
    "--from": ["jam", "--to", "and"],
    "--to": ["and", "--from", "jam"],
    "--by": ["excess", "--from", "jam", "--to", "and"],
    "--contrast": ["jam or jam"],
    "--swap": ["jam,toast"],
}

ONLY_TORCH = {"--device": "cpu", "--dtype": "float32"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_of_the_help_works(attn, command, bert_folder, tmp_path: Path) -> None:
    shown = re.findall(r"^ +(?:-\w, )?(--[\w-]+)", attn(*command, "--help").out, re.MULTILINE)
    assert "--help" in shown
    texts = tmp_path / "texts"
    texts.write_text("jam and jam\n")
    needed = {
        "explain": ["jam and jam", "-q", "jam"],
        "models pack": [str(bert_folder), "-o", str(tmp_path / "packed"), "--force"],
        "models init": [str(tmp_path / "toy"), "--force"],
        "models info": ["minilm"],
        "models list": [],
    }
    for option in set(shown) - {"--help"}:
        arguments = needed.get(" ".join(command), ["jam and jam"])
        value = VALUES.get(option)
        if option == "--target":
            seq2seq(tmp_path / "seq2seq")
            query = ["-q", "hund"] if command == ["explain"] else []
            arguments = ["the dog", "-m", str(tmp_path / "seq2seq"), *query]
        if option == "--file":
            arguments, value = needed.get(" ".join(command), [""])[1:], str(texts)
        elif option in ("--output", "--vocab-from"):
            value = str(texts) if option == "--vocab-from" else str(tmp_path / f"o{len(shown)}")
        if option in ONLY_TORCH and "--engine" in shown:
            ran = attn(*command, *arguments, option, ONLY_TORCH[option])
            assert (ran.code, ran.err.count("only for --engine torch")) == (2, 1), option
            continue
        values = [] if value is None else [value]
        if command == ["heads"]:
            values = HEADS.get(option, values)
        ran = attn(*command, *arguments, option, *values)
        assert ran.code == 0, (option, ran.err)


def test_other_engine_is_refused_by_explain_before_it_is_loaded(attn) -> None:
    ran = attn("explain", "jam", "-q", "jam", "--engine", "torch")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "explain follows attn's own arithmetic step by step" in ran.err
