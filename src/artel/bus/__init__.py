"""The bus: messages between processes, in memory or through RabbitMQ."""
