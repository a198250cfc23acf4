"""The built site in a real headless Chromium, at the width of a desk and of a phone: `make test-site`.

A page of our own loads each page of the site in a frame of the wanted width and measures it there; Chromium prints that
page when it is done. The site is served from this machine; whatever it asks for and does not get is a failure, and so
is any message on the console. Nothing here is skipped: without Chromium the test fails.
"""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvaudit.site.audit import read

ROOT = Path(__file__).parents[2]
WIDTHS = {"desk": 1280, "phone": 390, "narrow phone": 320}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--virtual-time-budget=120000",
    "--dump-dom",
)
MEASURE = """<!doctype html><html lang="en"><title>measure</title><body><script>
const frames = FRAMES, found = {};
const shown = box => box.width > 0 && box.height > 0;
async function measure(page, label, width, scheme) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:900px;border:0;color-scheme:${scheme}`;
  frame.src = page;
  const loaded = new Promise(resolve => frame.addEventListener("load", resolve));
  document.body.append(frame);
  await loaded;
  const view = frame.contentDocument, root = view.documentElement;
  const style = frame.contentWindow.getComputedStyle(root);
  const outside = [...view.body.querySelectorAll("main *, header *, nav *, footer *")].filter(each =>
    each.getBoundingClientRect().right > root.clientWidth + 1 && !each.closest(".scroll, pre"));
  found[`${page} ${label} ${scheme}`] = {
    width: root.clientWidth, scrolled: root.scrollWidth,
    outside: outside.map(each => each.outerHTML.slice(0, 80)),
    maths: view.querySelectorAll("math").length,
    sizeless: [...view.querySelectorAll("math")].filter(each => !shown(each.getBoundingClientRect())).length,
    broken: [...view.images].filter(each => !each.complete || !each.naturalWidth).map(each => each.src),
    paper: style.backgroundColor, ink: style.color, title: view.title,
  };
  frame.remove();
}
(async () => {
  for (const [page, label, width, scheme] of frames) await measure(page, label, width, scheme);
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
})();
</script></body></html>"""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "kvaudit", "publication", "--build", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


class _Server(http.server.SimpleHTTPRequestHandler):
    measure = b""
    refused: list[str] = []  # noqa: RUF012 - one list a test run, read after it

    def do_GET(self):
        if self.path == "/measure":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(self.measure)
        else:
            super().do_GET()

    def send_error(self, code, *rest):
        self.refused.append(f"{code} {self.path}")
        super().send_error(code, *rest)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def measured(site, tmp_path_factory):
    """What Chromium measured, by page, width and scheme; what it logged; what the server could not give."""
    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if program is None:
        pytest.fail("no Chromium; on Debian: apt-get install chromium")
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    frames = [
        (page, label, width, scheme)
        for page in pages
        for label, width in WIDTHS.items()
        for scheme in (("light", "dark") if label == "desk" else ("light",))
    ]
    _Server.measure = MEASURE.replace("FRAMES", json.dumps(frames)).encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Server, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        profile = f"--user-data-dir={tmp_path_factory.mktemp('profile')}"
        address = f"http://127.0.0.1:{server.server_port}/measure"
        command = [program, *FLAGS, profile, "--window-size=1400,1000", address]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    answer = re.search(r'<pre id="result">(.*?)</pre>', result.stdout, re.DOTALL)
    assert answer, f"Chromium measured nothing: {result.stderr[-2000:]}"
    found = json.loads(html.unescape(answer[1]))
    assert len(found) == len(frames)
    return found, [line for line in result.stderr.splitlines() if "CONSOLE" in line], _Server.refused


def test_every_page_was_opened(site, measured):
    pages = {name.split(" ")[0] for name in measured[0]}
    assert pages == {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert all(each["title"] for each in measured[0].values())


def test_nothing_overflows_the_width(measured):
    wide = {name: each["outside"] for name, each in measured[0].items() if each["scrolled"] > each["width"]}
    assert wide == {}
    assert {name: each["outside"] for name, each in measured[0].items() if each["outside"]} == {}


def test_every_formula_has_a_size(site, measured):
    for name, each in measured[0].items():
        nodes = len(read((site / name.split(" ")[0]).read_text(encoding="utf-8")).maths)
        assert (each["maths"], each["sizeless"]) == (nodes, 0), name
    assert sum(each["maths"] for each in measured[0].values()) > 0


def test_every_drawing_is_shown(measured):
    assert [name for name, each in measured[0].items() if each["broken"]] == []


def test_the_console_is_silent_and_everything_was_there(measured):
    assert measured[1] == []
    assert [each for each in measured[2] if "favicon" not in each] == []


def test_night_is_dark_and_day_is_light(measured):
    def brightness(colour):
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3

    for name, each in measured[0].items():
        paper, ink = brightness(each["paper"]), brightness(each["ink"])
        assert (paper < ink) == name.endswith(" dark"), name
        assert abs(paper - ink) > 150, name
