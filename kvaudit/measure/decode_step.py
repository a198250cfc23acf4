"""Measure one decode step in every layout that is asked for: agreement first, then time, with a copy in between.

A layout is timed only after its output was held against the reference in float64. Every repetition times the step and
then a copy of as many bytes as the step addresses, so that both see the same machine; the copy reads and writes them,
so its bandwidth counts twice its bytes. The tensors are the same in every repetition: what fits a cache is read from
it, by the step and by the copy alike.

Layouts are measured one after the other, and nothing is said about which is better: they hold different rows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from kvaudit.measure import environment, layouts
from kvaudit.measure.layout_names import SPHERICAL
from kvaudit.measure.layouts import Coding, Problem, Shape, Step
from kvaudit.measure.outcomes import DEVICE, MEMORY, RUNTIME_INADMISSIBLE, UNMEASURED, Stopped, exhausted

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
# Largest relative L2 error of an output row. Weights are rounded to the type of the values before their product.
TOLERANCES = {
    "float64": Fraction(1, 10**12),
    "float32": Fraction(1, 10**5),
    "float16": Fraction(1, 400),
    "bfloat16": Fraction(1, 50),
}
CLOCKS = {"cpu": "perf_counter_ns", "cuda": "CUDA events, everything launched before the first of them passes"}
# More cycles than a GPU takes in a nanosecond, with room: what the device waits while the host launches.
_CYCLES_A_NANOSECOND = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. `kept` is the fraction of all rows that ragged, padded and tombstone keep, in (0, 1]."""

    shape: Shape
    kept: Fraction
    coding: Coding
    dtype: str
    device: str
    backend: str
    seed: int
    repetitions: int
    warm_up: int
    threads: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """The largest relative L2 error of an output row against float64; of codes, also that which coding makes."""

    largest_error: float
    coding_error: float | None


@dataclass(frozen=True, slots=True)
class Timed:
    """A layout as it came out. `agreement`, samples and `step` are empty where `stopped` says why."""

    layout: str
    step: Step | None
    agreement: Agreement | None
    step_ns: tuple[int, ...]
    copy_ns: tuple[int, ...]
    stopped: Stopped | None


def measure(request: Request, wanted: tuple[str, ...], progress: Callable[[str], None]) -> Iterator[Timed]:
    """Yield one result a layout, in order. A layout that cannot run does not stop the others."""
    torch.set_num_threads(request.threads)
    if request.device == "cuda" and not torch.cuda.is_available():
        end = Stopped(UNMEASURED, DEVICE, "no CUDA device is at hand")
        yield from (Timed(layout, None, None, (), (), end) for layout in wanted)
        return
    source: Problem | None = None
    for layout in wanted:
        progress(layout)
        try:
            with torch.inference_mode():
                if source is None:
                    source = layouts.problem(
                        request.shape, request.kept, DTYPES[request.dtype], request.device, request.seed
                    )
                yield _measured(layout, source, request)
        except (Stopped, MemoryError, RuntimeError) as error:
            yield Timed(layout, None, None, (), (), _end(error, request.device))


def described_device(request: Request) -> str:
    """Return the device that the environment is described for: the CPU where no CUDA device is at hand."""
    return request.device if request.device == "cpu" or torch.cuda.is_available() else "cpu"


def agreement(step: Step, source: Problem, coding: Coding) -> Agreement:
    """Return how far one run of a step is from the attention over the rows that it holds, in float64."""
    output = step.run().to(torch.float64)  # [O, G, d]
    errors, coding_errors = [], []
    for owner in range(len(output)):
        expected = layouts.reference(source.queries[owner], *step.expected(owner))  # [G, d]
        errors.append(_relative(output[owner], expected))
        if step.layout == SPHERICAL:
            coding_errors.append(_relative(expected, layouts.uncoded_output(source, coding, owner)))
    return Agreement(max(errors), max(coding_errors, default=None))


def _measured(layout: str, source: Problem, request: Request) -> Timed:
    step = layouts.step(layout, source, request.coding, request.backend)
    found = agreement(step, source, request.coding)
    bytes_addressed = sum(step.addressed.values())
    copied = torch.zeros(bytes_addressed, dtype=torch.uint8, device=request.device)
    target = torch.empty_like(copied)

    def copy() -> Tensor:
        return target.copy_(copied)

    for _ in range(request.warm_up):
        step.run()
        copy()
    timers = _timers((step.run, copy), request.device)
    samples = [tuple(timer() for timer in timers) for _ in range(request.repetitions)]
    return Timed(layout, step, found, tuple(one for one, _ in samples), tuple(other for _, other in samples), None)


def _relative(found: Tensor, expected: Tensor) -> float:
    """Return the largest |found - expected| / |expected| of the rows; infinite where something is not finite."""
    ratio = ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max()
    return float(ratio) if bool(torch.isfinite(ratio)) else float("inf")


def _timers(runs: tuple[Callable[[], Tensor], ...], device: str) -> list[Callable[[], int]]:
    """Return a function that times each of these in nanoseconds."""
    if device != "cuda":
        return [partial(_cpu_ns, run) for run in runs]
    return [partial(_cuda_ns, run, _host_ns(run) * _CYCLES_A_NANOSECOND) for run in runs]


def _cpu_ns(run: Callable[[], Tensor]) -> int:
    begin = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - begin


def _host_ns(run: Callable[[], Tensor]) -> int:
    """Return how long the host takes to launch what the device then does."""
    torch.cuda.synchronize()
    taken = _cpu_ns(run)
    torch.cuda.synchronize()
    return taken


def _cuda_ns(run: Callable[[], Tensor], wait_cycles: int) -> int:
    """Return the time on the device: it waits first, so that the host's time to launch is not in the sample."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda._sleep(wait_cycles)
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return int(begin.elapsed_time(end) * 10**6)


def _end(error: Exception, device: str) -> Stopped:
    """Return the end that an error is: its own, or running out of memory. Raises it again if it is something else."""
    if isinstance(error, Stopped):
        return error
    if not exhausted(error):
        raise error
    found = environment.peak(device, was_reset=False)
    message = f"memory ran out; the peak so far was {found.peak_bytes} bytes ({found.counted})"
    return Stopped(RUNTIME_INADMISSIBLE, MEMORY, message)
