"""How Sphinx builds the site: `make docs`, or `sphinx-build -W -b html docs site`.

Nothing is fetched from elsewhere when a page is read: MathJax lies in `_static`, fonts are those of
the system, and the search index is a file of the site.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
os.environ["PYTHONPATH"] = str(HERE.parent / "src")  # for the kernels of the notebooks

import equipoise  # noqa: E402

project = "equipoise"
author = "The equipoise developers"
copyright = "The equipoise developers, Apache 2.0"
version = release = equipoise.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "equipoise_docs",
]
exclude_patterns = ["_ext", "figures", "_static", "_templates"]
templates_path = ["_templates"]
nitpicky = True
# Types of other libraries, of private modules, and type variables have no entry here.
nitpick_ignore_regex = [
    ("py:.*", r"(?!equipoise\.).*"),
    ("py:.*", r"equipoise\.(\w+\.)*_.*"),
    (
        "py:.*",
        r"equipoise\.(core\.(results\.P|text\.About|schedules\.\w+|deadline\.\w+)|games\.families\.Draw)",
    ),
    ("py:.*", r"equipoise\.dynamics\.loop\.Sums"),
]

# Pages
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_update_mathjax = False
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {
    "options": {"enableMenu": False},
    "svg": {"fontCache": "local"},
    "tex": {
        "macros": {
            "E": r"\operatorname{\mathbb{E}}",
            "R": r"\mathbb{R}",
            "Var": r"\operatorname{Var}",
            "argmax": r"\operatorname*{arg\,max}",
            "argmin": r"\operatorname*{arg\,min}",
            "eps": r"\varepsilon",
            "abs": [r"\lvert #1 \rvert", 1],
            "norm": [r"\lVert #1 \rVert", 1],
        }
    },
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Notebooks: run once, and again when a cell changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / ".cache" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# API
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# Look
html_theme = "pydata_sphinx_theme"
html_title = "equipoise"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "gallery": []}
html_theme_options = {
    "logo": {"text": "equipoise"},
    "navbar_start": ["navbar-logo", "release"],
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
