"""The database: schema, migrations, transactions and tenant-scoped queries."""
