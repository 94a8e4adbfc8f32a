"""The documentation site: `make docs` builds it without a network, warnings are errors."""

import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extension"))
sys.path.insert(0, str(HERE.parent))

# Before JAX starts, here and in the notebooks: the fast setting says that they run, not how fast.
is_fast = "GIBBS_DP_FAST" in os.environ
if is_fast:
    sys.path.append(str(HERE.parent / "tests"))
    from xla_flags import compile_quickly

    compile_quickly(HERE / "build" / "programs")

import gibbs_dp  # noqa: E402

project = "gibbs_dp"
author = "The gibbs_dp authors"
copyright = author
release = version = gibbs_dp.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "api_pages",
    "report_pages",
    "command_pages",
    "explorer_page",
    "paper_pages",
    "copied_pages",
    "mathml",
    "shapes",
    "trust_pages",
    "links",
]
exclude_patterns = ["build", "extension", "paper", "tests"]

# What Jupyter logs while it runs notebooks; errors end the build.
logging.getLogger("traitlets").setLevel(logging.WARNING)

# -- pages ------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]  # a widget's, beside the text that is shown

# -- notebooks: run when the site is built, in the setting of the environment -------------
nb_execution_mode = os.environ.get("GIBBS_DP_NOTEBOOKS", "cache")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_execution_cache_path = str(HERE / "build" / ("fast" if is_fast else "full"))

# -- reference --------------------------------------------------------------------------
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = True
napoleon_use_ivar = True
napoleon_attr_annotations = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
html_math_renderer = "mathml"

# -- look ---------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"gibbs_dp {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
