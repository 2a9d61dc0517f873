"""HTTP: routes, callers, security, rendering and live updates."""
