"""review: a page on this machine, on which a person decides about suspects; every answer is saved at once."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import InvalidInputError, imported
from gmmatch.files import write_file
from gmmatch.report.content import Content, Contents, open_contents
from gmmatch.report.rendering import check_target
from gmmatch.review.decisions import ANSWERS, Decision, Decisions, RowFinder, apply_decisions, read_decisions
from gmmatch.review.page import Questions, describe_content, render_review
from gmmatch.review.queue import order_questions
from gmmatch.rows.open import per_row_values
from gmmatch.screening.calibration import calibrate
from gmmatch.screening.result import ScreeningResult
from gmmatch.screening.screening import screen

# Answers after which the order of what is left is computed again.
_REORDER = 10
# Rows of a page that asks the server for pictures, and of one that holds them.
_SERVED, _STATIC = 5_000, 500
_SIDE, _LENGTH = 640, 20_000
# Rows that are read together, as one of a table is found by reading those before it.
_READ_AHEAD = 24
_HEADERS = {
    "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip


class Review:
    """Questions about rows, the answers so far, and what they taught.

    Parameters
    ----------
    screening : ScreeningResult
        Without any answers.
    y, ids : arrays of shape (n,), optional
    contents : Contents, optional
    output : path
        The file of decisions; continued if it is there.
    """

    def __init__(
        self,
        screening: ScreeningResult,
        y: Any,
        ids: Any,
        contents: Contents | None,
        output: str | os.PathLike[str],
    ) -> None:
        self.screening, self.contents, self.path = screening, contents, Path(output)
        self.decisions = read_decisions(self.path) if self.path.exists() else Decisions()
        self.find = RowFinder(len(screening), ids, y)
        self.questions = Questions(screening, ids)
        rows = np.empty((len(screening), 0)) if ids is None else ids
        settled = apply_decisions(rows, y, self.decisions)
        self.answers = settled.answers
        self.current = self._learn()
        self._cache: dict[int, Content] = {}

    def _learn(self) -> ScreeningResult:
        return self.screening if self.answers is None else calibrate(self.screening, self.answers)

    def order(self, limit: int) -> Indices:
        """Return the rows to ask about, the most useful first."""
        answered = np.zeros(len(self.screening), dtype=np.bool_)
        answered[[row for decision in self.decisions if (row := self.find.row_of(decision)) is not None]] = (
            True
        )
        return order_questions(self.current, answered, limit)

    def items(self, rows: Any) -> list[dict[str, Any]]:
        """Return what is asked about rows, and about those that were answered."""
        answered = [self.find.row_of(decision) for decision in self.decisions]
        return self.questions.items(dict.fromkeys([*rows, *(row for row in answered if row is not None)]))

    def decide(self, values: dict[str, Any]) -> None:
        """Take an answer, or take one back if it is empty, and save all of them."""
        fields = {name: str(values.get(name, "")) for name in ("id", "given", "answer", "label", "keep")}
        decision = Decision(row=int(values["row"]), **fields)
        row = self.find.row_of(decision)
        if row is None or decision.answer not in ("", *ANSWERS):
            raise InvalidInputError(f"There is no row {decision.key}, or no answer {decision.answer!r}.")
        answer = self.find.settle(decision, row)
        before = Decisions(self.decisions)
        if decision.answer:
            self.decisions.add(decision)
        else:
            self.decisions.remove(decision.key)
        try:
            self.decisions.write(self.path)
        except BaseException:
            self.decisions = before
            raise
        if self.answers is not None:
            self.answers[row] = answer

    def state(self, *, reorder: bool = False) -> dict[str, Any]:
        """Return the answers, and what they teach; now and then the order of what is left as well."""
        answers = [
            {**vars(decision), "row": row}
            for decision in self.decisions
            if (row := self.find.row_of(decision)) is not None
        ]
        if not reorder:
            return {"answers": answers, **self.lessons()}
        self.current = self._learn()
        rows = self.order(_SERVED)
        return {"answers": answers, "order": rows.tolist(), "items": self.items(rows), **self.lessons()}

    def lessons(self) -> dict[str, Any]:
        """Say what the answers have taught so far."""
        before, now = self.screening, self.current
        if now is before or now.noise_rate is None or now.noise_interval is None:
            return {"learned": ""}
        low, high = now.noise_interval
        learned = (
            f"By the answers so far, {now.noise_rate:.0%} of the labels are wrong (between {low:.0%} and "
            f"{high:.0%}); without them it was {before.noise_rate:.0%}."
        )
        pairs = zip(before.per_class(), now.per_class(), strict=True)
        lines = [
            [
                str(old["label"]),
                f"{old['rows']:,}",
                *(f"{line['noise_rate'] or 0.0:.0%}" for line in (old, new)),
            ]
            for old, new in pairs
        ]
        return {"learned": learned, "classes": lines[:200]}

    def content(self, row: int) -> dict[str, Any]:
        """Return the picture or text of a row; the next rows are read with it."""
        if self.contents is not None and row not in self._cache:
            rows = self.order(_READ_AHEAD)
            originals = self.screening.duplicate_of[rows]
            wanted = np.unique(np.concatenate([[row], rows, originals[originals >= 0]]))
            wanted = np.array([r for r in wanted.tolist() if r not in self._cache], dtype=np.int64)
            self._cache.update(self.contents.fetch(wanted, side=_SIDE, length=_LENGTH))
        return describe_content(self._cache.get(row))

    def render(self, *, served: bool) -> str:
        """Return the page: served, or as one file that holds its pictures."""
        rows = self.order(_SERVED if served else _STATIC)
        items = self.items(rows)
        if not served and self.contents is not None:
            shown = [row for item in items for row in (item, item["partner"]) if row is not None]
            pictures = self.contents.fetch(np.array([row["row"] for row in shown], dtype=np.int64))
            for row in shown:
                row["content"] = describe_content(pictures.get(row["row"]))
        state = self.state()
        labels = [] if self.find.names is None else self.questions.labels
        name = f"{self.path.resolve()} {len(self.screening)}"
        more = {"answers": [], **self.lessons()}
        del more["answers"]
        return render_review(
            items, labels, file=self.path.name, name=name, served=served,
            answers=[Decision(**answer) for answer in state["answers"]], **more,
        )  # fmt: skip


def make_app(review: Review, token: str, stop: Callable[[], None]) -> Any:
    """Return the application: it answers who knows the token, and takes answers from its own page only."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    def is_known(request: Request) -> bool:
        if not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
            return False
        own = f"http://{request.headers.get('host', '')}"
        return request.method == "GET" or (
            request.headers.get("origin") == own
            and request.headers.get("content-type", "").startswith("application/json")
        )

    # One request after another: a coroutine that awaits nothing in its middle is not interrupted.
    async def answer(request: Request) -> Response:
        if not is_known(request):
            return Response("Not found.", 404, headers=_HEADERS)
        action = request.path_params.get("action", "")
        if request.method == "POST":
            values = await request.json()
            try:
                return JSONResponse(post(action, values), headers=_HEADERS)
            except (ValueError, KeyError, OSError) as error:
                return JSONResponse({"error": str(error)}, 400, headers=_HEADERS)
        if not action:
            return HTMLResponse(review.render(served=True), headers=_HEADERS)
        if action == "state":
            return JSONResponse(review.state(reorder=True), headers=_HEADERS)
        row = action.removeprefix("content/")
        if not (row.isdecimal() and int(row) < len(review.screening)):
            return Response("Not found.", 404, headers=_HEADERS)
        return JSONResponse(review.content(int(row)), headers=_HEADERS)

    def post(action: str, values: dict[str, Any]) -> dict[str, Any]:
        if action == "done":
            stop()
            return {}
        if action != "answers":
            raise InvalidInputError("There is no such action.")
        review.decide(values)
        return review.state(reorder=len(review.decisions) % _REORDER == 0)

    routes = [Route("/{token}/{action:path}", answer, methods=["GET", "POST"])]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(routes=routes, middleware=[hosts])


