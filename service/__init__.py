"""TOAST over HTTP: durable jobs, a worker process each (see `service/README.md`)."""
