"""Documents of `kvaudit.frontier/1` for tests: fully declared, and what the tests do to them."""

from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import frontier as cohort
from tests.reconcile.documents import value_for


def stated():
    """Return (coordinates, metrics) that leave nothing open."""
    values = {name: systems.to_json(value_for(key)) for name, key in cohort.system().keys.items()}
    own = {name: value for name, value in values.items() if name.startswith("metric.")}
    return (
        {name: value for name, value in values.items() if name not in own},
        {name: dict(own) for name in cohort.METRICS},
    )


def point(method, budget, size, speed, quality, **more):
    """Return a point whose metadata is a tenth of its resident bytes."""
    return {
        "method": method,
        "budget_index": budget,
        "resident_bytes_per_token": size,
        "resident_parts": {"payload": size - size // 10, "paging": 0, "metadata": size // 10},
        "hbm_bytes_per_token": size,
        "tokens_per_second": speed,
        "quality": quality,
        "kernel_path": f"the path of {method}",
        "engine_settings": {"chunked_prefill": False},
        **more,
    }


def document(points=None, **members):
    """Return a document with three methods: by default one point dominated, one outside the tolerance."""
    coordinates, metrics = stated()
    points = points or [
        point("dense", 0, 1000, 100, 80),
        point("codes", 0, 500, 150, 79),
        point("codes", 1, 250, 140, 79),
        point("codes", 2, 100, 160, 70),
        point("drop", 0, 600, 120, 80),
    ]
    return {
        "schema": "kvaudit.frontier/1",
        "id": "a-sweep",
        "dense_method": "dense",
        "quality_tolerance": 1,
        "coordinates": coordinates,
        "metrics": metrics,
        "points": points,
        **members,
    }
