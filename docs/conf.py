"""How Sphinx builds the site; ``make docs`` runs it. Nothing here needs a network."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import gmmatch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

ROOT_FILES = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}

project = "gmmatch"
author = "The gmmatch developers"
project_copyright = author
version = release = gmmatch.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "extensions.mathml",
]
# The times page fetches a script from a server, and times of examples are nobody's concern.
exclude_patterns = ["_build", "scripts", "extensions", "**/sg_execution_times.rst", "sg_execution_times.rst"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
# So that [a section](choose.md#wrong-labels) works as it does on code hosts.
myst_heading_anchors = 3
html_math_renderer = "mathml"

# A docstring says its types in words; repeating the annotations makes signatures unreadable.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
# Types are prose ("array of shape (n, s)"): as fields, each word of theirs would be looked up as a class.
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]
templates_path = ["_templates"]

# A copied block has no prompts and no output in it.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_logo = html_favicon = "_static/logo.svg"
html_title = "gmmatch"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
_ICONS = {"Repository": "fa-solid fa-code-branch", "Paper": "fa-solid fa-file-lines"}
_URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
html_theme_options: dict[str, Any] = {
    "logo": {"text": "gmmatch"},
    "navbar_align": "left",
    "navbar_start": ["navbar-logo", "version"],
    "icon_links": [{"name": name, "url": url, "icon": _ICONS[name]} for name, url in _URLS.items()],
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    # A list of sections only where pages are long: guides, results and studies use its room.
    "secondary_sidebar_items": {pages: ["page-toc"] for pages in ("api/**", "auto_examples/**")},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# The start page, and pages of one screen, have no neighbors to list.
html_sidebars: dict[str, list[str]] = {
    "index": [],
    "start": [],
    "choose": [],
    "commands": [],
    "changelog": [],
}

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    # Every example is run, not only those called plot_something, except the one that starts Ray.
    "filename_pattern": r"^(?!.*ray_cluster).*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10_000,
}


def _skip_inherited_machinery(
    app: Any, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator: its docstrings link to its own site."""
    return True if str(getattr(thing, "__module__", "")).startswith("sklearn.") else None


def _keep_absolute_values(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write the size of a set as |G|, which reStructuredText takes for a substitution."""
    lines[:] = [re.sub(r"\|([A-Z])\|", r"\\|\1\\|", line) for line in lines]


def _root_file(app: Any, page: str, source: list[str]) -> None:
    """Fill the pages that stand for a file of the repository's root, with its links seen from here."""
    if page not in ROOT_FILES:
        return
    text = (HERE.parent / ROOT_FILES[page]).read_text(encoding="utf-8")
    text = re.sub(r"\]\((?!\w+:|#)", "](../", text)
    source[0] = text.replace("](../docs/", "](")


def setup(app: Any) -> None:
    """Connect what cannot be said by a setting."""
    app.connect("autodoc-skip-member", _skip_inherited_machinery)
    app.connect("autodoc-process-docstring", _keep_absolute_values)
    app.connect("source-read", _root_file)