def review(
    X: Any,
    y: Any = None,
    *,
    output: str | os.PathLike[str],
    source: Any = None,
    ids: Any = None,
    screening: ScreeningResult | None = None,
    static: str | os.PathLike[str] | None = None,
    port: int = 0,
    announce: Callable[[str], object] | None = None,
    random_state: int = 0,
) -> Decisions:
    """Go through suspects in the browser, by keyboard; every answer is saved at once.

    It serves one page to this machine alone, at an address that nobody else knows, until "Done" is pressed there or
    Ctrl-C here.

    Parameters
    ----------
    X : store, array of shape (n, s), or other rows
        An open store brings its labels and ids along.
    y : array of shape (n,), optional
        Labels.
    output : path
        The file of decisions (.csv); continued if it is there.
    source, optional
        The pictures or texts behind the rows, as in :func:`gmmatch.write_report`.
    ids : array of shape (n,), optional
        By which decisions name the rows; without, by their numbers.
    screening : ScreeningResult, optional
        What :func:`gmmatch.screen` returned for these rows, if it is there already.
    static : path, optional
        Write the page as one file (.html) that downloads its decisions, and return at once.
    port : int
        Of the server; any free one by default.
    announce : callable, optional
        Called with the address; by default it is opened in a browser.
    random_state : int

    Returns
    -------
    Decisions
        All that the file holds.

    Examples
    --------
    >>> import tempfile
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat(["ant", "bee", "cat"], 50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     review(X, y, output=f"{folder}/decisions.csv", static=f"{folder}/review.html")
    Decisions about 0 rows
    """
    target = None if static is None else check_target(static)
    uvicorn = None if target else imported("uvicorn", "The review needs Starlette and uvicorn", "review")
    y, ids = per_row_values(X, y, "labels"), per_row_values(X, ids, "ids")
    screening = screen(X, y, random_state=random_state) if screening is None else screening
    session = Review(screening, y, ids, open_contents(source, len(screening)), output)
    if target is not None:
        write_file(target, [session.render(served=False).encode("utf-8", "replace")])
        return session.decisions
    token = secrets.token_urlsafe(24)
    assert uvicorn is not None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()

        def stop() -> None:
            server.should_exit = True

        config = uvicorn.Config(
            make_app(session, token, stop), log_level="error", access_log=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        (announce or webbrowser.open)(f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/")
        with suppress(KeyboardInterrupt):  # how a review usually ends
            server.run(sockets=[listener])
    return session.decisions
