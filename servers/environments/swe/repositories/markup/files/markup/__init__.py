from .blocks import to_html
from .inline import escape, inline

__all__ = ["escape", "inline", "to_html"]
