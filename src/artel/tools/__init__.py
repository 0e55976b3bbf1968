"""Tools that agents can call, the policy that restricts them, and the toolbox of one agent."""
