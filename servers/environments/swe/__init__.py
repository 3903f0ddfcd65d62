"""Small repositories with an injected bug, mended in a sandboxed workspace and judged by hidden tests."""
