"""A live view of gymwire servers: `scrape` reads figures, `view` makes of them what is shown, `screen` shows it."""
