"""Ratios at the end of a bench run: ours over a yardstick, both timed in turn in the same run."""

import statistics
import time

import pytest

_RATIOS = []


@pytest.fixture
def against(benchmark):
    """Time `ours` and `yardstick` in turn and note the ratio of their medians.

    `discount`, if given, is timed as well and its median is subtracted from that of the yardstick `discounts` times.
    """

    def run(name, ours, yardstick, rounds=7, discount=None, discounts=0):
        own, other, start = [], [], []
        for _ in range(rounds):
            own.append(_seconds(ours))
            other.append(_seconds(yardstick))
            if discount is not None:
                start.append(_seconds(discount))
        reference = statistics.median(other) - (discounts * statistics.median(start) if start else 0)
        _RATIOS.append((name, statistics.median(own), reference))
        benchmark.extra_info["ratio"] = statistics.median(own) / reference
        benchmark.pedantic(ours, rounds=1)

    return run


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def pytest_terminal_summary(terminalreporter):
    if _RATIOS:
        terminalreporter.section("ratios of medians, measured in turn in this run")
        for name, own, other in _RATIOS:
            terminalreporter.line(f"{own / other:8.2f}  {name} ({1000 * own:.0f} ms over {1000 * other:.0f} ms)")
