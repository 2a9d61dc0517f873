"""Every option of lakelog, declared once: key, type, default, meaning, scope, and whether it may change."""
