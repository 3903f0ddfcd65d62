"""A thin GRPO trainer on TRL with a colocated vLLM. Importing this package imports neither."""
