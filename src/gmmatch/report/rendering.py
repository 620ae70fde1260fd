"""From data to a page: the templates, the style and the script, in one file that may load nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch import __version__
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, imported

if TYPE_CHECKING:
    from markupsafe import Markup

CONNECT = "connect-src 'self'; "
_ASSETS = Path(__file__).parent / "assets"
# In JSON these occur in texts only, where an escape means the same. With them gone, nothing can end the
# element that holds it, and JavaScript's two extra line ends cannot occur.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def check_target(path: str | os.PathLike[str]) -> Path:
    """Raise unless a page can be written there; called before the work, not after it.

    Examples
    --------
    >>> check_target("picks.parquet")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: picks.parquet: give a name that ends in .html.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"{target}: give a name that ends in .html.")
    if not target.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{target}: there is no folder {target.parent}.")
    _import_jinja()
    return target


def render_page(
    template: str, values: dict[str, Any], *, scripts: Sequence[str], connect: bool = False
) -> str:
    """Render a template of this package; with ``connect`` its script may ask the server that it came from.

    Everything that comes from the data is escaped; and should that fail one day, the page's own policy
    allows no script or style but the two it was written with, and no request to anybody else.
    """
    jinja2 = _import_jinja()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=lambda value: f"{value:,}",
        number=lambda value: "–" if value is None or value != value else f"{value:.3g}",
        percent=lambda value: "–" if value is None else f"{100 * value:.1f}%",
        chance=lambda value: ">99%" if value >= 0.995 else f"{value:.0%}",
    )
    style = _read_asset("style.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_read_asset, scripts)) + "})();\n"
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        f"{CONNECT * connect}base-uri 'none'; form-action 'none'"
    )
    return str(
        environment.get_template(template).render(
            style=style, script=script, policy=policy, version=__version__, **values
        )
    )


def json_for_page(value: Any) -> Markup:
    """Return JSON that can stand inside a ``script`` element, whatever texts it holds.

    Examples
    --------
    >>> print(json_for_page({"name": "</script>&"}))
    {"name":"\\u003c/script\\u003e\\u0026"}
    """
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _read_asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _import_jinja() -> Any:
    return imported("jinja2", "The report needs Jinja2", "report")
