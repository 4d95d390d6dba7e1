"""One transformer block, its rows shared among threads.

All rows of a layer need its keys and values before the first of them can attend, so a block has
two phases: queries, keys and values of all rows; then, some rows at a time, attention and all that
comes behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attncli._shapes import Float, Int
from attncli.model.attention import Attention
from attncli.model.crew import Crew
from attncli.model.ffn import affine, convolve, feed_forward
from attncli.model.kept import Kept, show, wanted
from attncli.model.observe import Block
from attncli.model.ops import ACTIVATIONS
from attncli.model.params import LayerParams
from attncli.model.position import bias_for
from attncli.model.projections import ByHead, Projector, room
from attncli.model.spec import StackSpec
from attncli.model.stack import Stack, Task, norm_slot, tasks_of

Array = np.ndarray


def run_block(
    stack: Stack,
    layer: LayerParams,
    i: int,
    x: Float[Array, "row d_model"],
    crew: Crew,
    *,
    only_attention: bool,
) -> Float[Array, "row d_model"]:
    """One transformer block. An empty norm slot leaves its argument as it is.

    Args:
        stack: what runs, and who watches.
        layer: parameters of the block.
        i: number of the layer.
        x: residual stream.
        crew: threads that share the rows.
        only_attention: nobody needs what comes after the block's last attention; x is returned.
    """
    block = _Block(stack, layer, i, x, crew, Kept(wanted(stack, i), crew.lock))
    block.project()
    block.prepare(only_attention=only_attention)
    crew.each(block.attend, stack.tasks)
    out = x if only_attention else block.finish()
    show(block.kept, stack, i)
    if not only_attention:
        block.show_whole(out)
    return out


@dataclass(slots=True)
class _Block:
    """One block at work."""

    stack: Stack
    layer: LayerParams
    i: int
    x: Float[Array, "row d_model"]
    crew: Crew
    kept: Kept
    only_attention: bool = False
    own: list[Attention] = field(default_factory=list)
    """Self-attention of each text."""
    cross: ByHead | None = None
    """Of cross-attention the keys and values; queries are filled in row by row."""
    across: list[Attention] = field(default_factory=list)
    """Cross-attention of each text."""
    beside: Float[Array, "row d_model"] | None = None
    """What the convolution beside the block makes of the block's input."""
    out: Float[Array, "row d_model"] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    @property
    def _apart(self) -> bool:
        """True where experts wait for all rows: they are read one after another."""
        return "ffn.router.weight" in self.layer

    def project(self) -> None:
        """First phase: queries, keys and values, of the source text too where it is read."""
        stack, layer, n_rows = self.stack, self.layer, len(self.x)
        layer.make_ready("attn_in.", "attn.", "cross.")
        projector = Projector(stack.spec, layer, self.i, "attn", self.kept)
        by_head = room(stack.spec, n_rows, n_rows)

        def project(task: Task) -> None:
            rows = task.rows
            self.keep("resid_pre", rows, self.x[rows])
            y = norm_slot(stack.spec, layer, "attn_in", self.x[rows])
            self.keep("attn_in", rows, y)
            projector.queries(by_head, rows, y, task.pieces)
            projector.keys_and_values(by_head, rows, y, task.pieces)

        self.crew.each(project, stack.tasks)
        self.own = self._attentions(by_head, stack.spans, "attn")
        if stack.memory is None or "cross.q.weight" not in layer:
            return
        memory = stack.memory
        self.cross = room(stack.spec, n_rows, len(memory))
        reader = Projector(stack.spec, layer, self.i, "cross", self.kept)

        def read(task: Task) -> None:
            assert self.cross is not None
            reader.keys_and_values(self.cross, task.rows, memory[task.rows], ())

        self.crew.each(read, tasks_of([slice(0, len(memory))]))
        self.across = self._attentions(self.cross, stack.memory_spans, "cross")

    def prepare(self, *, only_attention: bool) -> None:
        """Read what the second phase needs, before threads ask for it."""
        self.only_attention = only_attention
        if only_attention and self.cross is None:
            return
        self.layer.make_ready("attn_out.", "attn_residual.", "cross_")
        if not only_attention:
            self.layer.make_ready("ffn_", "conv", *(() if self._apart else ("ffn.",)))
            self.beside = _beside(self.stack, self.layer, self.x)
            self.out = np.empty_like(self.x)

    def attend(self, task: Task) -> None:
        """Second phase, for the rows of a task: attention and all that comes behind it."""
        rows = task.rows
        mixed = self._mix(self.own, "attn", task)
        if self.only_attention and self.cross is None and "attn.out" not in self.kept.wanted:
            return
        a = self._out_of_heads("attn", mixed)
        self.keep("attn.out", rows, a)
        if self.only_attention and self.cross is None:
            return
        x = self._after_attention(self.x[rows], a, rows)
        self.keep("resid_mid", rows, x)
        if self.cross is not None:
            y = norm_slot(self.stack.spec, self.layer, "cross_in", x)
            self.keep("cross_in", rows, y)
            projector = Projector(self.stack.spec, self.layer, self.i, "cross", self.kept)
            projector.queries(self.cross, rows, y, ())
            c = self._out_of_heads("cross", self._mix(self.across, "cross", task))
            self.keep("cross.out", rows, c)
            if self.only_attention:
                return
            x = self._after_cross(x, c)
            self.keep("cross_mid", rows, x)
        self.out[rows] = x if self._apart else self._to_the_end(x, rows)

    def finish(self) -> Float[Array, "row d_model"]:
        """Return the block's output."""
        everything = slice(0, len(self.x))
        if self._apart:
            self.layer.make_ready("ffn.router.")
            self.out = self._to_the_end(self.out, everything)
        self.keep("resid_post", everything, self.out)
        return self.out

    def keep(self, name: str, rows: slice, values: Array) -> None:
        """Keep rows of something that an observer wants to see."""
        self.kept.put(name, rows, len(self.x), values)

    def show_whole(self, out: Float[Array, "row d_model"]) -> None:
        """Let observers of whole blocks see one, and run its end again for other heads."""
        stack = self.stack
        for text, (span, observers) in enumerate(zip(stack.spans, stack.observers, strict=True)):
            for observer in observers:
                kind = "cross" if observer.kind == "cross" else "attn"
                mixed = self.kept.whole.get(f"{kind}.mixed")
                if self.i in observer.block_layers and mixed is not None:
                    again = _Again(self, text, kind)
                    observer.on_block(Block(self.i, mixed[span], out[span], again))

    def _attentions(self, by_head: ByHead, spans: Sequence[slice], kind: str) -> list[Attention]:
        """Return the attention of each text; `spans` says which keys it reads."""
        stack, layer, cross = self.stack, self.layer, kind == "cross"
        projection = layer.get(f"{kind}.o.weight")
        found = []
        for own, keys, observers in zip(stack.spans, spans, stack.observers, strict=True):
            watching = [
                o
                for o in observers
                if self.i in o.attention_layers and (o.kind == "cross") == cross
            ]
            n = own.stop - own.start
            bias = None if cross else bias_for(stack.spec, stack.params, stack.prefix, layer, n, n)
            found.append(
                Attention(
                    stack.spec,
                    stack.spec.layers[self.i],
                    self.i,
                    by_head.q[:, own],
                    by_head.k[:, keys],
                    by_head.v[:, keys],
                    None
                    if projection is None
                    else projection.reshape(stack.spec.n_heads, stack.spec.head_dim, -1),
                    watching,
                    self.crew,
                    bias=bias,
                    sinks=layer.get(f"{kind}.sinks"),
                    cross=cross,
                )
            )
        return found

    def _mix(self, texts: Sequence[Attention], kind: str, task: Task) -> Array:
        """Attend from the rows of a task; heads side by side, in memory that is used again."""
        spec = self.stack.spec
        n_rows = task.rows.stop - task.rows.start
        mixed = self.crew.scratch.array("mixed", n_rows, spec.n_heads * spec.head_dim)
        at = 0
        for piece in task.pieces:
            size = piece.rows.stop - piece.rows.start
            texts[piece.text].attend(piece.rows, mixed[at : at + size])
            at += size
        self.keep(f"{kind}.mixed", task.rows, mixed)
        return mixed

    def _out_of_heads(self, kind: str, mixed: Array) -> Array:
        if f"{kind}.o.weight" not in self.layer:
            return mixed.copy()
        return affine(mixed, self.layer.linear(f"{kind}.o"))

    def _after_attention(self, x: Array, a: Array, rows: slice | None = None) -> Array:
        """Return the residual stream after attention (of parallel blocks: the block's output).

        Without `rows` it is only tried what would be, and nothing is kept.
        """
        spec, layer = self.stack.spec, self.layer
        a = norm_slot(spec, layer, "attn_out", a)
        if rows is not None:
            self.keep("attn_out", rows, a)
        if spec.parallel:
            y = feed_forward(spec, layer, norm_slot(spec, layer, "ffn_in", x), self.crew.scratch)
            if rows is not None:
                self.keep("ffn_out", rows, y)
            return x + _scaled(spec, a) + _scaled(spec, y)
        return norm_slot(spec, layer, "attn_residual", x + _scaled(spec, a))

    def _after_cross(self, x: Array, c: Array) -> Array:
        return norm_slot(self.stack.spec, self.layer, "cross_residual", x + c)

    def _to_the_end(self, x: Array, rows: slice | Int[Array, " row"]) -> Array:
        """Return the block's output from the residual stream before the feed-forward part."""
        spec, layer = self.stack.spec, self.layer
        # chosen rows are only tried
        kept = rows if isinstance(rows, slice) else None
        if not spec.parallel and ("ffn.up.weight" in layer or "ffn.router.weight" in layer):
            y = feed_forward(spec, layer, norm_slot(spec, layer, "ffn_in", x), self.crew.scratch)
            y = norm_slot(spec, layer, "ffn_out", y)
            if kept is not None:
                self.keep("ffn_out", kept, y)
            x = x + _scaled(spec, y)
            x = norm_slot(spec, layer, "ffn_residual", x)
        if self.beside is not None:
            if kept is not None:
                self.keep("conv", kept, self.beside[kept])
            x = norm_slot(spec, layer, "conv_residual", x + self.beside[rows])
        return x


