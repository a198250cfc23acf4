"""Where the report of loop 4 says each figure of the specification."""

SUITE = "fixtures/loop04_static/invalid.json"


def positions(intervals):
    """The positions of half-open intervals, as the specification lists them."""
    return [position for begin, end in intervals for position in range(begin, end)]


def at(report, frontier):
    return next(row for row in report["results"]["frontiers"] if row["frontier"] == frontier)


def state(report, which):
    """Cache and state generation, frontier and sink-recent view of one state of the cancellation."""
    found = report["results"]["cancellations"][0][which]
    view = positions(found["views"]["sink_recent"])
    return [found["cache_generation"], found["state_generation"], found["frontier"], view]


def restored(report):
    """The state after the cancel; the last item says whether position 3, which the candidate hid, is visible."""
    *identity, view = state(report, "restored")
    return [*identity, 3 in view]


def decode_deltas(report):
    """What the window omits and drops at each accepted append of one row."""
    windows = [
        event["views"]["sliding_window"]
        for event in report["results"]["events"].values()
        if event["kind"] == "publish" and event["parent_frontier"] > 0
    ]
    return [[positions(view["omitted_from_source"]), positions(view["removed_from_parent"])] for view in windows]


def ledger(name):
    return lambda r: r["ledgers"][name]["value"]


FIGURES = {
    "L4.W_Ks": lambda r: [r["results"]["widths"]["window_rows"], r["results"]["widths"]["sink_rows"]],
    "L4.token_bytes": lambda r: r["results"]["token_bytes"],
    "L4.frontiers": lambda r: [
        [row["full_rows"], row["sliding_window_rows"], row["sink_recent_rows"], row["overlap_rows"]]
        for row in r["results"]["frontiers"]
    ],
    "L4.window_views": lambda r: [positions(row["sliding_window"]) for row in r["results"]["frontiers"]],
    "L4.sink_recent_views": lambda r: [positions(row["sink_recent"]) for row in r["results"]["frontiers"]],
    "L4.first_upper_bound": lambda r: r["results"]["first_upper_bound"],
    "L4.first_middle_omission": lambda r: r["results"]["first_middle_omission"],
    "L4.prompt_window": lambda r: positions(r["results"]["prompt_handoff"]["sliding_window"]["published"]),
    "L4.prompt_omitted": lambda r: positions(r["results"]["prompt_handoff"]["sliding_window"]["omitted_from_source"]),
    "L4.ring_slot": lambda r: next(
        row["slot"] for row in r["results"]["ring"]["rows"] if row["original_position"] == 6
    ),
    "L4.view_F8": lambda r: positions(at(r, 8)["sliding_window"]),
    "L4.delta": decode_deltas,
    "L4.reads.window_instances": lambda r: r["results"]["read_instances"]["sliding_window"],
    "L4.reads.window_bytes": ledger("cached_history_read_window"),
    "L4.reads.full_instances": lambda r: r["results"]["read_instances"]["full"],
    "L4.reads.full_bytes": ledger("cached_history_read_full"),
    "L4.reads.sink_recent_instances": lambda r: r["results"]["read_instances"]["sink_recent"],
    "L4.reads.sink_recent_bytes": ledger("cached_history_read_sink_recent"),
    "L4.cancel.parent": lambda r: state(r, "parent"),
    "L4.cancel.candidate": lambda r: state(r, "candidate"),
    "L4.cancel.restored": restored,
    "L4.cancel.resume": lambda r: state(r, "resume"),
    "L4.events": lambda r: len(r["results"]["events"]),
    "L4.snapshots": lambda r: len(r["snapshots"]),
    "L4.alt_generation_collisions": lambda r: r["results"]["alternative_trace"]["generation_collisions"],
    "L4.work.recompute": lambda r: [ledger("recompute_rows_projected")(r), ledger("recompute_pairs")(r)],
    "L4.work.retained": lambda r: [ledger("retained_rows_projected")(r), ledger("retained_pairs")(r)],
    "L4.delayed": lambda r: [
        [row["original_position"], *row["visible"].values()] for row in r["results"]["delayed_reference"]["references"]
    ],
    "L4.running_window": lambda r: [
        r["results"]["running_shape"]["sliding_window"]["rows"],
        r["results"]["running_shape"]["sliding_window"]["payload_bytes"],
    ],
    "L4.mutations": lambda r: r["invalid_suites"][SUITE]["rejected_as_expected"],
}
