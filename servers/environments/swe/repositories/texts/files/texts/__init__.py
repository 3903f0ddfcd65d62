from .compare import distance, similar
from .layout import columns, indent, wrap
from .names import slug, unique

__all__ = ["columns", "distance", "indent", "similar", "slug", "unique", "wrap"]
