"""Many watches over one WebSocket."""