@dataclass(frozen=True, slots=True)
class _Again:
    """Runs the end of a block again for chosen rows of one text."""

    block: _Block
    text: int
    kind: str

    def __call__(
        self, rows: Int[Array, " row"], mixed: Float[Array, "row q_width"]
    ) -> Float[Array, "row d_model"]:
        """Return the block's output at these positions, had the heads there put this out."""
        block, kept = self.block, self.block.kept.whole
        rows = rows + block.stack.spans[self.text].start
        a = block._out_of_heads(self.kind, mixed)
        if self.kind == "cross":
            x = block._after_cross(kept["resid_mid"][rows], a)
        else:
            x = block._after_attention(kept["resid_pre"][rows], a)
            if block.cross is not None:
                x = self._across(x)
        return block._to_the_end(x, rows)

    def _across(self, x: Array) -> Array:
        """Let the rows read the source text, as if they were a text of their own."""
        block, spec, n_rows = self.block, self.block.stack.spec, len(x)
        assert block.cross is not None
        by_head = ByHead(room(spec, n_rows, 0).q, block.cross.k, block.cross.v)
        quiet = Kept(frozenset(), block.crew.lock)
        projector = Projector(spec, block.layer, block.i, "cross", quiet)
        everything = slice(0, n_rows)
        y = norm_slot(spec, block.layer, "cross_in", x)
        projector.queries(by_head, everything, y, ())
        keys = block.stack.memory_spans[self.text]
        attention = Attention(
            spec,
            spec.layers[block.i],
            block.i,
            by_head.q,
            by_head.k[:, keys],
            by_head.v[:, keys],
            None,
            (),
            block.crew,
            sinks=block.layer.get("cross.sinks"),
            cross=True,
        )
        mixed = np.empty((n_rows, spec.n_heads * spec.head_dim), np.float32)
        attention.attend(everything, mixed)
        return block._after_cross(x, block._out_of_heads("cross", mixed))


def _beside(stack: Stack, layer: LayerParams, x: Array) -> Array | None:
    if "conv.weight" not in layer:
        return None
    activate = ACTIVATIONS[stack.spec.conv_activation]
    return activate(convolve(x, layer.linear("conv"), stack.spans))


def _scaled(stack: StackSpec, x: Array) -> Array:
    return x if stack.residual_scale == 1.0 else x * np.float32(stack.residual_scale)
