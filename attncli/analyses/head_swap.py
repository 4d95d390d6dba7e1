"""A text against its copy in which two words are exchanged: what heads make of the difference."""

from __future__ import annotations

from dataclasses import replace

from attncli.analyses.head_changes import HeadChanges
from attncli.analyses.head_contrast import contrast_heads
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.selection import Heads
from attncli.tokenize import Encoded
from attncli.words import same_form, split_words


def swap_heads(
    model: Model,
    encoded: Encoded,
    heads: Heads,
    words: str,
    *,
    literal_specials: bool = False,
    top: int | None = None,
    line: int | None = None,
) -> HeadChanges:
    """Compare a text with its copy in which two words are exchanged; see `contrast_heads`.

    Raises:
        UsageProblem: not two words, or neither is in the text.
        InputProblem: the model cannot take the copy.
    """
    other = model.encode(swap_words(encoded.text, words), literal_specials=literal_specials)
    found = contrast_heads(model, (encoded, other), heads, question="swap", top=top, line=line)
    return replace(found, swapped=words)


def swap_words(text: str, words: str) -> str:
    """Return the text with two words exchanged both ways, the case of letters kept.

    Args:
        text: as typed.
        words: both, such as `he,she`.

    Raises:
        UsageProblem: not two different words, or neither is in the text.
    """
    pair = [word.strip() for word in words.split(",")]
    if len(pair) != 2 or any(len(split_words(word)) != 1 for word in pair):
        raise UsageProblem(f"--swap {words}: expected two words with a comma, such as he,she.")
    folded = [same_form(word).casefold() for word in pair]
    if folded[0] == folded[1]:
        raise UsageProblem(f"--swap {words}: both are the same word.")
    found, end, parts = 0, 0, []
    for word in split_words(text):
        form = same_form(word.text).casefold()
        if form not in folded:
            continue
        at = folded.index(form)
        parts += [text[end : word.start], _in_case_of(word.text, pair[at], pair[1 - at])]
        end, found = word.end, found + 1
    if not found:
        raise UsageProblem(f"--swap {words}: neither word is in the text.")
    return "".join([*parts, text[end:]])


def _in_case_of(typed: str, given: str, other: str) -> str:
    """Write the other word as this one is typed; as it was given where this one is so too."""
    if typed == given:
        return other
    if typed.isupper() and len(typed) > 1:
        return other.upper()
    return other[:1].upper() + other[1:] if typed[:1].isupper() else other.lower()
