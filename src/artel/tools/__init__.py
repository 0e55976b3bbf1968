"""What agents can do: tools, each with a schema for the model, and the box that an agent has of them."""
