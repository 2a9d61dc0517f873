"""What waits for services to do it, in numbers for scalers and alerts."""
