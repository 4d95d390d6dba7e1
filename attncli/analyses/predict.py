"""predict: the next token, or what fills a mask; and what each layer would have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli._shapes import Float
from attncli.analyses.columns import state_names
from attncli.analyses.prediction import Candidate, Guess, Place, Prediction
from attncli.analyses.sides import choose_attention
from attncli.errors import InputProblem, ModelProblem, UsageProblem
from attncli.model.forward import Job
from attncli.model.head import Head, Scores, find_head
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.model.stack import norm_slot
from attncli.results import RANDOM_NOTE
from attncli.selection import parse_indexes
from attncli.tokenize import Encoded

Array = np.ndarray
MASKS = ("[MASK]", "<mask>")
"""Spellings of the mask that are read whatever the vocabulary's own is."""
ROWS = 256
"""States that go through the head together."""
LENS_NOTE = (
    "guesses before the last layer read its state with the head that the model applies after the "
    "last one only: a reading, not a step of the computation"
)


def predict_text(
    model: Model,
    text: str,
    *,
    pair: str | None = None,
    target: str | None = None,
    top: int = 10,
    lens: bool = False,
    layer: str | None = None,
    literal_specials: bool = False,
    line: int | None = None,
) -> Prediction:
    """Run a text through a model and read its output head where something is to be predicted.

    A decoder: after the last token. An encoder: at every mask. An encoder-decoder: after the
    target, or after its start token where there is none. Probabilities are the softmax over all
    rows of the head's table.

    With the lens each state of the residual stream goes through the final norm and the head; the
    last state has had the norm already.

    Args:
        model: what to run.
        text: one text, as typed.
        pair: second text, for encoders.
        target: beginning of the target of an encoder-decoder.
        top: number of candidates.
        lens: also read the states before the last.
        layer: layers whose guesses are kept, `3`, `-1`, `0-2`; None for all, and the embedding.
        literal_specials: read control strings in the text as plain characters.
        line: line of a batch the text came from.

    Raises:
        ModelProblem: the checkpoint has no output head, or a damaged one.
        InputProblem: an encoder is given a text without a mask.
        UsageProblem: a target for a model that takes none; layers without the lens.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens", for the lens.
    """
    if top < 1:
        raise UsageProblem(f"--top {top}: expected 1 or more.")
    head = _head_of(model)
    choose_attention(model, None, has_target=target is not None)
    n_layers = model.spec.stack.n_layers
    if layer is not None and not lens:
        raise UsageProblem(f"--layer {layer}: only for --lens, whose rows it chooses; add that.")
    shown = list(range(n_layers + 1))
    if layer is not None:
        shown = [i + 1 for i in parse_indexes(layer, n_layers, "layer")]
    encoded, decoded, places = _read(model, text, pair, target, literal_specials=literal_specials)
    read = encoded if decoded is None else decoded
    states = _States([place.token for place in places], range(n_layers + 1) if lens else [n_layers])
    job = Job(read.ids, read.types, [states])
    model.run([job if decoded is None else replace(job, source=encoded.ids)])
    scores = head.read(states.kept[n_layers], top)
    guesses = _guesses(model, head, states, shown, scores) if lens else []
    notes = [RANDOM_NOTE] if model.random else []
    notes += [LENS_NOTE] if lens else []
    return Prediction(
        card=model.card(decoder=decoded is not None),
        encoded=encoded,
        target=decoded,
        vocabulary=head.vocab_size,
        places=tuple(
            replace(
                place,
                entropy=float(scores.entropy[at]),
                candidates=tuple(_candidates(model, scores, at)),
                lens=tuple(guesses[at]) if lens else None,
            )
            for at, place in enumerate(places)
        ),
        layers=tuple(i - 1 for i in shown if i) if lens else None,
        top=top,
        notes=(*notes, *encoded.notes, *(() if decoded is None else decoded.notes)),
        line=line,
    )


class _States(Observer):
    """Keeps some rows of some states."""

    def __init__(self, rows: Sequence[int], states: Sequence[int]) -> None:
        self.states = frozenset(states)
        self.kept: dict[int, Array] = {}
        self._rows = list(rows)

    def on_state(self, index: int, state: Float[Array, "token d_model"]) -> None:
        self.kept[index] = state[self._rows]


def _head_of(model: Model) -> Head:
    if model.engine != "numpy":
        raise UsageProblem(
            "predict reads the output head itself, for the families attn computes; the engine "
            "torch loads models without it, so leave that out."
        )
    head = find_head(model.params)
    if head is None:
        raise ModelProblem(
            f"{model.name}: this checkpoint has no output head, so it predicts no tokens (as "
            "encoders of sentences and models saved without their head); give one saved for "
            "causal or masked language modelling, or for translation."
        )
    return head


