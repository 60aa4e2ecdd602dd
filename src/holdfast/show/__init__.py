"""Tables, charts and numbers as people see them: drawn once for the terminal, the page and the notebook; no torch."""
