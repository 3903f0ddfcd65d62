"""Sessions that several processes share: their state is kept in Redis, and any replica goes on with any of them."""
