"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no server to ask."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
# MathML stretches brackets by itself.
_SIZES = re.compile(r"\\[bB]igg?(?![a-zA-Z])")
# Browsers stretch an opening bar or angle to the height of all that follows, and the closing one to nothing.
_BRACKETS = re.compile(r'<mo(?: class="math(?:open|close)")?>([‖⟨⟩])</mo>')


def _mathml(node: nodes.Element, as_block: bool) -> str:
    try:
        found = tex2mathml(_SIZES.sub("", node.astext()), as_block=as_block)
    except MathError as error:
        logger.warning("formula that cannot be turned into MathML: %s", error, location=node)
        return f"<code>{node.astext()}</code>"
    return _BRACKETS.sub(r'<mo stretchy="false">\1</mo>', found)


def _visit_inline(self: Any, node: nodes.Element) -> None:
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.Element) -> None:
    # Long formulas scroll by themselves on a phone, so the page does not.
    self.body.append(f'<div class="math-block" tabindex="0">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make ``html_math_renderer = "mathml"`` known to Sphinx."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
