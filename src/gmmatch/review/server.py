"""review: a page on this machine, on which a person decides about suspects; every answer is saved at once."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch._array import Indices, Mask, Vector
from gmmatch.errors import InvalidInputError, imported
from gmmatch.files import write_text
from gmmatch.report.content import Content, Contents, open_contents
from gmmatch.report.rendering import check_target
from gmmatch.review.decisions import (
    ANSWERS,
    DUPLICATE,
    Decision,
    Decisions,
    RowFinder,
    apply_decisions,
    read_decisions,
)
from gmmatch.review.page import (
    LARGE,
    add_contents,
    describe_content,
    describe_row,
    render_review,
    write_tasks,
)
from gmmatch.review.tools import ToolName
from gmmatch.rows.open import per_row_values
from gmmatch.screening.calibration import calibrate
from gmmatch.screening.result import DUPLICATE as COPY
from gmmatch.screening.result import MISLABELED, NOT_JUDGED, TRUSTED, ScreeningResult
from gmmatch.screening.screening import screen
from gmmatch.store.commits import WriterLock

# Answers about a sample of all rows, after which suspects are asked about.
_SAMPLED = 100
# The next of these draws lies as far as can be from all before (Roberts' sequence).
_GOLDEN = 0.6180339887498949


def order_questions(result: ScreeningResult, answered: Mask, limit: int = 5_000) -> Indices:
    """Return the rows to ask about next.

    The first hundred are a sample by suspicion: half of all rows, half of those in doubt. They settle how many labels
    are wrong. The others are suspects, those in most doubt first.

    Parameters
    ----------
    result : ScreeningResult
        What is known by now.
    answered : boolean array of shape (n,)
    limit : int
        The most rows to return.

    Returns
    -------
    int64 array of shape (m,)

    Examples
    --------
    >>> import gmmatch as gm
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> result = gm.screen(X, np.repeat(["ant", "bee", "cat"], 50), random_state=0)
    >>> len(order_questions(result, np.zeros(150, dtype=bool))) > 50
    True
    """
    excluded = answered.copy()
    sample = _draw_sample(result, excluded) if result.noise_rate is not None else []
    excluded[sample] = True
    doubt = _doubt(result)
    suspects = np.flatnonzero((doubt > 0.0) & ~excluded)
    suspects = suspects[np.lexsort((-result.suspicion[suspects], -doubt[suspects]))]
    return np.concatenate([np.array(sample, dtype=np.int64), suspects])[:limit]


def _draw_sample(result: ScreeningResult, excluded: Mask) -> list[int]:
    candidates = np.flatnonzero((result.given >= 0) & (result.verdict_codes != NOT_JUDGED))
    n_answered = int(excluded[candidates].sum())
    order = candidates[np.argsort(result.suspicion[candidates], kind="stable")]
    order = order[~excluded[order]]
    if not len(order):
        return []
    p = result.probability[order].astype(np.float64)
    doubt = np.sqrt(p * (1.0 - p))
    cumulative = np.cumsum(1.0 / len(order) + doubt / max(float(doubt.sum()), 1e-9))
    at = (0.5 + _GOLDEN * np.arange(n_answered, max(n_answered, _SAMPLED))) % 1.0
    rows = order[np.searchsorted(cumulative, at * cumulative[-1]).clip(0, len(order) - 1)]
    return list(dict.fromkeys(rows.tolist()))


def _doubt(result: ScreeningResult) -> Vector:
    """Return how much a decision about each row would settle, 0 for rows that nothing speaks against."""
    p = result.probability.astype(np.float64)
    doubt = np.where(result.reason_codes == MISLABELED, np.minimum(p, 1.0 - p) + 1e-6, 0.25)
    doubt[(result.verdict_codes == TRUSTED) | (result.verdict_codes == NOT_JUDGED)] = 0.0
    copies = np.flatnonzero(result.duplicate_of >= 0)
    differ = result.given[copies] != result.given[result.duplicate_of[copies]]
    is_copy = result.reason_codes[copies] == COPY
    # Of copies with different labels, at least one is wrong.
    doubt[copies[differ]] = 0.5
    doubt[copies[~differ & is_copy]] = 1e-3
    return np.asarray(doubt)


# Answers after which the order of what is left is computed again.
_REORDER = 10
# Rows of a page that asks the server for pictures, and of one that holds them.
_SERVED, _STATIC = 5_000, 500
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
        self.screening, self.ids, self.contents, self.path = screening, ids, contents, Path(output)
        self.decisions = read_decisions(self.path) if self.path.exists() else Decisions()
        self.find = RowFinder(len(screening), ids, y)
        self.labels = [] if self.find.names is None else list(map(str, screening.labels))
        rows = np.empty((len(screening), 0)) if ids is None else ids
        self.answers = apply_decisions(rows, y, self.decisions).answers
        self._cache: dict[int, Content] = {}
        self.learn()

    def learn(self) -> None:
        """Take the answers so far into account."""
        self.current = self.screening if self.answers is None else calibrate(self.screening, self.answers)

    @property
    def answered(self) -> dict[int, Decision]:
        """The decisions by row, in the order in which they were made."""
        pairs = ((self.find.row_of(decision), decision) for decision in self.decisions)
        return {row: decision for row, decision in pairs if row is not None}

    def order(self, limit: int) -> Indices:
        """Return the rows to ask about, the most useful first."""
        mask = np.zeros(len(self.screening), dtype=np.bool_)
        mask[list(self.answered)] = True
        return order_questions(self.current, mask, limit)

    def describe(self, row: int) -> dict[str, Any]:
        """Return what is asked about a row; a copy comes with the row that it is a copy of."""
        screening, original = self.screening, int(self.screening.duplicate_of[row])
        item = self._name(row)
        if self.labels and screening.suggested_codes[row] not in (-1, screening.given[row]):
            item["suggested"] = self.labels[screening.suggested_codes[row]]
        item["reason"] = str(screening.reason[row])
        if screening.noise_rate is not None and item["given"]:
            item["chance"] = round(100 * float(screening.probability[row]))
        if original >= 0 and (
            item["reason"] == DUPLICATE or screening.given[row] != screening.given[original]
        ):
            item.update(reason=DUPLICATE, partner=self._name(original))
        return item

    def _name(self, row: int) -> dict[str, Any]:
        return describe_row(row, None if self.ids is None else self.ids[row], self.find.label_of(row))

    def decide(self, values: dict[str, Any]) -> None:
        """Take an answer, or take one back if it is empty, and save all of them."""
        fields = {name: str(values.get(name, "")) for name in ("id", "given", "answer", "label", "keep")}
        decision = Decision(row=int(values["row"]), **fields)
        row = self.find.row_of(decision)
        if row is None or decision.answer not in ("", *ANSWERS):
            raise InvalidInputError(f"There is no row {decision.key}, or no answer {decision.answer!r}.")
        answer, after = self.find.settle(decision, row), Decisions(self.decisions)
        after.remove(decision.key)
        if decision.answer:
            after.add(decision)
        after.write(self.path)
        self.decisions = after
        if self.answers is not None:
            self.answers[row] = answer

    def state(self, limit: int = 0) -> dict[str, Any]:
        """Return the answers, what they teach, and up to ``limit`` rows to ask about."""
        answered, before, now = self.answered, self.screening, self.current
        state: dict[str, Any] = {
            "answers": [{**vars(answer), "row": row} for row, answer in answered.items()]
        }
        if limit:
            state["order"] = self.order(limit).tolist()
            state["items"] = [self.describe(row) for row in dict.fromkeys([*state["order"], *answered])]
        if now is not before and now.noise_rate is not None and now.noise_interval is not None:
            low, high = now.noise_interval
            state["learned"] = (
                f"By the answers so far, {now.noise_rate:.0%} of the labels are wrong (between {low:.0%} and "
                f"{high:.0%}); without them it was {before.noise_rate:.0%}."
            )
            rates = [
                [f"{line['noise_rate'] or 0:.0%}" for line in result.per_class()] for result in (before, now)
            ]
            names = [(str(line["label"]), f"{line['rows']:,}") for line in now.per_class()]
            state["classes"] = [[*name, *pair] for name, *pair in zip(names, *rates, strict=True)]
        return state

    def content(self, row: int) -> dict[str, Any]:
        """Return the picture or text of a row; the next rows are read with it."""
        if self.contents is not None and row not in self._cache:
            rows = np.append(self.order(_READ_AHEAD), row)
            wanted = np.setdiff1d([*rows, *self.screening.duplicate_of[rows]], [-1, *self._cache])
            self._cache.update(self.contents.fetch(wanted, **LARGE))
        return describe_content(self._cache.get(row))

    def write_tasks(self, path: Path, tool: ToolName) -> None:
        """Write the questions as another tool reads them."""
        items = [self.describe(row) for row in self.order(_STATIC).tolist()]
        write_tasks(path, tool, items, self.contents)

    def render(self, *, served: bool) -> str:
        """Return the page: served, or as one file that holds its pictures."""
        state = self.state(_SERVED if served else _STATIC)
        if not served:
            add_contents(state["items"], self.contents)
        name = f"{self.path.resolve()} {len(self.screening)}"
        return render_review(labels=self.labels, file=self.path.name, name=name, served=served, **state)


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
        own_page = f"http://{request.headers.get('host', '')}"
        return request.method == "GET" or (
            request.headers.get("origin") == own_page
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
            return JSONResponse(review.state(_SERVED), headers=_HEADERS)
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
        if len(review.decisions) % _REORDER:
            return review.state()
        review.learn()
        return review.state(_SERVED)

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
    tool: ToolName | None = None,
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
        The file of decisions (.csv); continued if it is there. One review at a time may write to it.
    source, optional
        The pictures or texts behind the rows, as in :func:`gmmatch.write_report`.
    ids : array of shape (n,), optional
        By which decisions name the rows; without, by their numbers.
    screening : ScreeningResult, optional
        What :func:`gmmatch.screen` returned for these rows, if it is there already.
    static : path, optional
        Write the questions to one file, and return at once: a page (.html) that downloads its decisions, or, with
        ``tool``, the tasks of another tool.
    tool : "label-studio", "argilla", "fiftyone" or "jsonl", optional
        Whose tasks ``static`` holds; :func:`gmmatch.read_decisions` reads what it exports.
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
    target = None if static is None else Path(static) if tool else check_target(static)
    uvicorn = None if target else imported("uvicorn", "The review needs Starlette and uvicorn", "review")
    y, ids = per_row_values(X, y, "labels"), per_row_values(X, ids, "ids")
    screening = screen(X, y, random_state=random_state) if screening is None else screening
    session = Review(screening, y, ids, open_contents(source, len(screening)), output)
    if target is not None and tool is not None:
        session.write_tasks(target, tool)
        return session.decisions
    if target is not None:
        write_text(target, session.render(served=False))
        return session.decisions
    token = secrets.token_urlsafe(24)
    assert uvicorn is not None
    with closing(WriterLock(session.path)), socket.socket() as listener:
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
