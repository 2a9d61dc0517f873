"""`lakelog up`: all services on this machine."""
