"""Pictures that explain a table: data classes, functions that load them, and functions that draw them as SVG."""
