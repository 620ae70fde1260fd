"""The page of `review` in a headless Chromium, served by a process of its own that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass

import numpy as np
import pytest

import gmmatch as gm

from .looking import fresh, in_browser, saved, text
from .person import PROGRESS, answer_like_a_person

pytestmark = in_browser
N = 1700


@dataclass
class Address:
    """An address where Browser.open expects a file."""

    uri: str

    def resolve(self):
        return self

    def as_uri(self):
        return self.uri


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """1,700 pictures of digits, a third of them mislabeled, some of them copies with another label."""
    from PIL import Image
    from sklearn.datasets import load_digits

    random, digits, folder = np.random.default_rng(0), load_digits(), tmp_path_factory.mktemp("review")
    truth = digits.target[:N].copy()
    images = 14 * digits.images[:N] + random.integers(0, 20, (N, 8, 8))
    given = np.where(random.random(N) < 0.35, (truth + random.integers(1, 10, N)) % 10, truth)
    images[-5:], truth[-5:] = images[:5], truth[:5]
    given[:5], given[-5:] = truth[:5], (truth[:5] + 1) % 10
    for number in range(N):
        path = folder / "photos" / f"digit {given[number]}" / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[number].astype(np.uint8)).save(path)
    from gmmatch.data import open_source

    gm.embed(open_source(folder / "photos"), gm.load_encoder("pixels:8x8:gray"), folder / "photos.emb")
    return folder / "photos.emb", {f"{number:04}.png": f"digit {truth[number]}" for number in range(N)}


@pytest.fixture
def serve(store, tmp_path):
    """Start the command; the process and its address."""
    processes = []

    def start():
        command = [sys.executable, "-m", "gmmatch", "review", str(store[0]), "-o", str(tmp_path / "d.csv")]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [*command, "--no-open"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        processes.append(process)
        for line in process.stderr:
            if line.startswith("Decide at "):
                return process, line.split()[2]
        raise AssertionError("the command ended before it served anything")

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


def decisions_in(tmp_path):
    return gm.read_decisions(tmp_path / "d.csv") if (tmp_path / "d.csv").exists() else gm.Decisions()


def test_five_hundred_decisions(browser, serve, store, tmp_path):
    process, url = serve()
    browser.prefer()
    browser.open(Address(url))
    truth = store[1]
    for _ in range(500):
        answer_like_a_person(browser, truth)
    assert "500 answered" in browser.run(PROGRESS)
    decisions = decisions_in(tmp_path)
    assert len(decisions) == 500
    for decision in decisions:
        name = decision.id.rpartition("/")[2]
        if decision.answer in ("right", "wrong"):
            assert (decision.label or decision.given) == truth[name]
    assert decisions.counts["wrong"] > 200 and decisions.counts["duplicate"] >= 4
    learned = text(browser, "#learned")
    assert "of the labels are wrong" in learned
    assert browser.complaints == []
    assert {address.startswith((url, "data:")) for address in browser.requests} == {True}
    browser.click("#done")
    browser.until("document.querySelector('h1').textContent === 'Done'")
    assert process.wait(timeout=60) == 0
    # The decisions clean the data.
    cleaned = gm.clean(gm.open_store(store[0]), tmp_path / "clean", decisions=decisions)
    labels = [path.parent.name == truth[path.name] for path in (tmp_path / "clean").rglob("*.png")]
    assert cleaned.n_kept == len(labels) and np.mean(labels) > 0.97


def test_reload_undo_filter_and_a_second_tab(browser, serve, store, tmp_path):
    _, url = serve()
    browser.prefer()
    browser.open(Address(url))
    names = [answer_like_a_person(browser, store[1]) for _ in range(7)]
    assert "7 answered" in browser.run(PROGRESS)
    browser.open(Address(url))
    assert "7 answered" in browser.run(PROGRESS) and text(browser, "article .hint:last-child") not in names
    browser.press("z", 90, "z")
    browser.until(f"{PROGRESS}.includes('6 answered')")
    assert text(browser, "article .hint:last-child") == names[-1] and len(decisions_in(tmp_path)) == 6
    # A second tab sees them, and the first one learns of what is answered there.
    first = browser._session
    browser._session = None
    target = browser.send("Target.createTarget", url=url)["targetId"]
    browser._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.until(
        "document.readyState === 'complete' && document.querySelector('article .hint:last-child') !== null"
    )
    assert "6 answered" in browser.run(PROGRESS)
    answer_like_a_person(browser, store[1])
    second, browser._session = browser._session, first
    assert second != first
    browser.run("window.dispatchEvent(new Event('focus'))")
    browser.until(f"{PROGRESS}.includes('7 answered')")
    browser.run(
        "(() => { const by = document.getElementById('by-reason'); by.value = 'duplicate';"
        " by.dispatchEvent(new Event('change')); })()"
    )
    browser.until("document.querySelectorAll('article').length === 2")
    assert "5 left" in browser.run(PROGRESS) or "4 left" in browser.run(PROGRESS)
    browser._session = None
    browser.send("Target.closeTarget", targetId=target)
    browser._session = first


def test_a_killed_server_loses_nothing_and_says_so(browser, serve, store, tmp_path):
    process, url = serve()
    browser.prefer()
    browser.open(Address(url))
    for _ in range(5):
        answer_like_a_person(browser, store[1])
    process.kill()
    process.wait()
    shown = text(browser, "article .hint:last-child")
    browser.press("r", 82, "r")
    browser.press("r", 82, "r")
    browser.until("document.getElementById('message').textContent.startsWith('Not saved')")
    assert text(browser, "article .hint:last-child") == shown
    assert len(decisions_in(tmp_path)) == 5
    process, url = serve()
    browser.open(Address(url))
    assert "5 answered" in browser.run(PROGRESS)
    answer_like_a_person(browser, store[1])
    assert len(decisions_in(tmp_path)) == 6
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    assert "6 rows" in process.stderr.read()


def ask(url, data=None, **headers):
    """The status of a request."""
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_strangers_get_nothing(serve, tmp_path):
    _, url = serve()
    origin = url.rpartition("/")[0].rpartition("/")[0]
    body, json_type = b'{"row": 1, "answer": "drop"}', {"Content-Type": "application/json"}
    assert ask(url) == 200
    assert ask(f"{origin}/") == 404 and ask(f"{origin}/guess/") == 404
    assert ask(url, Host="evil.example") == 400
    assert ask(f"{url}answers", body, **json_type) == 404
    assert ask(f"{url}answers", body, Origin="http://evil.example", **json_type) == 404
    assert ask(f"{url}answers", body, Origin=origin, **{"Content-Type": "text/plain"}) == 404
    assert ask(f"{url}content/99999") == 404 and ask(f"{url}content/../../etc/passwd") == 404
    assert ask(f"{url}answers", b'{"row": 1, "answer": "perhaps"}', Origin=origin, **json_type) == 400
    assert len(decisions_in(tmp_path)) == 0
    with urllib.request.urlopen(url) as answer:
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"


def test_one_file_without_a_server(browser, store, tmp_path):
    opened = gm.open_store(store[0])
    page = tmp_path / "review.html"
    gm.review(opened, output=tmp_path / "d.csv", source=store[0].with_name("photos"), static=page)
    assert "connect-src" not in page.read_text(encoding="utf-8")
    browser.prefer()
    fresh(browser, page)
    assert browser.run("document.querySelector('.content img').complete")
    for _ in range(6):
        answer_like_a_person(browser, store[1])
    browser.open(page)
    assert "6 answered" in browser.run(PROGRESS)
    (tmp_path / "d.csv").write_text(saved(browser, "#save"))
    decisions = gm.read_decisions(tmp_path / "d.csv")
    assert len(decisions) == 6
    settled = gm.apply_decisions(opened, opened.labels, decisions)
    for row in np.flatnonzero(settled.keep & settled.decided):
        assert settled.labels[row] == store[1][opened.ids[row].rpartition("/")[2]]
    assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser, store, tmp_path, scheme):
    gm.review(gm.open_store(store[0]), output=tmp_path / "d.csv", static=tmp_path / "review.html")
    browser.prefer(prefers_color_scheme=scheme)
    browser.open(tmp_path / "review.html", width=390, height=844, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.prefer()
