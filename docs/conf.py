"""Sphinx: pages in MyST, the API from docstrings by numpydoc; `make docs` treats every warning as an error."""

from __future__ import annotations

import dataclasses
import inspect
import runpy
import shutil
from pathlib import Path
from typing import Any

import fairopt_clusters as fc
from docutils import nodes
from fairopt_clusters.quotas import owed
from fairopt_clusters.report import cluster
from sphinx.addnodes import pending_xref
from sphinx.ext.autosummary.generate import generate_autosummary_docs
from sphinx.util.nodes import make_refnode

import fairopt as fo
from fairopt.blocks.base import Block

project = "fairopt"
author = "the fairopt authors"
version = release = fo.__version__
html_title = "fairopt"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "matplotlib.sphinxext.plot_directive",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "footer_start": ["sphinx-version"],
    "footer_end": ["theme-version"],
}
WITHOUT_PAGES_BELOW = (
    "index",
    "start",
    "notions",
    "properties",
    "questions",
    "papers",
    "files",
    "commands",
    "large",
    "code",
    "bibliography",
)
html_sidebars: dict[str, list[str]] = {page: [] for page in WITHOUT_PAGES_BELOW}
html_show_sourcelink = False
nitpicky = True

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

nb_execution_mode = "off"  # notebooks are shown as `make notebooks` left them
HERE = Path(__file__).parent
runpy.run_path(str(HERE / "refresh.py"))["write"]()  # what pages include from _build
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", dirs_exist_ok=True)  # Sphinx reads below its own folder

default_role = "autolink"  # a name in single backticks is a link where it is public, and in italics where it is not
autosummary_generate = False  # `write_stubs` does
autodoc_typehints = "none"  # numpydoc's sections say types, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them

plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("svg", 100)]
plot_rcparams = {"figure.autolayout": False}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ROOMS = (
    "derivatives",
    "errors",
    "exact",
    "online",
    "policies",
    "properties",
    "questions",
    "report",
    "scale",
    "tradeoff",
)
PLACES = {  # public names of rooms by what pages call them
    name: f"{room}.{name}" for room in ROOMS for name in getattr(fo, room).__all__ if name not in fo.__all__
}

vars(fc).update(quotas=owed.quotas, report=cluster.report)  # packages that are called, as the API shows them

BASES = (fo.Share, fo.Objective, fo.Constraint, fo.BundleBase)


def defaults_of_blocks(_app: Any, what: str, _name: str, obj: Any, _options: Any, signature: str, returns: str) -> Any:
    """Write the defaults of a dataclass out, ``share=DominantShare()``, where Python shows ``<factory>``."""
    if what != "class" or not dataclasses.is_dataclass(obj) or not signature:
        return None
    made = {f.name: f.default_factory for f in dataclasses.fields(obj) if f.default_factory is not dataclasses.MISSING}
    parameters = [
        p.replace(annotation=p.empty, default=made[p.name]() if p.name in made else p.default)
        for p in inspect.signature(obj).parameters.values()
    ]
    return str(inspect.Signature(parameters)), returns


def skip_methods_of_blocks(_app: Any, _what: str, _name: str, obj: Any, _skip: bool, _options: Any) -> Any:
    """Leave out methods of blocks: their base classes, `Share` and the others, document what they answer."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    kind = getattr(fo, getattr(function, "__qualname__", "").partition(".")[0], None)
    return True if isinstance(kind, type) and issubclass(kind, Block) and kind not in BASES else None


def resolve_from_the_top(app: Any, _env: Any, node: Any, contnode: Any) -> Any:
    """Link `Instance` in any module to `fairopt.Instance`; leave names that are not public as text."""
    if node.get("refdomain") != "py":
        return None
    domain = app.env.get_domain("py")
    known = {name.removeprefix("fairopt."): entry for name, entry in domain.objects.items()}
    first, dot, rest = node["reftarget"].removeprefix("fairopt.").partition(".")
    entry = known.get(node["reftarget"]) or known.get(PLACES.get(first, first) + dot + rest)
    if entry is None:
        return contnode
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, node["reftarget"])


def link_public_names(app: Any, doctree: nodes.document) -> None:
    """Link public names that pages write as code, such as ``Instance``, ``fo.check`` or ``Leximin(share)``."""
    if app.env.docname.startswith("generated/"):
        return
    for node in list(doctree.findall(nodes.literal)):
        text = node.astext()
        name = text.removeprefix("fo.").partition("(")[0]
        in_text = isinstance(node.parent, (nodes.paragraph, nodes.entry, nodes.strong))
        name = PLACES.get(name, name)
        public = name in fo.__all__ or name in PLACES.values()
        if in_text and public and (text[0].isupper() or text.startswith("fo.")):
            link = pending_xref(
                "",
                node.deepcopy(),
                refdomain="py",
                reftype="obj",
                reftarget=f"fairopt.{name}",
                refdoc=app.env.docname,
                refexplicit=True,
            )
            node.replace_self(link)


def write_stubs(app: Any) -> None:
    """Write a page for each public name; autosummary itself looks for names in pages, not in what these include."""
    names, folder = HERE / "_build" / "api.txt", HERE / "generated"
    generate_autosummary_docs([str(names)], output_dir=str(folder), base_path=str(HERE), app=app)


def setup(app: Any) -> None:
    """Connect the hooks above."""
    app.connect("builder-inited", write_stubs)
    app.connect("doctree-read", link_public_names)
    app.connect("missing-reference", resolve_from_the_top)
    app.connect("autodoc-process-signature", defaults_of_blocks)
    app.connect("autodoc-skip-member", skip_methods_of_blocks)
