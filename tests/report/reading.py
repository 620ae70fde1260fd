"""Reading a page as a browser would, without one."""

from __future__ import annotations

import base64
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

VOID = {"meta", "link", "img", "input", "br", "rect", "circle", "line", "path", "polyline", "polygon"}


class Page(HTMLParser):
    """The elements of a page: name, attributes and the text inside each."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.badly_nested: list[str] = []
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        text: list[str] = []
        self.elements.append((tag, dict(attrs), text))
        if tag not in VOID:
            self._open.append((tag, text))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.badly_nested.append(f"{tag} at {self.getpos()}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for _, text in self._open:
            text.append(data)

    def all(self, tag: str, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        """The elements of a name with these attributes, as pairs of attributes and text."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            (attrs, "".join(text))
            for name, attrs, text in self.elements
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]

    def words(self) -> str:
        """The text that is seen, without script, style and data."""
        (body,) = ["".join(text) for name, _, text in self.elements if name == "body"]
        for _, hidden in self.all("script"):
            body = body.replace(hidden, "")
        return " ".join(body.split())

    def table(self, name: str) -> dict[str, list[str]]:
        """The lines of the table in a region, by their heading."""
        source = self.source.partition(f'aria-label="{name}"')[2].partition("</table>")[0]
        return {line[0]: line[1:] for line in map(_cells, source.split("<tr>")[1:])}

    def map(self, number: int = 0) -> np.ndarray:
        """The points of a map, shape (n, 2)."""
        drawn = self.data()["maps"][number]
        return np.stack([unpacked(drawn["x"]), unpacked(drawn["y"])], axis=1)

    def data(self) -> dict[str, Any]:
        """What the page's script draws the map from."""
        ((_, text),) = self.all("script", id="page-data")
        return json.loads(text)


def unpacked(array: dict[str, str]) -> np.ndarray:
    """An array as the page's script would see it."""
    types = {"Float32Array": "<f4", "Uint32Array": "<u4", "Uint16Array": "<u2", "Uint8Array": "u1"}
    return np.frombuffer(base64.b64decode(array["data"]), dtype=types[array["type"]])


def _cells(line: str) -> list[str]:
    texts = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, flags=re.DOTALL)
    return [" ".join(html.unescape(re.sub("<[^>]*>", "", text)).split()) for text in texts]
