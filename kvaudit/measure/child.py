"""The child process that measures: a request on stdin, one JSON event a line on stdout.

Before anything that may fail it sends a record of every setting as it would be if the process died now, and says which
setting is at work. So the parent can record a death that nobody was left to report.
"""

import json
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.evidence import canonical, files
from kvaudit.measure import checkpoint as checkpoints
from kvaudit.measure import environment, outcomes, policies, prompts, record
from kvaudit.measure.outcomes import KILLED, PROMPT, RUNTIME_INADMISSIBLE, UNMEASURED, Stopped
from kvaudit.measure.record import Context
from kvaudit.measure.run import Measured, Setting, run
from kvaudit.measure.selection import Budget

Send = Callable[..., None]


def main() -> None:
    """Measure what the request on stdin asks for."""
    # Whatever a library prints must not end up between the events.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.read())

    def send(event: str, **members: Any) -> None:
        events.write(json.dumps({"event": event, **members}) + "\n")
        events.flush()

    if request["memory_limit_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory_limit_bytes"],) * 2)
    measure(request, send)


def measure(request: dict[str, Any], send: Send) -> None:
    """Send a record for every setting of a request."""
    import torch

    if request["threads"] is not None:
        torch.set_num_threads(request["threads"])
    context = Context(
        checkpoint=None,
        environment=environment.described(request["device"] if torch.cuda.is_available() else "cpu"),
        prompts_sha256=None,
        task=request["task"],
        question=request["question"],
        decode_tokens=request["decode_tokens"],
        tolerance_nats=Fraction(request["tolerance_nats"]),
        prompts=None,
    )
    resolved = [_setting(stated) for stated in request["settings"]]
    settings = [setting for setting, _ in resolved]
    open_ones = []
    for index, (setting, end) in enumerate(resolved):
        if end is None:
            open_ones.append(index)
        else:
            _send_record(send, index, record.stopped(setting, end, context))
    _send_drafts(send, open_ones, settings, context)
    try:
        data = files.read_regular(Path(request["prompts"]))
        parsed = prompts.parse(data)
        context = replace(context, prompts_sha256=canonical.sha256(data))
        loaded = checkpoints.load(
            Path(request["model"]), dtype=request["dtype"], device=request["device"], name=request["name"]
        )
        context = replace(context, checkpoint=loaded)
        cases = prompts.cases(parsed, loaded.tokenizer, request["question"], request["decode_tokens"])
        context = replace(context, prompts=len(cases))
    except FileDefect as defect:
        line = f" line {defect.line}" if defect.line else ""
        message = f"{Path(request['prompts']).name}{line}{defect.pointer}: {defect.message}"
        _send_all(send, open_ones, settings, Stopped(RUNTIME_INADMISSIBLE, PROMPT, message), context)
        return
    except Stopped as end:
        _send_all(send, open_ones, settings, end, context)
        return
    except (MemoryError, OSError, RuntimeError) as error:
        if not outcomes.exhausted(error):
            raise
        found = environment.peak("cpu", was_reset=False)
        message = f"memory ran out while the model was loaded; the peak so far was {found.peak_bytes} bytes"
        _send_all(send, open_ones, settings, Stopped(RUNTIME_INADMISSIBLE, outcomes.MEMORY, message), context)
        return
    _send_drafts(send, open_ones, settings, context)
    chosen = [settings[index] for index in open_ones]

    def at_work(case: str, which: int | None) -> None:
        send("at_work", case=case, index=None if which is None else open_ones[which])

    for index, measured in zip(open_ones, run(loaded, cases, chosen, request["decode_tokens"], at_work), strict=True):
        _send_record(send, index, record.document(measured, context))


def _setting(stated: dict[str, Any]) -> tuple[Setting, Stopped | None]:
    """Return a setting from a request, and why it is refused, if it is; the parent has checked the name."""
    policy = policies.policy_by_name(stated["policy"])
    assert policy is not None
    budget = stated["budget"]
    asked = None if budget is None else Budget(Fraction(budget["value"]), budget["unit"], budget["scope"])
    try:
        return Setting(policy, policies.resolved(policy, stated["parameters"]), asked, stated["seed"]), None
    except Stopped as end:
        return Setting(policy, dict(stated["parameters"]), asked, stated["seed"]), end


def _send_drafts(send: Send, indices: list[int], settings: list[Setting], context: Context) -> None:
    end = Stopped(UNMEASURED, KILLED, "the process ended before anything was measured")
    for index in indices:
        send("draft", index=index, record=canonical.written(record.stopped(settings[index], end, context)))


def _send_all(send: Send, indices: list[int], settings: list[Setting], end: Stopped, context: Context) -> None:
    for index in indices:
        _send_record(send, index, record.document(Measured(settings[index], (), end), context))


def _send_record(send: Send, index: int, document: dict[str, Any]) -> None:
    send("record", index=index, record=canonical.written(document))


if __name__ == "__main__":
    main()
