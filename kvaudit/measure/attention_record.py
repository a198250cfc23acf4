"""The record of one decode step in one layout: `kvaudit.measurement.attention/1`.

It says what was asked, what the layout holds, how it was run, the bytes that a step addresses with their formula, how
far the output was from the reference, every sample, and the statistics. Bandwidths are of medians; their ratio is of
one step to one copy of the same run and says nothing across records. What was not measured is null.

Nothing here identifies the machine's owner: no host name, no user name, no path.
"""

import importlib.util
import math
from fractions import Fraction
from importlib import metadata
from typing import Any

from kvaudit.evidence import canonical
from kvaudit.measure import environment, timing
from kvaudit.measure.decode_step import CLOCKS, TOLERANCES, Request, Timed
from kvaudit.measure.layout_names import DENSE, SPHERICAL, TRITON
from kvaudit.measure.layouts import Step
from kvaudit.measure.outcomes import UNMEASURED, Stopped
from kvaudit.model import Document

SCHEMA = "kvaudit.measurement.attention/1"
MEASURED = "measured"
DISAGREES = "check.disagrees"

_NS = 10**9


def described(device: str) -> Document:
    """Return the environment, Triton's version included where it is installed."""
    found = environment.described(device)
    if importlib.util.find_spec("triton") is not None:
        found["versions"]["triton"] = metadata.version("triton")
    return found


def document(timed: Timed, request: Request, surroundings: Document) -> Document:
    """Return the record of a layout, its numbers as `canonical.json_text` writes them."""
    step = timed.step
    asked = _request(request)
    return {
        "schema": SCHEMA,
        "id": f"attention-{timed.layout}-{canonical.canonical_sha256({'request': asked, 'layout': timed.layout})[:12]}",
        "outcome": _outcome(timed, request),
        "evidence_class": "locally_measured",
        "request": asked,
        "layout": _layout(timed, request),
        "execution": {
            "backend": step and step.backend,
            "note": step and step.note,
            "clock": CLOCKS[surroundings["device_kind"]],
            "tensors": "the same in every repetition, so what fits a cache is read from it",
            "order": "each repetition times the step, then the copy",
        },
        "bytes": None if step is None else _bytes(step),
        "check": _check(timed, request),
        "metrics": _metrics(timed),
        "samples": {"step_ns": list(timed.step_ns), "copy_ns": list(timed.copy_ns)},
        "environment": surroundings,
    }


def agrees(timed: Timed, request: Request) -> bool:
    """Return whether the output of a layout was within the tolerance of its type."""
    return timed.agreement is not None and timed.agreement.largest_error <= TOLERANCES[request.dtype]


def _outcome(timed: Timed, request: Request) -> Document:
    end = timed.stopped
    if end is None and not agrees(timed, request):
        message = "the output is not the attention of the rows that the layout holds; the times mean nothing"
        end = Stopped(UNMEASURED, DISAGREES, message)
    if end is None:
        return {"class": MEASURED, "reason": None, "message": None}
    return {"class": end.outcome, "reason": end.reason, "message": end.message}


def _request(request: Request) -> Document:
    shape, coding = request.shape, request.coding
    return {
        "batch": shape.batch,
        "query_heads": shape.query_heads,
        "kv_heads": shape.kv_heads,
        "head_dimension": shape.head_dimension,
        "rows": shape.rows,
        "kept": str(request.kept),
        "coded_rows": "kept" if coding.kept_only else "all",
        "page_tokens": coding.page_tokens,
        "widths_bits": list(coding.tree.widths),
        "dtype": request.dtype,
        "device": request.device,
        "backend": request.backend,
        "seed": request.seed,
        "repetitions": request.repetitions,
        "warm_up": request.warm_up,
        "threads": request.threads,
    }


def _layout(timed: Timed, request: Request) -> Document:
    step, coded = timed.step, timed.layout == SPHERICAL
    all_rows = timed.layout == DENSE or (coded and not request.coding.kept_only)
    rows = None
    if step is not None:
        total = sum(step.rows)
        rows = {
            "least": min(step.rows),
            "mean": Fraction(total, len(step.rows)),
            "most": max(step.rows),
            "total": total,
        }
    return {
        "name": timed.layout,
        "holds": "all rows" if all_rows else "the rows that are kept",
        "rows_per_owner": rows,
        "key_representation": "angle codes and a float16 radius, after RoPE" if coded else request.dtype,
        "value_representation": request.dtype,
        "page_tokens": request.coding.page_tokens if coded else None,
        "pages": step.pages if step is not None else None,
        "widths_bits": list(request.coding.tree.widths) if coded else None,
    }


def _bytes(step: Step) -> Document:
    return {
        "addressed": dict(step.addressed),
        "addressed_total": sum(step.addressed.values()),
        "resident": dict(step.resident),
        "resident_total": sum(step.resident.values()),
        "formula": f"{step.formula}; queries and output"
        + ("; what passes between the two kernels, written and read" if step.backend == TRITON else ""),
    }


def _check(timed: Timed, request: Request) -> Document | None:
    found = timed.agreement
    if found is None:
        return None
    return {
        "reference": "softmax attention in float64 over the rows that the layout holds"
        + (", keys decoded from their codes" if timed.layout == SPHERICAL else ""),
        "measure": "largest relative L2 error of an output row",
        "largest_error": _finite(found.largest_error),
        "tolerance": TOLERANCES[request.dtype],
        "agrees": agrees(timed, request),
        "coding_error": None if found.coding_error is None else _finite(found.coding_error),
    }


def _metrics(timed: Timed) -> Document | None:
    if timed.step is None or not timed.step_ns:
        return None
    addressed = sum(timed.step.addressed.values())
    step, copy = timing.summary(timed.step_ns), timing.summary(timed.copy_ns)
    effective, copied = _bandwidth(addressed, step), _bandwidth(2 * addressed, copy)
    ratio = None if effective is None or copied is None else effective / copied
    return {
        "step_time": _time(step, "decode step of one layer"),
        "copy_time": _time(copy, f"copy of {addressed} bytes"),
        "effective_bandwidth": _rate(effective, "B/s", "bytes addressed over the median time of a step"),
        "copy_bandwidth": _rate(copied, "B/s", "bytes read and written, twice the bytes copied, over the median time"),
        "bandwidth_ratio": _rate(ratio, "1", "effective bandwidth over that of the copy"),
    }


def _time(found: timing.Summary, denominator: str) -> Document:
    interval = None
    if found.low is not None and found.high is not None:
        interval = {"low": Fraction(found.low, _NS), "high": Fraction(found.high, _NS), "method": timing.METHOD}
    return {
        "value": None if found.median is None else found.median / _NS,
        "unit": "s",
        "statistic": "median",
        "denominator": denominator,
        "interval": interval,
        "samples": found.count,
    }


def _rate(value: Fraction | None, unit: str, function: str) -> Document:
    return {"value": value, "unit": unit, "function": function}


def _bandwidth(count: int, found: timing.Summary) -> Fraction | None:
    """Return bytes a second, or None where the clock saw no time pass."""
    return None if not found.median else count * _NS / found.median


def _finite(value: float) -> Any:
    return Fraction(value) if math.isfinite(value) else None