def _read(
    model: Model, text: str, pair: str | None, target: str | None, *, literal_specials: bool
) -> tuple[Encoded, Encoded | None, list[Place]]:
    """Return the text, what a decoder of two stacks reads, and the places that are asked for."""
    if model.spec.encoder is not None:
        encoded = model.encode(text, pair, literal_specials=literal_specials)
        if target is None:
            decoded = model.empty_target()
        else:
            decoded = model.encode_target(target, literal_specials=literal_specials, whole=True)
        return encoded, decoded, [Place(len(decoded.tokens) - 1, "target")]
    if model.spec.stack.causal:
        encoded = _without_end(model.encode(text, pair, literal_specials=literal_specials))
        return encoded, None, [Place(len(encoded.tokens) - 1, "next")]
    encoded = _with_masks(model, text, pair, literal_specials=literal_specials)
    masks = [t.index for t in encoded.tokens if t.special and t.token == model.tokenizer.mask]
    return encoded, None, [Place(index, "mask") for index in masks]


def _without_end(encoded: Encoded) -> Encoded:
    """Leave out what the tokenizer puts after a text: what comes next would follow that."""
    tokens, notes = encoded.tokens, list(encoded.notes)
    while len(tokens) > 1 and tokens[-1].added:
        notes.append(f"read without {tokens[-1].token}, which the tokenizer puts at the end")
        tokens = tokens[:-1]
    if encoded.text.endswith(" "):
        notes.append(
            "the text ends with a space; most vocabularies put the space before a word into its "
            "token, so that without it the guesses may be better"
        )
    return replace(encoded, tokens=tokens, notes=tuple(notes))


def _with_masks(model: Model, text: str, pair: str | None, *, literal_specials: bool) -> Encoded:
    """Encode a text with at least one mask, in any spelling.

    Raises:
        ModelProblem: the vocabulary has no mask.
        InputProblem: the text has none.
    """
    mask = model.tokenizer.mask
    if mask is None:
        raise ModelProblem(
            f"{model.name}: the model fills masks, but its tokenizer has no one token for them."
        )
    foreign = [other for other in MASKS if other != mask and other in text]
    if not literal_specials:
        for other in foreign:
            text = text.replace(other, mask)
    encoded = model.encode(text, pair, literal_specials=literal_specials)
    if not any(token.special and token.token == mask for token in encoded.tokens):
        if literal_specials and (mask in text or foreign):
            raise InputProblem(
                f"--literal-specials reads {mask} as plain text, so that nothing is left to fill; "
                "leave it out."
            )
        raise InputProblem(
            f"The text has no mask; write {mask} for the word that {model.name} is to fill, such "
            f'as "The cat sat on the {mask}."'
        )
    # that the mask was typed is what the command is about
    typed = f"control tokens typed in the text: {mask} ("
    notes = [note for note in encoded.notes if not note.startswith(typed)]
    if foreign:
        notes.append(f"{' and '.join(foreign)} read as {mask}, the mask of this model")
    return replace(encoded, notes=tuple(notes))


def _candidates(model: Model, scores: Scores, at: int) -> list[Candidate]:
    return [
        _candidate(model, int(id_), float(logit), float(probability))
        for id_, logit, probability in zip(
            scores.ids[at], scores.logits[at], scores.probabilities[at], strict=True
        )
    ]


def _candidate(model: Model, id_: int, logit: float, probability: float) -> Candidate:
    tokenizer = model.tokenizer
    return Candidate(
        id=id_,
        token=tokenizer.piece(id_),
        text=tokenizer.surface(id_),
        special=tokenizer.is_special(id_),
        logit=logit,
        probability=probability,
    )


def _guesses(
    model: Model, head: Head, states: _States, shown: Sequence[int], final: Scores
) -> list[list[Guess]]:
    """Return what each of the shown states says, for every place.

    The last state is the answer itself; the others go through the head together, so that its table
    is read once.
    """
    stack, names = model.spec.stack, state_names(model.spec.stack.n_layers)
    answers, n_places = final.ids[:, 0], len(final.ids)
    early = [index for index in shown if index < stack.n_layers]
    read: list[Scores] = []
    for start in range(0, len(early), max(1, ROWS // n_places)):
        part = early[start : start + max(1, ROWS // n_places)]
        rows = np.concatenate([states.kept[index] for index in part])
        normed = norm_slot(stack, model.params, "final_norm", rows)
        scores = head.read(normed, 1, np.tile(answers, len(part)))
        read += [scores.part(slice(i * n_places, (i + 1) * n_places)) for i in range(len(part))]
    if stack.n_layers in shown:
        first = np.ones(n_places, np.int64)
        read.append(replace(final, wanted=final.logits[:, 0], ranks=first))
    found: list[list[Guess]] = []
    for at in range(n_places):
        found.append([])
        for index, scores in zip(shown, read, strict=True):
            assert scores.ranks is not None
            assert scores.wanted is not None
            found[at].append(
                Guess(
                    state=names[index],
                    best=_candidates(model, scores, at)[0],
                    entropy=float(scores.entropy[at]),
                    rank=int(scores.ranks[at]),
                    probability=float(np.exp(scores.wanted[at] - scores.log_sum[at])),
                )
            )
    return found
