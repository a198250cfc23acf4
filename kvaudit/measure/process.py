"""Measure in a child process, and record what became of it even if it dies.

A run may take all memory, and the system then ends it without asking. The child says what it is at work on; when it is
gone, the setting at work gets an outcome with the peak that the system counted for the process, and the settings that
were not at work are measured again in a new child without it. Nothing but `calibrated` loads torch here.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect, KvauditError
from kvaudit.evidence import canonical, files, strict_json
from kvaudit.measure import outcomes
from kvaudit.model import Document

NEEDED = ("torch", "transformers", "safetensors", "gguf")
INSTALL = "pip install 'kvaudit[measure]'"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One policy that is asked for: parameters as texts, budget as {value, unit, scope} of texts or None."""

    policy: str
    parameters: dict[str, str] = field(default_factory=dict)
    budget: dict[str, str] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What `measure` is asked to do. `tolerance_nats` is a decimal or a fraction as text.

    `memory_limit_bytes` bounds the address space of the child, None leaves it open. `threads` None is what torch takes;
    one is the default, because threads that wait for each other on a shared machine made a step twenty times slower.
    """

    model: str
    prompts: str
    settings: tuple[Wanted, ...]
    task: str
    question: str
    decode_tokens: int = 32
    dtype: str = "float32"
    device: str = "cpu"
    threads: int | None = 1
    name: str | None = None
    tolerance_nats: str = "0.1"
    memory_limit_bytes: int | None = None


def missing_packages() -> tuple[str, ...]:
    """Return the packages of the extra that are not installed."""
    return tuple(name for name in NEEDED if importlib.util.find_spec(name) is None)


def require_packages() -> None:
    """Raise `KvauditError` with what to install if the extra is not installed."""
    missing = missing_packages()
    if missing:
        raise KvauditError(f"`kvaudit measure` needs {', '.join(missing)}: {INSTALL}")


def calibrated(model: Path, prompts: Path, *, dtype: str, device: str, name: str | None) -> Document:
    """Return a profile of heads calibrated on a file of prompts; in this process, which loads torch for it.

    Raises `KvauditError` with the reason if there is none.
    """
    from kvaudit.measure import checkpoint as checkpoints
    from kvaudit.measure import profile
    from kvaudit.measure import prompts as prompt_files

    try:
        data = files.read_regular(prompts)
        parsed = prompt_files.parse(data)
        loaded = checkpoints.load(model, dtype=dtype, device=device, name=name)
        cases = prompt_files.cases(parsed, loaded.tokenizer, prompt_files.OUTSIDE, 0)
        importances = profile.calibrated(loaded, cases)
    except FileDefect as defect:
        line = f" line {defect.line}" if defect.line else ""
        raise KvauditError(f"{prompts.name}{line}{defect.pointer}: {defect.message}") from defect
    except outcomes.Stopped as end:
        raise KvauditError(end.message) from end
    calibration = {
        "method": "mean attention to the marked evidence of the queries that the answer comes from, full cache",
        "prompts_sha256": canonical.sha256(data),
        "prompts": [case.id for case in cases],
    }
    return profile.document_of(importances, loaded, calibration)


def measure(request: Request, progress: Progress = lambda _: None) -> tuple[Document, ...]:
    """Return the record of every setting of a request, in order.

    Raises `KvauditError` if the extra is not installed or if the child fails in a way that is no outcome.
    """
    require_packages()
    records: dict[int, Document] = {}
    waiting = list(range(len(request.settings)))
    while waiting:
        run = _run(request, waiting, progress)
        records.update(run.records)
        lost = [index for index in waiting if index not in run.records]
        if not lost:
            break
        ended = lost if run.at_work is None else [run.at_work]
        records.update({index: _ended(run.drafts[index], run) for index in ended})
        waiting = [index for index in lost if index not in ended]
        if run.interrupted:
            records.update({index: _ended(run.drafts[index], run) for index in waiting})
            break
    return tuple(records[index] for index in range(len(request.settings)))


@dataclass(slots=True)
class _Run:
    """One child: what it sent, and how it ended."""

    records: dict[int, Document] = field(default_factory=dict)
    drafts: dict[int, Document] = field(default_factory=dict)
    at_work: int | None = None
    status: int = 0
    peak_bytes: int = 0
    interrupted: bool = False


def _run(request: Request, waiting: Sequence[int], progress: Progress) -> _Run:
    run = _Run()
    document = {**asdict(request), "settings": [asdict(request.settings[index]) for index in waiting]}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            [sys.executable, "-m", "kvaudit.measure.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(document).encode())
            child.stdin.close()
            for line in child.stdout:
                _take(run, line, waiting, progress)
        except KeyboardInterrupt:
            run.interrupted = True
            child.send_signal(signal.SIGTERM)
        # wait4 says how much memory the child took, however it ended.
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = run.status = os.waitstatus_to_exitcode(status)
        run.peak_bytes = used.ru_maxrss * 1024
        said.seek(0)
        last_words = said.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    if run.status > 0 and not run.interrupted:
        # It reported what it could not do as outcomes; anything else is a fault of the program.
        raise KvauditError(f"the measuring process failed: {' '.join(last_words) or f'exit code {run.status}'}")
    if not run.drafts and not run.records:
        if run.interrupted:
            raise KeyboardInterrupt  # there is nothing that could be recorded
        raise KvauditError("the measuring process ended before it said anything")
    return run


def _take(run: _Run, line: bytes, waiting: Sequence[int], progress: Progress) -> None:
    event: Any = strict_json.parse_json(line)
    if event["event"] == "at_work":
        run.at_work = None if event["index"] is None else waiting[event["index"]]
        progress(event["case"])
        return
    kept = run.records if event["event"] == "record" else run.drafts
    kept[waiting[event["index"]]] = event["record"]


def _ended(draft: Document, run: _Run) -> Document:
    """Return the draft of a record with the outcome of a child that ended without one of its own."""
    if run.interrupted:
        kind, reason, message = outcomes.UNMEASURED, outcomes.INTERRUPTED, "the run was interrupted"
    else:
        kind, reason = outcomes.RUNTIME_INADMISSIBLE, outcomes.KILLED
        name = signal.Signals(-run.status).name if run.status < 0 else f"exit code {run.status}"
        message = f"the process was ended by {name}, as a system does when memory runs out"
    message += f"; its peak so far was {run.peak_bytes} bytes (high-water mark of the process)"
    axes = {**draft["axes"], "failures": {**draft["axes"]["failures"], "outcome": kind, "reason": reason}}
    return {**draft, "outcome": {"class": kind, "reason": reason, "message": message}, "axes": axes}
