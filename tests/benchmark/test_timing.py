"""Interleaved rounds and their ratios, with a clock that does not depend on the machine."""

import time

import pytest

from cape_fairseq.benchmark.timing import Clock, ratio


def test_ratio_is_the_median_over_rounds_with_quartiles():
    times, base = [2.0, 2.2, 30.0, 2.4, 2.6], [1.0, 2.0, 10.0, 1.0, 1.0]
    assert tuple(ratio(times, base)) == pytest.approx((2.4, 1.55, 2.8))


def test_rounds_are_interleaved_and_warm_up_does_not_count(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def case(name, seconds):
        def call():
            calls.append(name)
            now[0] += seconds if len(calls) > 6 else 100.0  # slow in the three rounds of warm-up

        return call

    times = Clock("cpu", rounds=7, seconds=10_000, warmup=3).interleave(
        {"a": case("a", 1), "b": case("b", 2)}, ""
    )
    assert times == {"a": [1.0] * 7, "b": [2.0] * 7}
    rounds = [calls[i : i + 2] for i in range(0, len(calls), 2)]
    assert len(rounds) == 10
    assert all(sorted(both) == ["a", "b"] for both in rounds)
    assert ["a", "b"] in rounds
    assert ["b", "a"] in rounds


def test_a_comparison_ends_when_its_time_is_up_but_not_before_five_rounds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow():
        now[0] += 60

    assert len(Clock("cpu", rounds=50, seconds=100).interleave({"slow": slow}, "")["slow"]) == 5
    assert len(Clock("cpu", rounds=50, seconds=650).interleave({"slow": slow}, "")["slow"]) == 9
    assert Clock("cpu", rounds=1).rounds == 5
