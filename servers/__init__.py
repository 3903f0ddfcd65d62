"""gymwire's servers: write an environment once, serve it as NeMo Gym, OpenEnv and MCP."""

from .environment import DefinitionError, Environment, ToolError, tool
from .failures import SessionFailure
from .progress import report_progress
from .types import Ending, EpisodeId, Media, Outcome, Row, Tool, ToolResult, Transcript

__all__ = [
    "DefinitionError",
    "Ending",
    "Environment",
    "EpisodeId",
    "Media",
    "Outcome",
    "Row",
    "SessionFailure",
    "Tool",
    "ToolError",
    "ToolResult",
    "Transcript",
    "report_progress",
    "tool",
]
