"""The pages of a browser: what they show, as JSON; the server that answers it; one file of all."""
