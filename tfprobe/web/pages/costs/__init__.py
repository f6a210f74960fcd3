"""What the nodes of a loop cost: pages by op, scope, graph and line of code, and its memory."""
