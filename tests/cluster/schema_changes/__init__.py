"""Schema changes that go with the stream: psp.ddl."""
