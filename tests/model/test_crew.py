"""Threads that share the rows of a layer: the same numbers however the work is cut and shared."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.model import attention, crew, forward, stack
from attncli.model.crew import Crew, Scratch, cores, crew_for
from attncli.model.forward import Job, run
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.stack import spans_of, tasks_of
from tests.parity.cases import CASES
from tests.parity.comparison import assert_same, read_golden, run_golden
from tests.toys import record, toy


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads, tasks of three rows, tiles of two rows of a head."""
    monkeypatch.setenv("ATTN_THREADS", "3")
    monkeypatch.setattr(crew, "LEAST_ROWS", 2)
    monkeypatch.setattr(attention, "TILE_SCORES", 20)
    monkeypatch.setattr(attention, "BLOCK_SCORES", 60)
    monkeypatch.setattr(forward, "tasks_of", lambda spans: tasks_of(spans, 3))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_family_is_the_same_when_threads_share_its_rows(name: str) -> None:
    golden = read_golden(name)
    assert_same(name, golden, run_golden(golden))


@pytest.mark.usefixtures("shared")
def test_work_is_really_shared() -> None:
    seen: set[str] = set()

    class Who(Observer):
        side_by_side = True
        attention_layers = frozenset({0, 1})
        met = threading.Barrier(2, timeout=30)

        def on_attention(self, block: AttentionBlock) -> None:
            seen.add(threading.current_thread().name)
            if block.layer == 0 and block.queries.start in (0, 3):
                self.met.wait()  # two blocks are open at once

    spec, params = toy()
    ids = [1, 2, 3, 4, 5, 6]
    run(spec, params, [Job(ids, [0] * 6, [Who()])])
    assert len(seen) > 1


@pytest.mark.usefixtures("shared")
def test_observers_that_do_not_say_otherwise_see_one_block_at_a_time() -> None:
    class Alone(Observer):
        attention_layers = frozenset({0})
        inside = 0
        most = 0

        def on_attention(self, block: AttentionBlock) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            threading.Event().wait(0.005)
            self.inside -= 1

    spec, params = toy()
    alone = Alone()
    run(spec, params, [Job(list(range(9)), [0] * 9, [alone])])
    assert alone.most == 1


@pytest.mark.usefixtures("shared")
def test_problem_in_a_thread_ends_the_run() -> None:
    class Broken(Observer):
        attention_layers = frozenset({0})

        def on_attention(self, block: AttentionBlock) -> None:
            raise ValueError("broken")

    spec, params = toy()
    with pytest.raises(ValueError, match="broken"):
        run(spec, params, [Job([1, 2, 3, 4], [0] * 4, [Broken()])])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 20))
def test_tasks_cover_every_row_once_and_stay_small(lengths: list[int], most: int) -> None:
    spans = spans_of([[0] * n for n in lengths])
    tasks = tasks_of(spans, most)
    rows = sorted(row for task in tasks for row in range(task.rows.start, task.rows.stop))
    assert rows == list(range(sum(lengths)))
    for task in tasks:
        assert task.rows.stop - task.rows.start <= most
        at = task.rows.start
        for piece in task.pieces:
            assert piece.n_tokens == lengths[piece.text]
            assert spans[piece.text].start + piece.rows.start == at
            at += piece.rows.stop - piece.rows.start
        assert at == task.rows.stop


def test_short_texts_share_a_task_and_long_ones_are_cut_last_rows_first() -> None:
    tasks = tasks_of(spans_of([[0] * n for n in (3, 4, 25)]), 10)
    assert [(task.rows.start, task.rows.stop) for task in tasks] == [
        (27, 32),
        (17, 27),
        (7, 17),
        (0, 7),
    ]
    assert [piece.text for piece in tasks[-1].pieces] == [0, 1]


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(1, 5),
    st.booleans(),
)
def test_texts_side_by_side_in_tasks_of_any_size_are_those_alone(
    texts: list[list[int]], most: int, causal: bool
) -> None:
    spec, params = toy(causal=causal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "tasks_of", lambda spans: tasks_of(spans, most))
        patch.setattr(attention, "TILE_SCORES", most)

        class Last(Observer):
            states = frozenset({2})

            def on_state(self, index: int, state: np.ndarray) -> None:
                self.state = state.copy()

        watching = [Last() for _ in texts]
        jobs = [Job(ids, [0] * len(ids), [one]) for ids, one in zip(texts, watching, strict=True)]
        run(spec, params, jobs)
    for ids, one in zip(texts, watching, strict=True):
        alone = record(spec, params, ids).resid[-1]
        # rounding is that of float32: a share of the largest number
        np.testing.assert_allclose(one.state, alone, atol=1e-6 * max(1, np.abs(alone).max()))


def test_few_rows_stay_in_one_thread_and_the_user_can_say_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ATTN_THREADS", "4")
    with crew_for(12) as few, crew_for(10_000) as many:
        assert (few.n_threads, many.n_threads) == (1, 4)
    monkeypatch.setenv("ATTN_THREADS", "1")
    with crew_for(10_000) as one:
        assert one.n_threads == 1
    monkeypatch.setenv("ATTN_THREADS", "many")
    assert cores() >= 1


def test_scratch_is_used_again_and_belongs_to_its_thread() -> None:
    scratch = Scratch()
    first = scratch.array("a", 4, 5)
    assert np.shares_memory(first, scratch.array("a", 2, 3))
    assert not np.shares_memory(first, scratch.array("b", 4, 5))
    assert scratch.array("a", 9, 9).shape == (9, 9)
    others: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: others.append(scratch.array("a", 4, 5)))
    thread.start()
    thread.join()
    assert not np.shares_memory(scratch.array("a", 4, 5), others[0])


def test_crew_of_one_does_its_tasks_in_order() -> None:
    done: list[int] = []
    Crew().each(done.append, [3, 1, 2])
    assert done == [3, 1, 2]


def test_tasks_have_their_usual_size() -> None:
    (task, *_) = tasks_of(spans_of([[0] * 1000]))
    assert task.rows.stop - task.rows.start <= stack.TASK_ROWS
