"""Programs with one planted cause each, and what the first finding says of them."""
