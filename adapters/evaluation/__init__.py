"""`gymwire eval`: any OpenAI-compatible chat endpoint plays rows of any environment that a connection reaches."""
