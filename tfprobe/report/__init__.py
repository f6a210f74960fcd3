"""Turn answers into what people and programs read."""
